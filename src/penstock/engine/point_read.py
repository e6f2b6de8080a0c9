"""Queries that ask for the rows under a key: `SELECT a, b FROM v WHERE k = $1 AND s = 'x'`.

They are recognised by their tokens and answered from the state itself, without DuckDB, which takes longer to bind a
query than it takes to find a row. Whatever is not plainly of this form, or whose constants could mean another type
than the column has, is left to DuckDB.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa

from penstock.engine.catalog import Catalog, MaterializedView, Table, View
from penstock.engine.consolidate import consolidated
from penstock.sql.binding import Typed
from penstock.sql.tokens import Token, fold, string_value, tokenize, unquote
from penstock.state.finder import Finder, Key, Place, gathered
from penstock.state.newest import newest_place
from penstock.zset.column import Column
from penstock.zset.types import Schema, SqlType
from penstock.zset.zset import ZSet

# The values of each integer type that are looked up; those of HUGEINT as far as they fit the usual representation.
_INTEGERS = {
    "TINYINT": range(-(2**7), 2**7), "SMALLINT": range(-(2**15), 2**15), "INTEGER": range(-(2**31), 2**31),
    "BIGINT": range(-(2**63), 2**63), "HUGEINT": range(-(2**63), 2**63), "UTINYINT": range(2**8),
    "USMALLINT": range(2**16), "UINTEGER": range(2**32), "UBIGINT": range(2**64),
}  # fmt: skip


@dataclass(frozen=True)
class Placeholder:
    """The value comes with each run: the first is number 1."""

    number: int


@dataclass(frozen=True)
class PointRead:
    """`key` are the columns that are compared, `wanted` what each is compared with, `shown` the answer's columns."""

    relation: Table | MaterializedView
    key: tuple[int, ...]
    wanted: tuple[Any, ...]
    shown: tuple[int, ...]

    @cached_property
    def schema(self) -> Schema:
        schema = self.relation.schema
        names, types = schema.names, schema.types
        return Schema(tuple(names[i] for i in self.shown), tuple(types[i] for i in self.shown))

    @cached_property
    def _wanted(self) -> list[tuple[int | None, Any, range | None]]:
        """For each column of the key: the place of its value, or else the value; the integers that it can hold."""
        types = [self.relation.schema.types[position] for position in self.key]
        return [
            (w.number - 1, None, _INTEGERS.get(t.id)) if isinstance(w, Placeholder) else (None, w, _INTEGERS.get(t.id))
            for w, t in zip(self.wanted, types, strict=True)
        ]  # fmt: skip

    def values_of(self, values: Sequence[Any]) -> Key | None:
        """The key; None if a value could mean something else than a value of the column's type."""
        found: list[int | str] = []
        for place, value, integers in self._wanted:
            if place is not None:
                if place >= len(values):
                    return None
                value = values[place]
            if isinstance(value, Typed):
                if value.type not in _INTEGERS if integers is not None else value.type != "VARCHAR":
                    return None
                value = value.text
            if integers is not None:
                value = _integer(value, integers)
            elif not isinstance(value, str) or not _is_unicode(value):
                return None
            if value is None:
                return None
            found.append(value)
        return found

    @cached_property
    def _finder(self) -> Finder:
        return self.relation.finders.setdefault(self.key, Finder(self.key))

    def places(self, key: Key, index_rows_max: int) -> list[Place] | None:
        """Where the rows are, those that others take away too; None while there is no index for them."""
        relation = self.relation
        if isinstance(relation, MaterializedView):
            return self._finder.find(relation.contents.pieces(), key, index_rows_max)
        if relation.keyed is not None:
            return newest_place(relation.keyed, key)
        assert relation.bag is not None
        return self._finder.find(relation.bag.pieces(), key, index_rows_max)

    def rows(self, places: list[Place]) -> ZSet:
        """The rows at these places."""
        if not places:
            return _none(self.schema)
        found = gathered(places)
        if len(found) > 1 or found.weights[0] != 1:
            found = consolidated(found, self.relation.schema.types)
        return found.select(self.shown)


def _none(schema: Schema) -> ZSet:
    return ZSet(tuple(Column(t, _empty(t)) for t in schema.types), np.zeros(0, np.int64))


def _empty(type: SqlType) -> Any:
    return pa.nulls(0, type.arrow) if type.kind == "arrow" else np.zeros(0, type.numpy)


def _is_unicode(text: str) -> bool:
    """Whether it has bytes: half of a surrogate pair has none."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _integer(value: Any, integers: range) -> int | None:
    """The integer, if it is plainly one of these."""
    if isinstance(value, str):
        digits = value.removeprefix("-")
        if not digits.isascii() or not digits.isdigit() or len(digits) >= 20:
            return None
        value = int(value)
    elif not isinstance(value, int) or isinstance(value, bool):
        return None
    return value if value in integers else None


# -- recognising them ------------------------------------------------------------------------------


def point_read(catalog: Catalog, sql: str) -> PointRead | None:
    """The query as a look-up; None if it is none.

    >>> from penstock import Flow
    >>> flow = Flow()
    >>> _ = flow.sql("CREATE TABLE t (k BIGINT PRIMARY KEY, s TEXT)")
    >>> catalog = flow._core.catalog
    >>> found = point_read(catalog, "select s, k from t where k = $1")
    >>> found.key, found.wanted, found.shown
    ((0,), (Placeholder(number=1),), (1, 0))
    >>> point_read(catalog, "SELECT * FROM t WHERE k = 1.5"), point_read(catalog, "SELECT k FROM t WHERE s = 'x'")
    (None, None)
    >>> flow.close()
    """
    tokens = [t for t in tokenize(sql) if t.kind not in ("space", "comment")]
    if len(tokens) > 200 or len(tokens) < 8 or tokens[0].keyword != "SELECT":
        return None
    return _Reading(catalog, tokens).whole()


class _Other(Exception):
    """The query is not of the form."""


class _Reading:
    """Tokens from the front."""

    def __init__(self, catalog: Catalog, tokens: list[Token]) -> None:
        self._catalog = catalog
        self._tokens = tokens
        self._at = 1
        self._anonymous = 0

    def whole(self) -> PointRead | None:
        try:
            items = self._items()
            relation = self._relation()
            key, wanted = self._conditions(relation)
        except _Other:
            return None
        if isinstance(relation, Table) and relation.keyed is not None and key != relation.key:
            return None
        try:
            names = relation.schema.names
            shown = [names.index(name) for name in items] if items else list(range(len(names)))
        except ValueError:
            return None  # written in another case, or no column: DuckDB knows
        return PointRead(relation, key, wanted, tuple(shown))

    def _next(self) -> Token:
        if self._at >= len(self._tokens):
            raise _Other
        self._at += 1
        return self._tokens[self._at - 1]

    def _take(self, keyword: str) -> bool:
        found = self._at < len(self._tokens) and self._tokens[self._at].keyword == keyword
        self._at += found
        return found

    def _name(self) -> str:
        token = self._next()
        if token.kind not in ("word", "quoted"):
            raise _Other
        return unquote(token)

    def _qualified(self) -> tuple[str | None, str]:
        name = self._name()
        return (name, self._name()) if self._take(".") else (None, name)

    def _items(self) -> list[str]:
        """The columns that are asked for; none: all of them."""
        if self._take("*"):
            self._qualifiers: list[str] = []
            self._expect("FROM")
            return []
        found = [self._qualified()]
        while self._take(","):
            found.append(self._qualified())
        self._expect("FROM")
        self._qualifiers = [q for q, _ in found if q is not None]
        return [name for _, name in found]

    def _expect(self, keyword: str) -> None:
        if not self._take(keyword):
            raise _Other

    def _relation(self) -> Table | MaterializedView:
        schema, name = self._qualified()
        if schema is not None and fold(schema) not in ("public", "main"):
            raise _Other
        relation = self._catalog.find(name)
        if relation is None or isinstance(relation, View) or any(q != name for q in self._qualifiers):
            raise _Other
        names = [fold(n) for n in relation.schema.names]
        if len(set(names)) < len(names):
            raise _Other
        self._shown_name = name
        return relation

    def _conditions(self, relation: Table | MaterializedView) -> tuple[tuple[int, ...], tuple[Any, ...]]:
        self._expect("WHERE")
        names = [fold(n) for n in relation.schema.names]
        found: dict[int, Any] = {}
        while True:
            qualifier, name = self._qualified()
            if qualifier not in (None, self._shown_name) or fold(name) not in names:
                raise _Other
            self._expect("=")
            position = names.index(fold(name))
            if position in found:
                raise _Other
            found[position] = self._value(relation.schema.types[position])
            if self._at == len(self._tokens):
                break
            self._expect("AND")
        key = tuple(sorted(found))
        return key, tuple(found[position] for position in key)

    def _value(self, type: SqlType) -> Any:
        """What the column is compared with: of its own type, or a placeholder."""
        token = self._next()
        if token.kind == "parameter":
            return self._placeholder(token)
        if token.kind == "string" and type.id == "VARCHAR":
            return string_value(token)
        negative = token.keyword == "-"
        if negative:
            token = self._next()
        if token.kind == "number" and token.text.isdigit() and type.id in _INTEGERS:
            return -int(token.text) if negative else int(token.text)
        raise _Other

    def _placeholder(self, token: Token) -> Placeholder:
        if token.text == "?":
            self._anonymous += 1
            return Placeholder(self._anonymous)
        if not token.text[1:].isdigit() or len(token.text) > 6 or token.text[0] == "?":
            raise _Other
        return Placeholder(int(token.text[1:]))
