"""Exact sums of floats, so that taking away what was added restores the state exactly.

A double is an integer of 53 bits times a power of two. We cut it at fixed multiples of 32 bits into
at most three limbs and add limbs as 64-bit integers: addition is then exact, associative and
commutative, and what cancels is zero. NaN and the infinities are counted in limbs of their own.
Only the limbs that occur are stored: ordinary data has three to six.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from penstock.base.errors import LimitExceeded, NumericOutOfRange
from penstock.base.limits import FLOAT_SUM_ROWS_MAX

# The least bit of the least double, after frexp has normalised it to 53 bits: 2**-1126.
_BASE_EXPONENT = 1126
_NAN, _PLUS_INFINITY, _MINUS_INFINITY = 1000, 1001, 1002
_LOW32 = np.int64(0xFFFFFFFF)


class FloatSum:
    """A column of exact sums: `limbs[i, k]` counts units of limb `ids[k]` in row i."""

    __slots__ = ("ids", "limbs")

    def __init__(self, ids: tuple[int, ...], limbs: np.ndarray) -> None:
        self.ids = ids
        self.limbs = limbs

    def __len__(self) -> int:
        return len(self.limbs)

    @property
    def nbytes(self) -> int:
        return int(self.limbs.nbytes)

    def take(self, index: np.ndarray) -> FloatSum:
        return FloatSum(self.ids, self.limbs[index])

    def nonzero(self) -> np.ndarray:
        return np.logical_or.reduce(self.limbs, axis=1) if self.ids else np.zeros(len(self.limbs), np.bool_)

    def negative(self) -> FloatSum:
        return FloatSum(self.ids, -self.limbs)

    def _with(self, ids: tuple[int, ...]) -> np.ndarray:
        """The limbs laid out by a superset of our ids."""
        if ids == self.ids:
            return self.limbs
        wide = np.zeros((len(self.limbs), len(ids)), np.int64)
        for k, limb in enumerate(self.ids):
            wide[:, ids.index(limb)] = self.limbs[:, k]
        return wide

    def plus(self, other: FloatSum) -> FloatSum:
        ids = _union((self, other))
        return FloatSum(ids, self._with(ids) + other._with(ids))

    def sum_groups(self, starts: np.ndarray) -> FloatSum:
        """Sums over the runs that begin at `starts`."""
        if not self.ids:
            return FloatSum((), np.zeros((len(starts), 0), np.int64))
        return FloatSum(self.ids, np.add.reduceat(self.limbs, starts, axis=0))

    def values(self) -> np.ndarray:
        """Each exact sum rounded once to the nearest double."""
        return np.array([_round(self.ids, row) for row in self.limbs.tolist()], np.float64)

    def exact(self) -> list[tuple[int, bool]]:
        """Each sum in units of 2**-1126, and whether it is finite."""
        return [(_units(self.ids, row), _special(self.ids, row) is None) for row in self.limbs.tolist()]


UNITS = 1 << _BASE_EXPONENT


def _union(sums: Sequence[FloatSum]) -> tuple[int, ...]:
    first = sums[0].ids
    if all(s.ids == first for s in sums):
        return first
    return tuple(sorted({limb for s in sums for limb in s.ids}))


def zeros(count: int) -> FloatSum:
    return FloatSum((), np.zeros((count, 0), np.int64))


def concat(sums: Sequence[FloatSum]) -> FloatSum:
    ids = _union(sums)
    return FloatSum(ids, np.concatenate([s._with(ids) for s in sums]))


def from_values(values: np.ndarray, weights: np.ndarray) -> FloatSum:
    """Each value times its weight, exactly.

    >>> from_values(np.array([0.1, 0.2]), np.array([3, -1])).values().tolist()
    [0.30000000000000004, -0.2]
    """
    finite = np.isfinite(values)
    mantissa, exponent = np.frexp(np.where(finite, values, 0.0))
    return _split(
        (mantissa * 2.0**53).astype(np.int64), exponent.astype(np.int64) - 53, values, finite, weights
    )


def from_squares(values: np.ndarray, weights: np.ndarray) -> FloatSum:
    """Each value's square times its weight, exactly: the product of 53-bit integers has 106 bits."""
    finite = np.isfinite(values)
    mantissa, exponent = np.frexp(np.where(finite, values, 0.0))
    whole = np.abs((mantissa * 2.0**53).astype(np.int64))
    e = 2 * (exponent.astype(np.int64) - 53)
    high, low = whole >> 27, whole & np.int64((1 << 27) - 1)
    squares = np.where(np.isnan(values), np.nan, np.inf)  # what a value that is not finite counts as
    # (high * 2**27 + low)**2, each product within 54 bits. Squares below the least unit round to it.
    parts = ((high * high, e + 54), (2 * high * low, e + 27), (low * low, e))
    total = _split(parts[0][0], parts[0][1], squares, finite, weights)
    for whole_part, exponent_part in parts[1:]:
        total = total.plus(_split(whole_part, exponent_part, squares, np.ones_like(finite), weights))
    return total


def _split(
    whole: np.ndarray, exponent: np.ndarray, values: np.ndarray, finite: np.ndarray, weights: np.ndarray
) -> FloatSum:
    """whole * 2**exponent * weight as limbs; rows that are not finite are counted apart."""
    count = len(whole)
    if count and int(np.abs(weights).max()) * count > FLOAT_SUM_ROWS_MAX >> 2:
        raise LimitExceeded("more than 2**29 float values in one step of a sum", hint="Split the delta.")
    position = exponent + _BASE_EXPONENT
    tiny = position < 0  # squares of tiny values: below the least unit we keep, so cut off there
    if tiny.any():
        whole = np.where(tiny, np.where(position > -63, whole >> np.minimum(-position, 62), 0), whole)
        position = np.maximum(position, 0)
    sign, whole = np.sign(whole) * weights, np.abs(whole)
    limb, shift = position >> 5, position & 31
    low, high = (whole & _LOW32) << shift, (whole >> 32) << shift
    pieces = (low & _LOW32, (low >> 32) + (high & _LOW32), high >> 32)
    bases = sorted(set(limb[(whole != 0)].tolist()))
    ids = sorted({b + k for b in bases for k in range(3)})
    specials = _specials(values, finite)
    limbs = np.zeros((count, len(ids) + len(specials)), np.int64)
    for base in bases:
        rows = slice(None) if len(bases) == 1 else np.flatnonzero(limb == base)
        for k in range(3):
            limbs[rows, ids.index(base + k)] += (pieces[k] * sign)[rows]
    for k, (_, mask) in enumerate(specials):
        limbs[:, len(ids) + k] = np.where(mask, weights, 0)
    return _compact(FloatSum((*ids, *(i for i, _ in specials)), limbs))


def _specials(values: np.ndarray, finite: np.ndarray) -> list[tuple[int, np.ndarray]]:
    if finite.all():
        return []
    odd = ~finite
    found = (
        (_NAN, np.isnan(values)),
        (_PLUS_INFINITY, values == np.inf),
        (_MINUS_INFINITY, values == -np.inf),
    )
    return [(i, mask & odd) for i, mask in found if (mask & odd).any()]


def _compact(sums: FloatSum) -> FloatSum:
    """Without limbs that are zero everywhere."""
    if not len(sums.limbs) or not sums.ids:
        return sums
    used: np.ndarray = np.logical_or.reduce(sums.limbs, axis=0)
    if used.all():
        return sums
    return FloatSum(tuple(i for i, u in zip(sums.ids, used.tolist(), strict=True) if u), sums.limbs[:, used])


def _special(ids: tuple[int, ...], row: list[int]) -> float | None:
    counts = {i: n for i, n in zip(ids, row, strict=True) if i >= _NAN and n}
    if not counts:
        return None
    if _NAN in counts or len(counts) > 1:
        return math.nan
    return math.inf if _PLUS_INFINITY in counts else -math.inf


def _units(ids: tuple[int, ...], row: list[int]) -> int:
    return sum(n << (32 * i) for i, n in zip(ids, row, strict=True) if i < _NAN)


def _round(ids: tuple[int, ...], row: list[int]) -> float:
    if ids and ids[-1] >= _NAN:
        special = _special(ids, row)
        if special is not None:
            return special
    units = _units(ids, row)
    try:
        return units / UNITS
    except OverflowError:
        raise NumericOutOfRange(
            "the sum of a DOUBLE column is too large for a DOUBLE", hint="Cast the column to DECIMAL."
        ) from None
