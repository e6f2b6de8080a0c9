"""Weights that are all the same, as after most loads: one number in memory, seen many times.

A numpy array of stride 0 reads as any other array does. Nobody writes to weights, so nothing else changes;
only copying them (take, concatenate) would make them long again, which these functions avoid.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from penstock.base.errors import NumericOutOfRange
from penstock.base.limits import FEW_ROWS_MAX, JOINED_WEIGHT_MAX

# Below this many rows a plain array costs less than looking whether all weights are equal.
_ROWS_MIN = 4096
_ONE = np.ones(1, np.int64)
_ONE.flags.writeable = False


def constant(value: int, count: int) -> np.ndarray:
    """The same weight for each row.

    >>> weights = constant(-1, 10_000)
    >>> int(weights.sum()), nbytes(weights)
    (-10000, 8)
    """
    one = _ONE if value == 1 else np.array((value,), np.int64)
    return one if count == 1 else np.ndarray((count,), np.int64, one, strides=(0,))


def compacted(weights: np.ndarray) -> np.ndarray:
    """The same weights, as one number if they are many and equal."""
    if len(weights) < _ROWS_MIN or weights.strides == (0,) or not all_are(weights, weights[0]):
        return weights
    return constant(int(weights[0]), len(weights))


def is_constant(weights: np.ndarray) -> bool:
    """True where the weights are one number in memory (False says nothing about their values)."""
    return weights.strides == (0,)


def any_negative(weights: np.ndarray) -> bool:
    if len(weights) <= FEW_ROWS_MAX or weights.strides == (0,):
        return any(w < 0 for w in weights[:FEW_ROWS_MAX].tolist())
    return bool((weights < 0).any())


def take(weights: np.ndarray, index: np.ndarray) -> np.ndarray:
    """The weights at these positions (or where this mask is true)."""
    if weights.strides == (0,) and index.dtype != np.bool_ and len(weights):
        return np.ndarray((len(index),), np.int64, weights[:1], strides=(0,))
    return weights[index]


def concat(parts: Sequence[np.ndarray]) -> np.ndarray:
    """One below the other; many equal ones as one number."""
    if len(parts) == 1:
        return parts[0]
    if sum([len(p) for p in parts]) < _ROWS_MIN:
        return np.concatenate(parts)
    parts = [p for p in parts if len(p)]
    first = parts[0][0]
    if parts[0].dtype == np.int64 and all(all_are(p, first) for p in parts):
        return constant(int(first), sum([len(p) for p in parts]))
    return np.concatenate(parts)


def times(given: np.ndarray, stored: np.ndarray) -> np.ndarray:
    """The weights of joined rows; raises NumericOutOfRange where one is beyond JOINED_WEIGHT_MAX.

    >>> times(np.array([1, -2]), np.array([3, 1]))
    array([ 3, -2])
    """
    # What is stored has the weight 1 almost always: seen at a glance, before anything else is looked at.
    if len(stored) and np.bitwise_or.reduce(stored) not in (0, 1):
        largest = int(np.abs(given).max()) * int(np.abs(stored).max())
        if largest > JOINED_WEIGHT_MAX and any(
            abs(a * b) > JOINED_WEIGHT_MAX for a, b in zip(given.tolist(), stored.tolist(), strict=True)
        ):
            raise NumericOutOfRange(
                f"a row of a join would stand there more than {JOINED_WEIGHT_MAX} times (JOINED_WEIGHT_MAX)",
                hint="Join fewer rows that are alike, or give them smaller weights.",
            )
    return given * stored


def all_are(weights: np.ndarray, value: np.int64) -> bool:
    """Whether every weight is this one."""
    if weights.strides == (0,):
        return bool(weights[0] == value)
    # Most arrays that differ do so at once: the last row decides before all are looked at.
    return bool(weights[-1] == value and (weights == value).all())


def nbytes(weights: np.ndarray) -> int:
    """Bytes of memory that they take."""
    return weights.itemsize if weights.strides == (0,) else weights.nbytes
