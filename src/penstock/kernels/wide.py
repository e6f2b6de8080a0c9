"""Exact arithmetic on arrays of int64, or of Python integers where some value does not fit.

Every function takes either form on either side, broadcasts, and gives int64 wherever the results
fit: never a wrapped number. One row is the common case of a small change, so it has a path of its own.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from penstock.zset.column import INT64_MAX, INT64_MIN, narrow
from penstock.zset.weights import is_constant

_LOW_HALF = np.int64(0xFFFFFFFF)


def exact(values: np.ndarray) -> np.ndarray:
    """Integers of any width (or booleans) as int64, or as Python integers if they do not fit."""
    if values.dtype == np.int64 or values.dtype == object:
        return values
    if values.dtype == np.uint64 and values.size and int(values.max()) > INT64_MAX:
        return values.astype(object)
    return values.astype(np.int64)


def magnitude(values: np.ndarray) -> int:
    """The largest absolute value, 0 for an empty array."""
    if values.size == 0:
        return 0
    return max(int(values.max()), -int(values.min()))


def one(value: int) -> np.ndarray:
    """An array of this one integer."""
    if INT64_MIN <= value <= INT64_MAX:
        return np.array((value,), np.int64)
    wide = np.empty(1, object)
    wide[0] = value
    return wide


def integers(values: Sequence[int]) -> np.ndarray:
    """Python integers as an array."""
    if min(values) >= INT64_MIN and max(values) <= INT64_MAX:
        return np.array(values, np.int64)
    wide = np.empty(len(values), object)
    wide[:] = values
    return wide


def _objects(function: Callable[[Any, Any], Any], a: np.ndarray, b: np.ndarray) -> np.ndarray:
    result = function(a.astype(object), b.astype(object))
    return narrow(np.asarray(result, object))


def add(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """a + b.

    >>> add(np.array([2**62, 1]), np.array([2**62, 1])).tolist()
    [9223372036854775808, 2]
    """
    if a.size == 1 and b.size == 1:
        return one(a.item() + b.item())
    if a.dtype == object or b.dtype == object:
        return _objects(operator.add, a, b)
    total = a + b
    if (((a ^ total) & (b ^ total)) < 0).any():  # both operands have the sign that the sum has not
        return _objects(operator.add, a, b)
    return total


def subtract(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """a - b."""
    if a.size == 1 and b.size == 1:
        return one(a.item() - b.item())
    if a.dtype == object or b.dtype == object:
        return _objects(operator.sub, a, b)
    rest = a - b
    if (((a ^ b) & (a ^ rest)) < 0).any():
        return _objects(operator.sub, a, b)
    return rest


def multiply(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """a * b.

    >>> multiply(np.array([2**40, 3]), np.array([2**40, 5])).tolist()
    [1208925819614629174706176, 15]
    """
    if a.size == 1 and b.size == 1:
        return one(a.item() * b.item())
    if a.dtype == object or b.dtype == object or magnitude(a) * magnitude(b) > INT64_MAX:
        return _objects(operator.mul, a, b)
    return a * b


def negate(a: np.ndarray) -> np.ndarray:
    """-a."""
    if a.size == 1:
        return one(-a.item())
    if a.dtype == object or (a == INT64_MIN).any():
        return narrow(-a.astype(object))
    return -a


def divide(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """a / b, cut off towards zero. No b is zero.

    >>> divide(np.array([-7, 7]), np.array([2, -2])).tolist()
    [-3, -3]
    """
    if a.dtype == object or b.dtype == object or ((a == INT64_MIN).any() and (b == -1).any()):
        return _objects(np.frompyfunc(truncating, 2, 1), a, b)
    return (a - np.fmod(a, b)) // b


def remainder(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """What `divide` leaves: it has the sign of a. No b is zero."""
    if a.dtype == object or b.dtype == object:
        return _objects(lambda x, y: x - y * np.frompyfunc(truncating, 2, 1)(x, y), a, b)
    return np.fmod(a, b)


def truncating(a: int, b: int) -> int:
    """The quotient of two Python integers, cut off towards zero."""
    quotient = abs(a) // abs(b)
    return quotient if (a < 0) == (b < 0) else -quotient


def rescale(a: np.ndarray, digits: int) -> np.ndarray:
    """a * 10**digits; for negative digits rounded half away from zero, as SQL does.

    >>> rescale(np.array([125, -125, 124]), -1).tolist()
    [13, -13, 12]
    """
    if digits == 0:
        return a
    if digits > 0:
        return multiply(a, one(10**digits))
    power = 10**-digits
    if a.size == 1:
        value = a.item()
        rounded = (abs(value) + power // 2) // power
        return one(rounded if value >= 0 else -rounded)
    if a.dtype == object or power > INT64_MAX:
        wide = a.astype(object)
        rounded_wide = (abs(wide) + power // 2) // power
        return narrow(np.asarray(np.where(wide < 0, -rounded_wide, rounded_wide), object))
    half = power // 2
    quotient, rest = np.divmod(a, power)  # floored, so 0 <= rest < power
    # Exactly half goes up for positive numbers and down, which is staying, for negative ones.
    return quotient + ((rest > half) | ((rest == half) & (a >= 0)))


def sum_groups(values: np.ndarray, weights: np.ndarray | None, starts: np.ndarray) -> np.ndarray:
    """The sum of values * weights (None: of values) over each run of rows that begins in `starts`.

    >>> sum_groups(np.array([5, 7, 2**62]), np.array([1, -1, 4]), np.array([0, 2])).tolist()
    [-2, 18446744073709551616]
    """
    count = values.size
    if weights is None:
        if count <= 1:
            return values
        if is_constant(values):
            lengths = np.empty(len(starts), np.int64)
            np.subtract(starts[1:], starts[:-1], out=lengths[:-1])
            lengths[-1] = count - starts[-1]
            return multiply(lengths, values[:1])
        if values.dtype != object and magnitude(values) * count <= INT64_MAX:
            return np.add.reduceat(values, starts)
        weights = np.ones(count, np.int64)
    if count == 1:
        return one(values.item() * weights.item())
    if count == 0:
        return np.zeros(0, np.int64)
    values = exact(values)
    if values.dtype == object or weights.dtype == object:
        return _sum_objects(values, weights, starts)
    weight_max = magnitude(weights)
    if magnitude(values) * weight_max * count <= INT64_MAX:
        return np.add.reduceat(values * weights, starts)
    if weight_max * count >= 2**31:
        return _sum_objects(values, weights, starts)
    return _sum_halves(values, weights, starts)


def _sum_objects(values: np.ndarray, weights: np.ndarray, starts: np.ndarray) -> np.ndarray:
    products = values.astype(object) * weights.astype(object)
    return narrow(np.asarray(np.add.reduceat(products, starts), object))


def _sum_halves(values: np.ndarray, weights: np.ndarray, starts: np.ndarray) -> np.ndarray:
    """High and low 32 bits summed apart: with sum|weight| < 2**31 neither half can overflow."""
    high = np.add.reduceat((values >> 32) * weights, starts)
    low = np.add.reduceat((values & _LOW_HALF) * weights, starts)
    high = high + (low >> 32)
    low = low & _LOW_HALF
    if ((high >= -(2**31)) & (high < 2**31)).all():
        return (high << 32) | low
    return high.astype(object) * 2**32 + low.astype(object)
