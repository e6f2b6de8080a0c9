"""What a session can answer without DuckDB: rows under a key, and queries that always have the same answer."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

import pyarrow as pa

from penstock.base.limits import REMEMBERED_ANSWERS_MAX, REMEMBERED_TEXT_MAX
from penstock.engine.access import Access
from penstock.engine.core import Core
from penstock.engine.point_read import PointRead, point_read
from penstock.engine.read import with_type_names
from penstock.engine.rights import require
from penstock.engine.showing import arrow_table
from penstock.sql.tokens import fold, tokenize
from penstock.state.finder import Place
from penstock.zset.zset import ZSet

# Types whose values DuckDB would give in the same Arrow type.
_PLAIN = (
    "BOOLEAN", "TINYINT", "SMALLINT", "INTEGER", "BIGINT", "UTINYINT", "USMALLINT", "UINTEGER", "UBIGINT", "FLOAT",
    "DOUBLE", "VARCHAR", "DATE", "TIME", "TIMESTAMP", "TIMESTAMP WITH TIME ZONE", "DECIMAL", "HUGEINT",
    "BLOB", "UUID", "JSON", "INTERVAL",
)  # fmt: skip
_WORDS = ("SELECT", "AS", "NULL", "TRUE", "FALSE")
_SYMBOLS = ("(", ")", ",", "+", "-", "*", "||")


class Found:
    """The rows of a point read, as they lie in the state."""

    __slots__ = ("_places", "_rows", "one", "read")

    def __init__(self, read: PointRead, places: list[Place]) -> None:
        self.read = read
        self._places = places
        self._rows: ZSet | None = None
        # As a rule it is one row, which is there once: nothing has to be put together.
        one = len(places) == 1 and places[0][0].weights.item(places[0][1]) == 1
        self.one: Place | None = places[0] if one else None

    @property
    def rows(self) -> ZSet:
        if self._rows is None:
            self._rows = self.read.rows(self._places)
        return self._rows

    @property
    def table(self) -> pa.Table:
        schema = self.read.schema
        return with_type_names(arrow_table(self.rows, schema), [t.duck for t in schema.types])


class AtOnce:
    """The texts that one session has come with. `functions` answer with a constant of the session's; `role` is who
    asks."""

    def __init__(self, functions: Collection[str] = (), role: str | None = None) -> None:
        self._functions = functions
        self._role = role
        self._reads: dict[str, PointRead | None] = {}
        self._reads_for: tuple[Core, int, Access] | None = None
        self._answers: dict[str, pa.Table] = {}

    def look(self, core: Core, sql: str) -> PointRead | None:
        """What a text asks for, if that is the rows under a key. Raises InsufficientPrivilege if the role may not
        read them."""
        catalog, known = core.catalog, self._reads_for
        # Whatever changes a definition or a right makes another number or another `Access`: what is remembered was
        # found, and allowed, under these.
        if (
            known is None
            or known[0] is not core
            or known[1] != catalog.changes
            or known[2] is not catalog.access
            or len(self._reads) >= REMEMBERED_ANSWERS_MAX
        ):
            self._reads.clear()
            self._reads_for = core, catalog.changes, catalog.access
        if sql in self._reads:
            return self._reads[sql]
        if len(sql) > REMEMBERED_TEXT_MAX:
            return None
        read = _plain(point_read(catalog, sql))
        if read is not None:
            require(catalog.access, self._role, "select", read.relation)
        self._reads[sql] = read
        return read

    def constant(self, sql: str) -> pa.Table | None:
        """The answer, if it has been given before and is always the same."""
        return self._answers.get(sql)

    def keep(self, sql: str, answer: pa.Table) -> None:
        """Remember an answer if it will always be the same."""
        if len(sql) > REMEMBERED_TEXT_MAX or answer.nbytes > REMEMBERED_TEXT_MAX:
            return
        if len(self._answers) >= REMEMBERED_ANSWERS_MAX:
            self._answers.clear()
        if sql not in self._answers and is_constant(sql, self._functions):
            self._answers[sql] = answer


def found_rows(read: PointRead, values: Sequence[Any], index_rows_max: int) -> Found | None:
    """The rows under a key; None if they cannot be found this way."""
    key = read.values_of(values)
    places = None if key is None else read.places(key, index_rows_max)
    return None if places is None else Found(read, places)


def _plain(read: PointRead | None) -> PointRead | None:
    if read is None or any(t.id not in _PLAIN for t in read.schema.types):
        return None
    return read


def is_constant(sql: str, functions: Collection[str]) -> bool:
    """Whether a query consists of literals and calls of these functions alone.

    >>> is_constant("SELECT 1 AS n, 'x'", ()), is_constant("SELECT now()", ()), is_constant("SELECT f()", {"f"})
    (True, False, True)
    """
    tokens = [t for t in tokenize(sql) if t.kind not in ("space", "comment")]
    before = ""
    for token, after in zip(tokens, [*tokens[1:], None], strict=True):
        known = token.kind in ("number", "string") or token.keyword in (*_WORDS, *_SYMBOLS)
        called = after is not None and after.keyword == "(" and fold(token.text) in functions
        if not (known or called or (before == "AS" and token.kind in ("word", "quoted"))):
            return False
        before = token.keyword
    return bool(tokens) and tokens[0].keyword == "SELECT"
