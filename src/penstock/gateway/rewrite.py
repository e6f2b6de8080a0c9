"""Small changes to a client's text that leave everything in its place."""

from __future__ import annotations

from collections.abc import Collection

from penstock.gateway.decode import bytea
from penstock.sql.tokens import Token, fold, tokenize


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


def with_plain_bytes(sql: str) -> str:
    r"""Constants of bytea as DuckDB reads them, which takes `\xdead` for one byte and two letters.

    >>> with_plain_bytes(r"SELECT '\xdead'::bytea, bytea '\x00', CAST('\xff' AS bytea), '\xdead'")
    "SELECT unhex('dead')  , unhex('00') , unhex('ff')          , '\\xdead'"
    """
    if "bytea" not in sql.lower() or "\\" not in sql:
        return sql
    tokens = [t for t in tokenize(sql) if t.kind not in ("space", "comment")]
    for place in range(len(tokens) - 1, -1, -1):  # from the end, so that what is before stays where it is
        text = _backslashed(tokens[place])
        span = None if text is None else _cast_to_bytea(tokens, place)
        if text is not None and span is not None:
            start, end = span
            made = f"unhex('{bytea(text).hex()}')"
            sql = sql[:start] + made.ljust(end - start) + sql[end:]
    return sql


def _backslashed(token: Token) -> str | None:
    """The text of a constant that has a backslash in it: '...' or E'...'."""
    text = token.text
    if token.kind != "string" or "\\" not in text or text[0] not in "'eE":
        return None
    plain = text[text.index("'") + 1 : -1].replace("''", "'")
    return plain if text[0] == "'" else plain.replace("\\\\", "\\").replace("\\'", "'")


def _cast_to_bytea(tokens: list[Token], place: int) -> tuple[int, int] | None:
    """Where a constant stands with what makes it a bytea: `'...'::bytea`, `CAST('...' AS bytea)`, `bytea '...'`."""
    words = [t.keyword for t in tokens[max(place - 2, 0) : place + 5]]
    at = min(place, 2)
    before, after = words[:at], words[at + 1 :]
    if after[:2] == ["::", "BYTEA"] and after[2:3] != ["["]:
        return tokens[place].offset, tokens[place + 2].end
    if before == ["CAST", "("] and after[:3] == ["AS", "BYTEA", ")"]:
        return tokens[place - 2].offset, tokens[place + 3].end
    if before[-1:] == ["BYTEA"] and before[-2:-1] not in (["::"], ["AS"], ["."]):
        return tokens[place - 1].offset, tokens[place].end
    return None
