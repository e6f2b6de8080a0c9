"""Linear aggregates: which measures each keeps, and how its value follows from them.

A measure is a weighted sum over the rows of a group, so it changes by the sum over the delta. Every
group also keeps its number of rows (an empty group is absent, not zero), and every argument its
number of values (SUM of no values is NULL).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from penstock.base.errors import NotMaintainable, NumericOutOfRange
from penstock.kernels import floatsum, wide
from penstock.kernels.floatsum import UNITS, FloatSum
from penstock.plan.expr import Expr
from penstock.plan.nodes import Agg
from penstock.state.measures import Measure, arrays
from penstock.zset.column import Column, narrow, with_nulls
from penstock.zset.types import SqlType
from penstock.zset.zeros import unsigned

ROWS = "rows"


@dataclass(frozen=True)
class MeasureSpec:
    """One measure: its kind, over which argument, of which input (0, or a DISTINCT branch)."""

    kind: str  # rows, count, true, sum, squares, float_sum, float_squares
    arg: Expr | None = None
    filter: Expr | None = None
    input: int = 0


Finish = Callable[[Sequence[Measure]], Column]


def measures_of(agg: Agg, arg: Expr | None, filter: Expr | None, input: int) -> tuple[MeasureSpec, ...]:
    """The measures that an aggregate needs, in the order in which `finisher` takes them."""

    def spec(kind: str) -> MeasureSpec:
        return MeasureSpec(kind, arg, filter, input)

    if agg.name == "count_star":
        return (MeasureSpec("rows", None, filter, input),)
    assert arg is not None
    if agg.name == "count":
        return (spec("count"),)
    if agg.name in ("bool_and", "bool_or"):
        return (spec("count"), spec("true"))
    _check_numeric(agg, arg.type)
    total = "float_sum" if arg.type.is_float else "sum"
    if agg.name in ("sum", "avg"):
        return (spec("count"), spec(total))
    if agg.name in _VARIANCES:
        return (spec("count"), spec(total), spec("float_squares" if arg.type.is_float else "squares"))
    raise NotMaintainable(f"the aggregate {agg.name} cannot be maintained incrementally yet")


def _check_numeric(agg: Agg, type: SqlType) -> None:
    if not (type.is_numeric or type.id == "BOOLEAN"):
        raise NotMaintainable(f"{agg.name}({type}) cannot be maintained incrementally yet")


def measure(kind: str, column: Column | None, weights: np.ndarray, starts: np.ndarray) -> Measure:
    """The measure's change for each group; rows stand in group order."""
    if column is None:
        return wide.sum_groups(weights, None, starts)
    valid = column.validity()
    if valid is not None:
        weights = np.where(valid, weights, 0)
    if kind == "count":
        return wide.sum_groups(weights, None, starts)
    values = column.values
    if kind == "true":
        return wide.sum_groups(np.where(values, weights, 0), None, starts)
    if kind == "float_sum":
        return floatsum.from_values(values.astype(np.float64), weights).sum_groups(starts)
    if kind == "float_squares":
        return floatsum.from_squares(values.astype(np.float64), weights).sum_groups(starts)
    if values.dtype != object and values.dtype != np.int64:
        values = values.astype(object if values.dtype == np.uint64 else np.int64)
    if kind == "squares":
        values = wide.multiply(values, values)
    return wide.sum_groups(values, weights, starts)


def empty_measure(kind: str, count: int) -> Measure:
    return floatsum.zeros(count) if kind.startswith("float_") else np.zeros(count, np.int64)


def finisher(agg: Agg, arg_type: SqlType | None) -> Finish:
    """The function from an aggregate's measures to its values."""
    finish = _finisher(agg, arg_type)
    return (lambda x: unsigned(finish(x))) if agg.type.is_float else finish


def _finisher(agg: Agg, arg_type: SqlType | None) -> Finish:
    if agg.name in ("count", "count_star"):
        return lambda x: Column(agg.type, _counts(arrays(x)[0]))
    if agg.name == "bool_and":
        return lambda x: _every(agg.type, *arrays(x))
    if agg.name == "bool_or":
        return lambda x: _any(agg.type, *arrays(x))
    assert arg_type is not None
    if agg.name == "sum":
        return lambda x: _sum(agg.type, x)
    scale = 10**arg_type.scale if arg_type.id == "DECIMAL" else 1
    if agg.name == "avg":
        return lambda x: _average(agg.type, scale, x)
    sample, root = _VARIANCES[agg.name]
    return lambda x: _variance(agg.type, scale, sample, root, x)


# name: divide by n - 1 (else by n), take the root
_VARIANCES = {
    "var_samp": (True, False),
    "var_pop": (False, False),
    "stddev_samp": (True, True),
    "stddev_pop": (False, True),
}


def _counts(rows: np.ndarray) -> np.ndarray:
    found = narrow(rows)
    if found.dtype == object:
        raise NumericOutOfRange("a count has more than 64 bits", hint="Fewer rows, or smaller weights.")
    return found


def _every(type: SqlType, count: np.ndarray, true: np.ndarray) -> Column:
    return with_nulls(type, (count == true).astype(np.bool_), count > 0)


def _any(type: SqlType, count: np.ndarray, true: np.ndarray) -> Column:
    return with_nulls(type, (true > 0).astype(np.bool_), count > 0)


def _sum(type: SqlType, x: Sequence[Measure]) -> Column:
    count, total = x
    assert isinstance(count, np.ndarray)
    present = count > 0
    if isinstance(total, FloatSum):
        return with_nulls(type, total.values().astype(type.numpy), present)
    if type.is_float:
        return with_nulls(type, total.astype(type.numpy), present)
    if total.dtype == object:
        bound = 10 ** (type.width if type.id == "DECIMAL" else 38)
        if any(abs(v) >= bound for v in total.tolist()):
            raise NumericOutOfRange(f"SUM does not fit {type}", hint="Sum a column of a smaller scale.")
    return with_nulls(type, total, present)


def _average(type: SqlType, scale: int, x: Sequence[Measure]) -> Column:
    """The exact sum divided once: correctly rounded, whatever came and went before."""
    count, total = x
    assert isinstance(count, np.ndarray)
    present = count > 0
    safe = np.where(present, count, 1)
    if isinstance(total, FloatSum):
        return with_nulls(type, total.values() / safe, present)
    if total.dtype != object and scale <= 10**6 and _below(total, 2**53) and _below(safe, 2**53 // scale):
        return with_nulls(type, total / (safe * scale), present)
    pairs = zip(total.tolist(), safe.tolist(), strict=True)
    return with_nulls(type, np.array([t / (n * scale) for t, n in pairs], np.float64), present)


def _below(values: np.ndarray, bound: int) -> bool:
    return not len(values) or (int(values.max()) < bound and int(values.min()) > -bound)


def _variance(type: SqlType, scale: int, sample: bool, root: bool, x: Sequence[Measure]) -> Column:
    """(n * sum of squares - square of the sum) / (n * (n - 1)), exactly: never negative."""
    count, total, squares = x
    assert isinstance(count, np.ndarray)
    counts = count.tolist()
    if isinstance(total, FloatSum):
        assert isinstance(squares, FloatSum)
        totals, squared, unit = total.exact(), squares.exact(), UNITS
        finite = [a and b for (_, a), (_, b) in zip(totals, squared, strict=True)]
        sums, sums2 = [t for t, _ in totals], [s * UNITS for s, _ in squared]
    else:
        assert isinstance(squares, np.ndarray)
        sums, sums2, unit = total.tolist(), squares.tolist(), scale
        finite = [True] * len(sums)
    values = np.zeros(len(counts), np.float64)
    present = np.zeros(len(counts), np.bool_)
    for i, n in enumerate(counts):
        divisor = n - 1 if sample else n
        if divisor <= 0:
            continue
        present[i] = True
        if not finite[i]:
            values[i] = math.nan
            continue
        variance = max(0, n * sums2[i] - sums[i] ** 2) / (n * divisor * unit**2)
        values[i] = math.sqrt(variance) if root else variance
    return with_nulls(type, values, present)
