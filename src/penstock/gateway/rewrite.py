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
