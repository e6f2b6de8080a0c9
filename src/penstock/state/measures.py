"""Measures: what a batch keeps for each row and merges by adding.

A measure is an array of int64 (weights, counts, sums that fit), of Python integers (sums that do
not fit) or a `FloatSum`. All of them add exactly.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

import numpy as np

from penstock.kernels import floatsum, wide
from penstock.kernels.floatsum import FloatSum
from penstock.zset import weights

Measure: TypeAlias = np.ndarray | FloatSum


def arrays(measures: Sequence[Measure]) -> Sequence[np.ndarray]:
    """The same measures, for callers that know that none is a `FloatSum`: weights and counts."""
    return measures  # type: ignore[return-value]


def take(measure: Measure, index: np.ndarray) -> Measure:
    return measure.take(index) if isinstance(measure, FloatSum) else weights.take(measure, index)


def slice_rows(measure: Measure, start: int, stop: int) -> Measure:
    if isinstance(measure, FloatSum):
        return FloatSum(measure.ids, measure.limbs[start:stop])
    return measure[start:stop]


def concat(parts: Sequence[Measure]) -> Measure:
    if isinstance(parts[0], FloatSum):
        return floatsum.concat(parts)  # type: ignore[arg-type]
    return weights.concat(parts)  # type: ignore[arg-type]


def plus(a: Measure, b: Measure) -> Measure:
    if isinstance(a, FloatSum):
        assert isinstance(b, FloatSum)
        return a.plus(b)
    return wide.add(a, b)  # type: ignore[arg-type]


def sum_groups(measure: Measure, starts: np.ndarray) -> Measure:
    """Sums over the runs that begin at `starts`."""
    if len(starts) == len(measure):
        return measure
    if isinstance(measure, FloatSum):
        return measure.sum_groups(starts)
    return wide.sum_groups(measure, None, starts)


def nbytes(measure: Measure) -> int:
    """Bytes of memory that the measure takes."""
    return measure.nbytes if isinstance(measure, FloatSum) else weights.nbytes(measure)


def zeros_like(measure: Measure, count: int) -> Measure:
    return floatsum.zeros(count) if isinstance(measure, FloatSum) else np.zeros(count, np.int64)


def add_at(total: Measure, rows: np.ndarray, part: Measure) -> Measure:
    """`total` with `part` added at these rows (each row at most once)."""
    if isinstance(total, FloatSum):
        assert isinstance(part, FloatSum)
        spread = FloatSum(part.ids, np.zeros((len(total), len(part.ids)), np.int64))
        spread.limbs[rows] = part.limbs
        return total.plus(spread)
    sums = wide.add(total[rows], part)  # type: ignore[arg-type]
    total = total.astype(object) if sums.dtype == object else total.copy()
    total[rows] = sums
    return total


def nonzero(measure: Measure) -> np.ndarray:
    if isinstance(measure, FloatSum):
        return measure.nonzero()
    return (measure != 0).astype(np.bool_) if measure.dtype == object else measure != 0


def any_nonzero(measures: Sequence[Measure]) -> np.ndarray:
    """True for the rows in which some measure is not zero."""
    keep = nonzero(measures[0])
    for measure in measures[1:]:
        keep = keep | nonzero(measure)
    return keep
