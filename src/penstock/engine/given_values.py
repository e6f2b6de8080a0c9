"""Values that users hand to tick(), Python's or Arrow's, as a column of a type: nothing is cut off, nothing guessed."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.engine.given_numbers import Unfit, exact
from penstock.engine.given_text import text_of_type
from penstock.zset.column import Column, from_pylist
from penstock.zset.interchange import from_arrow
from penstock.zset.types import SqlType

_INFINITIES = (float("inf"), float("-inf"))
# What reading a value may raise, in pyarrow, numpy and Python: that it does not fit.
NO_FIT = (pa.ArrowException, ValueError, TypeError, OverflowError, ArithmeticError)


def of_values(values: Sequence[Any], type: SqlType) -> Column:
    """Python values as a column. Raises one of NO_FIT if one does not fit."""
    _check_classes(values, type)
    try:
        column = text_of_type(from_pylist(type, exact(values, type)))
        if type.id == "FLOAT" and any(v in _INFINITIES for v in column.values.tolist()):
            _check_finite(column, pa.array(values))
        return column
    except Unfit:
        raise
    except NO_FIT as error:
        try:
            return of_array(pa.array(values), type)  # for example str to DATE
        except NO_FIT:
            raise error from None


def of_array(array: pa.Array | pa.ChunkedArray, type: SqlType) -> Column:
    """An Arrow array as a column. Raises one of NO_FIT if it does not fit."""
    if (type.children or type.id == "HUGEINT") and _rounds(array.type, type):
        return from_pylist(type, exact(array.to_pylist(), type))
    column = text_of_type(from_arrow(array, type))
    if type.id == "FLOAT" and pa.types.is_float64(array.type):
        _check_finite(column, array)
    return column


@lru_cache(maxsize=1024)
def _rounds(arrow: pa.DataType, type: SqlType, inside: bool = False) -> bool:
    """Whether Arrow's cast would round numbers in another way than `exact`, or refuse them for nothing: those that
    become HUGEINT, and those that become DECIMAL inside other values."""
    p = pa.types
    if type.id == "HUGEINT":
        return bool(p.is_floating(arrow))
    if type.id == "DECIMAL":
        return inside and bool(p.is_floating(arrow) or p.is_integer(arrow))
    if type.id in ("LIST", "ARRAY") and (
        p.is_list(arrow) or p.is_large_list(arrow) or p.is_fixed_size_list(arrow)
    ):
        return _rounds(arrow.value_type, type.children[0][1], True)
    if type.id == "STRUCT" and p.is_struct(arrow):
        fields = {field.name: field.type for field in arrow}
        return any(name in fields and _rounds(fields[name], child, True) for name, child in type.children)
    if type.id == "MAP" and p.is_map(arrow):
        (_, key), (_, item) = type.children
        return _rounds(arrow.key_type, key, True) or _rounds(arrow.item_type, item, True)
    return False


def _check_classes(values: Sequence[Any], type: SqlType) -> None:
    """Raise Unfit for what pyarrow takes for a value of another type: text for a number, True for 1."""
    refused: tuple[Any, ...] = ()
    if type.is_text:
        refused = (int, float, bool, bytes)
    elif type.is_numeric:
        refused = (str, bool)
    elif type.id == "BOOLEAN":
        refused = (str,)
    if refused and not {v.__class__ for v in values}.isdisjoint(refused):
        raise Unfit(next(v for v in values if v.__class__ in refused), type)


def _check_finite(column: Column, given: pa.Array | pa.ChunkedArray) -> None:
    """Raise OverflowError if a number has become infinite: Arrow narrows floats without looking."""
    if np.isinf(column.values).sum() > (pc.sum(pc.is_inf(given)).as_py() or 0):
        raise OverflowError("a number is too large for it")
