"""The rows of an answer, with the columns that are announced for them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import inf
from typing import Protocol

import pyarrow as pa

from penstock.base.limits import ENCODE_BYTES_MAX, ENCODE_ROWS_MAX, PLAIN_ROWS_MAX
from penstock.engine.read import type_names
from penstock.gateway.backend import Field, row_description
from penstock.gateway.encode import data_rows
from penstock.gateway.errors import ResultTypeChanged, WrongNumber
from penstock.gateway.types import ColumnType, column_type
from penstock.zset.interchange import sql_type_of

_CALL = re.compile(r'"?(\w+)"?(\(.*\))', re.DOTALL)
_BRACKET = re.compile(r"[()]")


def column_name(name: str) -> str:
    """The name that Postgres gives to a column that is the call of a function.

    >>> column_name('"version"()'), column_name("count_star()"), column_name("max(a)"), column_name("f(a) + g(b)")
    ('version', 'count', 'max', 'f(a) + g(b)')
    """
    call = _CALL.fullmatch(name)
    if call is None or call[1] == "CAST" or not _closes_at_the_end(call[2]):
        return name
    return "count" if call[1] == "count_star" else call[1]


def _closes_at_the_end(text: str) -> bool:
    """Whether the bracket that a text begins with is closed by its last character."""
    depth = 0
    for bracket in _BRACKET.finditer(text):  # a value of megabytes may stand between them
        depth += 1 if bracket[0] == "(" else -1
        if not depth:
            return bracket.end() == len(text)
    return False


def answer_types(table: pa.Table) -> list[ColumnType]:
    """The types of an answer: as DuckDB said, or of what Arrow has."""
    names = type_names(table)
    if names is None:
        names = [sql_type_of(t).duck for t in table.schema.types]
    return [column_type(name) for name in names]


def spread(formats: Sequence[int], count: int) -> list[int]:
    """One format for each column: none means text, one is for all."""
    if len(formats) == count:
        return list(formats)
    if len(formats) > 1:
        raise WrongNumber(f"{len(formats)} formats for {count} columns")
    return [formats[0] if formats else 0] * count


def fields(columns: Sequence[tuple[str, ColumnType]], formats: Sequence[int]) -> list[Field]:
    pairs = zip(columns, spread(formats, len(columns)), strict=True)
    return [Field(column_name(name), t.oid, t.size, t.modifier, format) for (name, t), format in pairs]


def check_announced(announced: Sequence[ColumnType] | None, types: Sequence[ColumnType]) -> None:
    if announced is not None and [t.oid for t in announced] != [t.oid for t in types]:
        raise ResultTypeChanged(
            "cached plan must not change result type", hint="Prepare the statement again."
        )


def _portion_rows(table: pa.Table) -> int:
    """How many of these rows are put into bytes at a time."""
    rows: int = table.num_rows
    if rows <= PLAIN_ROWS_MAX:
        return ENCODE_ROWS_MAX
    return max(1, min(ENCODE_ROWS_MAX, ENCODE_BYTES_MAX * rows // max(table.nbytes, 1)))


class Rows(Protocol):
    """Where rows come from, a portion at a time: see `engine.stream.Stream`."""

    def next(self) -> pa.Table | None: ...

    def close(self) -> None: ...


@dataclass
class Result:
    """Rows that are fetched from the front: those of `table`, then those of `more`. `at` of them are gone."""

    table: pa.Table
    types: list[ColumnType]
    formats: list[int]
    more: Rows | None = None
    at: int = 0

    def __post_init__(self) -> None:
        self.names: list[str] = self.table.column_names
        self._place = 0  # in `table`
        self._portion = _portion_rows(self.table)

    @staticmethod
    def of(
        table: pa.Table, formats: Sequence[int], announced: Sequence[ColumnType] | None = None,
        more: Rows | None = None,
    ) -> Result:  # fmt: skip
        """The bytes are those of the types that were announced: if the answer has others now, it is refused."""
        types = answer_types(table)
        check_announced(announced, types)
        return Result(table, types, spread(formats, len(types)), more)

    @property
    def columns(self) -> list[tuple[str, ColumnType]]:
        return list(zip(self.names, self.types, strict=True))

    @property
    def description(self) -> bytes:
        """RowDescription."""
        return row_description(fields(self.columns, self.formats))

    @property
    def at_hand(self) -> float:
        """How many rows are there to be taken; without end, where they are still to be worked out."""
        return inf if self.more is not None else self.table.num_rows - self._place

    def take(self, count: int | None) -> pa.Table | None:
        """Some of the next rows, at most `count` (None: as many as come at a time); None after the last."""
        while self._place >= self.table.num_rows:
            found = None if self.more is None else self.more.next()
            if found is None:
                self.more = None
                return None
            self.table, self._place, self._portion = found, 0, _portion_rows(found)
        left = self.table.num_rows - self._place
        size = min(left, self._portion if count is None else min(count, self._portion))
        whole = size == self.table.num_rows
        rows = self.table if whole else self.table.slice(self._place, size)
        self._place += size
        self.at += size
        return rows

    def portions(self, count: int | None) -> Iterator[pa.Table]:
        """The next rows, `count` of them or all."""
        stop = None if count is None else self.at + count
        while stop is None or self.at < stop:
            rows = self.take(None if stop is None else stop - self.at)
            if rows is None:
                return
            yield rows

    def skip(self, count: int | None) -> int:
        """Go on without reading; how many rows that were."""
        return sum([rows.num_rows for rows in self.portions(count)])

    def fetch(self, count: int | None) -> Iterator[bytes]:
        """DataRow messages for the next rows (None: all), a portion at a time."""
        for rows in self.portions(count):
            yield data_rows(rows, self.types, self.formats)

    def window(self, count: int | None, formats: list[int]) -> Result:
        """The next rows as a result of their own, which are taken from this one as they are asked for."""
        found = Result(self.table.slice(0, 0), self.types, formats, Window(self, count))
        found.names = self.names
        return found

    def close(self) -> None:
        """The rows that are left are not wanted."""
        if self.more is not None:
            self.more.close()
            self.more = None
        self.table = self.table.slice(0, 0)


class Window:
    """The next rows of a result, so many or all."""

    def __init__(self, source: Result, count: int | None) -> None:
        self._portions = source.portions(count)

    def next(self) -> pa.Table | None:
        return next(self._portions, None)

    def close(self) -> None:
        """The rows stay where they are."""
