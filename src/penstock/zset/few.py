"""A Z-set of a few rows as Python values, which becomes columns when somebody asks for them.

An array of one number costs what an array of a thousand costs. Most ticks are of one row, and on its way from the
table through the operators to a watch that row is a tuple: whoever works on columns finds them all the same.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from penstock.base.errors import NumericOutOfRange
from penstock.zset.column import Column
from penstock.zset.types import SqlType
from penstock.zset.zset import ZSet, union

Row = tuple[Any, ...]

# One object for every NaN: tuples, sets and dicts then take it for equal to itself, as SQL does.
NAN = math.nan
_UPDATE = [-1, 1]
_TEXTS = frozenset(("VARCHAR", "JSON", "UUID", "BLOB"))


class Few(ZSet):
    """Rows as tuples of what the columns would hold (dates as days, decimals as scaled integers), None for NULL.

    Two rows are equal where their tuples are.

    >>> from penstock.zset.types import BIGINT, VARCHAR
    >>> rows = Few((BIGINT, VARCHAR), [(1, "a"), (2, None)], [1, -1])
    >>> rows.columns[0], rows
    (Column(BIGINT, [1, 2]), ZSet([((1, 'a'), 1), ((2, None), -1)]))
    """

    __slots__ = ("counts", "rows", "types")

    def __init__(self, types: tuple[SqlType, ...], rows: list[Row], counts: list[int]) -> None:
        self.types = types
        self.rows = rows
        self.counts = counts  # the weights, none of them zero

    def __getattr__(self, name: str) -> Any:
        # Only what has not been set comes here: columns and weights are made once.
        if name == "columns":
            self.columns = columns_of(self.types, self.rows)
            return self.columns
        if name == "weights":
            self.weights = np.array(self.counts, np.int64)
            return self.weights
        raise AttributeError(name)

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def width(self) -> int:
        return len(self.types)

    def without_pairs(self) -> ZSet:
        rows, counts = self.rows, self.counts
        if counts == _UPDATE:
            return Few(self.types, [], []) if rows[0] == rows[1] else self
        return self if len(rows) < 2 else super().without_pairs()

    def select(self, positions: Sequence[int]) -> ZSet:
        types = self.types
        rows = [tuple([row[p] for p in positions]) for row in self.rows]
        return Few(tuple([types[p] for p in positions]), rows, self.counts)

    def take(self, index: np.ndarray) -> ZSet:
        if index.dtype == np.bool_:
            return self.filter(index)
        rows, counts, places = self.rows, self.counts, index.tolist()
        return Few(self.types, [rows[i] for i in places], [counts[i] for i in places])

    def negate(self) -> ZSet:
        return Few(self.types, self.rows, [-count for count in self.counts])

    def may_have_nulls(self, positions: Sequence[int]) -> bool:
        return True

    def has_nulls(self, position: int) -> bool:
        return any(row[position] is None for row in self.rows)

    def removes(self) -> bool:
        counts = self.counts
        return counts[0] < 0 if len(counts) == 1 else min(counts, default=0) < 0

    def nbytes(self) -> int:
        texts = sum([len(v) for row in self.rows for v in row if isinstance(v, (str, bytes))])
        return texts + 8 * len(self.rows) * (1 + len(self.types))


def is_plain(type: SqlType) -> bool:
    """Whether values of this type can stand in a tuple: numbers and texts, not what is nested."""
    return type.kind != "arrow" or type.id in _TEXTS


def values_of(column: Column) -> list[Any]:
    """The values of a column, as they stand in tuples if it is of a plain type; None for NULL in any case."""
    values: list[Any]
    if column.type.kind == "arrow":
        values = column.values.to_pylist()
        return values
    values = column.values.tolist()
    if column.type.is_float:
        values = [v if v == v else NAN for v in values]
    if column.valid is not None:
        values = [v if there else None for v, there in zip(values, column.valid.tolist(), strict=True)]
    return values


def values_at(rows: ZSet, position: int) -> list[Any]:
    """The values of the column at a position: without making a column of tuples."""
    return (
        [row[position] for row in rows.rows] if isinstance(rows, Few) else values_of(rows.columns[position])
    )


def row_at(columns: Sequence[Column], at: int) -> Row:
    """One row of columns of plain types."""
    return tuple([value_at(column, at) for column in columns])


def stands_at(row: Row, columns: Sequence[Column], at: int) -> bool:
    """Whether the columns have this row there; they are of plain types."""
    for wanted, column in zip(row, columns, strict=True):
        value = value_at(column, at)
        if value is not wanted and value != wanted:
            return False
    return True


def value_at(column: Column, at: int) -> Any:
    """One value of a column of a plain type, as it stands in tuples."""
    if column.type.kind == "arrow":
        return column.values[at].as_py()
    if column.valid is not None and not column.valid.item(at):
        return None
    value = column.values.item(at)
    return value if value == value else NAN


def column_of(type: SqlType, values: Sequence[Any]) -> Column:
    """The other way round."""
    if type.kind == "arrow":
        return Column(type, pa.array(values, type.arrow))
    valid = None
    if None in values:
        valid = np.array([v is not None for v in values], np.bool_)
        values = [0 if v is None else v for v in values]
    try:
        return Column(type, np.array(values, type.numpy), valid)
    except OverflowError:
        if type.kind != "wide":
            raise NumericOutOfRange(f"a value does not fit {type}") from None
        wide = np.empty(len(values), object)
        wide[:] = values
        return Column(type, wide, valid)


def columns_of(types: Sequence[SqlType], rows: Sequence[Row]) -> tuple[Column, ...]:
    if not rows:
        return tuple([column_of(type, ()) for type in types])
    return tuple([column_of(t, values) for t, values in zip(types, zip(*rows, strict=True), strict=True)])


def gathered(parts: Sequence[ZSet]) -> ZSet:
    """The sum of many small Z-sets: those of tuples become columns together, and not one by one."""
    few = [part for part in parts if isinstance(part, Few)]
    if len(few) < 2:
        return union(parts)
    rows = [row for part in few for row in part.rows]
    whole = Few(few[0].types, rows, [count for part in few for count in part.counts])
    return union([whole, *[part for part in parts if not isinstance(part, Few)]])
