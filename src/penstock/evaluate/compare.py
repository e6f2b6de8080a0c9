"""Comparisons of all types: NULL gives NULL, NaN equals NaN and is greater than everything else."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.evaluate.forms import Builder, Compiler, Eval, both_valid, masked, one_null, spread
from penstock.plan.expr import Call
from penstock.zset.column import Column
from penstock.zset.types import BOOLEAN, SqlType

# Up to this many rows Python beats the fixed cost of Arrow's compute functions.
SMALL_ROWS_MAX = 6

_SYMBOLS: dict[str, tuple[Callable[[Any, Any], Any], str]] = {
    "=": (operator.eq, "equal"),
    "<>": (operator.ne, "not_equal"),
    "<": (operator.lt, "less"),
    "<=": (operator.le, "less_equal"),
    ">": (operator.gt, "greater"),
    ">=": (operator.ge, "greater_equal"),
}


def builder(name: str) -> Builder:
    """The builder for one of = <> < <= > >=."""

    def build(call: Call, compiler: Compiler) -> Eval | None:
        a, b = (arg.type for arg in call.args)
        if not _comparable(a, b):
            return None
        left, right = (compiler.compile(arg) for arg in call.args)
        if a.kind == "arrow":
            return _text_comparison(name, left, right)
        compare = _float_comparison(name) if a.is_float else _SYMBOLS[name][0]

        def run(columns: Sequence[Column], count: int) -> Column:
            x, y = left(columns, count), right(columns, count)
            found = compare(x.values, y.values)
            if found.dtype != np.bool_:  # of Python integers
                found = found.astype(np.bool_)
            if x.valid is None and y.valid is None:
                return Column(BOOLEAN, found)
            return masked(BOOLEAN, found, both_valid(x, y))

        return run

    return build


def _comparable(a: SqlType, b: SqlType) -> bool:
    """Held in the same form, so that comparing what is held compares the values."""
    if a.kind == "arrow" or b.kind == "arrow":
        return a == b and a.id in ("VARCHAR", "BLOB")
    if a == b:
        return True
    if a.id == b.id == "DECIMAL":
        return a.scale == b.scale
    return a.is_integer and b.is_integer and "UBIGINT" not in (a.id, b.id)


def _float_comparison(name: str) -> Callable[[np.ndarray, np.ndarray], np.ndarray]:
    """numpy's NaN compares false with everything: add what is missing, only where a NaN is there."""
    plain = _SYMBOLS[name][0]

    def compare(x: np.ndarray, y: np.ndarray) -> np.ndarray:
        found = plain(x, y)
        nan_x, nan_y = x != x, y != y
        if not (nan_x.any() or nan_y.any()):
            return found
        # As integers NaN ranks above every number: 1 > 0, 1 = 1.
        return np.where(nan_x | nan_y, plain(nan_x.astype(np.int8), nan_y.astype(np.int8)), found)

    return compare


def _text_comparison(name: str, left: Eval, right: Eval) -> Eval:
    plain, arrow_name = _SYMBOLS[name]
    vector = getattr(pc, arrow_name)
    null = one_null(BOOLEAN)

    def run(columns: Sequence[Column], count: int) -> Column:
        x, y = left(columns, count).values, right(columns, count).values
        if len(x) == 1 and len(y) == 1:
            # Code points order as their UTF-8 bytes do, so Python's comparison is the same.
            a, b = x[0].as_py(), y[0].as_py()
            return null if a is None or b is None else Column(BOOLEAN, np.array((plain(a, b),), np.bool_))
        return from_arrow_bool(vector(*broadcast(x, y)))

    return run


def broadcast(x: pa.Array, y: pa.Array) -> tuple[Any, Any]:
    """Arrow compares arrays of one length, or an array and a scalar."""
    if len(x) == len(y):
        return x, y
    return (x[0], y) if len(x) == 1 else (x, y[0])


def from_arrow_bool(array: pa.Array) -> Column:
    """An Arrow array of booleans as a column."""
    if array.null_count == 0:
        return Column(BOOLEAN, array.to_numpy(zero_copy_only=False))
    valid = array.is_valid().to_numpy(zero_copy_only=False)
    return Column(BOOLEAN, array.fill_null(False).to_numpy(zero_copy_only=False), valid)


def build_is_distinct(call: Call, compiler: Compiler) -> Eval | None:
    return _distinct(call, compiler, equal=False)


def build_is_not_distinct(call: Call, compiler: Compiler) -> Eval | None:
    return _distinct(call, compiler, equal=True)


def _distinct(call: Call, compiler: Compiler, equal: bool) -> Eval | None:
    """Never NULL: two NULLs are the same."""
    comparison = builder("=")(call, compiler)
    if comparison is None:
        return None
    left, right = (compiler.compile(arg) for arg in call.args)

    def run(columns: Sequence[Column], count: int) -> Column:
        same = comparison(columns, count)
        if same.valid is None:
            return same if equal else Column(BOOLEAN, ~same.values)
        nulls_x = spread(left(columns, count), len(same)).is_null()
        nulls_y = spread(right(columns, count), len(same)).is_null()
        values = same.values | (nulls_x & nulls_y)  # the value under a NULL is False
        return Column(BOOLEAN, values if equal else ~values)

    return run
