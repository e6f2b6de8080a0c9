"""Small changes to a client's text that leave everything in its place."""

from __future__ import annotations

from collections.abc import Collection

from penstock.sql.tokens import fold, tokenize


def without_catalog(sql: str, functions: Collection[str]) -> str:
    """`pg_catalog.version()` as `version()`, after as many spaces: these functions are the session's own.

    >>> without_catalog("select pg_catalog.version(), 'pg_catalog.version()'", {"version"})
    "select            version(), 'pg_catalog.version()'"
    """
    if "pg_catalog" not in sql.lower():
        return sql
    tokens = [t for t in tokenize(sql) if t.kind not in ("space", "comment")]
    for schema, dot, name, bracket in zip(tokens, tokens[1:], tokens[2:], tokens[3:], strict=False):
        wanted = (schema.keyword, dot.keyword, bracket.keyword) == ("PG_CATALOG", ".", "(")
        if wanted and fold(name.text) in functions:
            sql = sql[: schema.offset] + " " * (name.offset - schema.offset) + sql[name.offset :]
    return sql


def without_public(sql: str) -> str:
    """`public.orders` and `penstock.public.orders` as `orders`, after as many spaces: there is one schema.

    >>> without_public('SELECT "public"."t".id FROM penstock.public.t')
    'SELECT          "t".id FROM                 t'
    """
    if "public" not in sql.lower():
        return sql
    tokens = [t for t in tokenize(sql) if t.kind not in ("space", "comment")]
    words = [t.text.strip('"').lower() if t.kind in ("word", "quoted") else t.text for t in tokens]
    for i in range(len(tokens) - 2):
        if words[i : i + 2] != ["public", "."] or tokens[i + 2].kind not in ("word", "quoted"):
            continue
        first = i - 2 if i >= 2 and words[i - 2 : i] == ["penstock", "."] else i
        if first == 0 or words[first - 1] != ".":
            start, end = tokens[first].offset, tokens[i + 2].offset
            sql = sql[:start] + " " * (end - start) + sql[end:]
    return sql
