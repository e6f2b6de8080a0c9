"""Zeros without a sign: -0.0 and 0.0 are equal, but not the same to all who look (as text, by their sign).

State adds equal rows up, and keeps one of them. So that it does not matter which, a zero loses its sign where a row
enters a table and where an expression has been worked out; inside an expression it has it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from penstock.zset.column import Column, from_pylist
from penstock.zset.few import Few
from penstock.zset.types import SqlType
from penstock.zset.zset import ZSet


def may_have_zeros(type: SqlType) -> bool:
    """Whether there are floats in values of this type.

    >>> from penstock.zset.types import BIGINT, DOUBLE, list_of
    >>> may_have_zeros(DOUBLE), may_have_zeros(list_of(DOUBLE)), may_have_zeros(list_of(BIGINT))
    (True, True, False)
    """
    return type.is_float or any(may_have_zeros(child) for _, child in type.children)


def places_of_zeros(types: Sequence[SqlType]) -> tuple[int, ...]:
    """The columns that may have zeros with a sign."""
    return tuple([place for place, type in enumerate(types) if may_have_zeros(type)])


def unsigned(column: Column) -> Column:
    """The column with 0.0 for -0.0, itself where there is none.

    >>> from penstock.zset.types import DOUBLE, list_of
    >>> unsigned(from_pylist(DOUBLE, [-0.0, -1.5])), unsigned(from_pylist(list_of(DOUBLE), [[-0.0, None], None]))
    (Column(DOUBLE, [0.0, -1.5]), Column(DOUBLE[], [[0.0, None], None]))
    """
    if column.type.is_float:
        values = column.values
        if not _is_signed(values).any():
            return column
        return Column(column.type, values + values.dtype.type(0), column.valid)
    if not _has_signed(column.values):
        return column
    return from_pylist(column.type, [_unsigned(value) for value in column.values.to_pylist()])


def unsigned_rows(rows: ZSet, positions: Sequence[int]) -> ZSet:
    """The rows with 0.0 for -0.0 in these columns, themselves where there is none."""
    if rows.__class__ is Few and not any(_is_signed_zero(row[p]) for row in rows.rows for p in positions):
        return rows
    columns = list(rows.columns)
    for position in positions:
        columns[position] = unsigned(columns[position])
    if all(new is old for new, old in zip(columns, rows.columns, strict=True)):
        return rows
    return ZSet(tuple(columns), rows.weights)


def _is_signed_zero(value: float | None) -> bool:
    return value == 0 and math.copysign(1, value) < 0


def _is_signed(values: np.ndarray) -> np.ndarray:
    return (values == 0) & np.signbit(values)


def _has_signed(array: pa.Array) -> bool:
    """Whether a -0.0 is somewhere in nested values; what lies outside of a slice may be counted too."""
    kind = array.type
    if pa.types.is_floating(kind):
        return bool(_is_signed(np.asarray(array.drop_null())).any())
    if pa.types.is_map(kind):
        return _has_signed(array.keys) or _has_signed(array.items)
    if pa.types.is_struct(kind):
        return any(_has_signed(array.field(i)) for i in range(kind.num_fields))
    return _has_signed(array.values) if pa.types.is_nested(kind) else False


def _unsigned(value: Any) -> Any:
    """A nested value as pyarrow gives it: lists, dicts, and tuples for the pairs of a map."""
    if isinstance(value, float):
        return value + 0.0
    if isinstance(value, (list, tuple)):
        return type(value)(_unsigned(item) for item in value)
    if isinstance(value, dict):
        return {key: _unsigned(item) for key, item in value.items()}
    return value
