"""The rows of an answer, with the columns that are announced for them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa

from penstock.base.limits import ENCODE_ROWS_MAX
from penstock.engine.read import type_names
from penstock.gateway.backend import Field
from penstock.gateway.encode import data_rows
from penstock.gateway.errors import NotSupported, WrongNumber
from penstock.gateway.types import ColumnType, column_type
from penstock.zset.interchange import sql_type_of

_CALL = re.compile(r'"?(\w+)"?\(\)')


def column_name(name: str) -> str:
    """The name that Postgres gives to a column that is a call of a function without arguments.

    >>> column_name('"version"()'), column_name("count_star()"), column_name("a")
    ('version', 'count', 'a')
    """
    call = _CALL.fullmatch(name)
    if call is None:
        return name
    return "count" if call[1] == "count_star" else call[1]


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


@dataclass
class Result:
    """Rows that are fetched from the front."""

    table: pa.Table
    types: list[ColumnType]
    formats: list[int]
    at: int = 0

    @staticmethod
    def of(table: pa.Table, formats: Sequence[int], announced: Sequence[ColumnType] | None = None) -> Result:
        """The bytes are those of the types that were announced: if the answer has others now, it is refused."""
        types = answer_types(table)
        if announced is not None and [t.oid for t in announced] != [t.oid for t in types]:
            raise NotSupported("cached plan must not change result type", hint="Prepare the statement again.")
        return Result(table, types, spread(formats, len(types)))

    @property
    def columns(self) -> list[tuple[str, ColumnType]]:
        return list(zip(self.table.column_names, self.types, strict=True))

    @property
    def left(self) -> int:
        return self.table.num_rows - self.at

    def skip(self, count: int | None) -> int:
        """Go on without reading; how many rows that were."""
        taken = self.left if count is None else min(count, self.left)
        self.at += taken
        return taken

    def fetch(self, count: int | None, formats: Sequence[int] | None = None) -> Iterator[bytes]:
        """DataRow messages for the next rows (None: all), a portion at a time."""
        stop = self.at + (self.left if count is None else min(count, self.left))
        while self.at < stop:
            size = min(stop - self.at, ENCODE_ROWS_MAX)
            rows = self.table.slice(self.at, size)
            self.at += size
            yield data_rows(rows, self.types, self.formats if formats is None else formats)
