"""Columns of many rows in binary, as blocks: a matrix with the bytes of a value in each row, and which of them count.

In text Arrow's own casts are faster than digits put into such a matrix were.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from penstock.gateway import calendar as cal
from penstock.gateway import types as t
from penstock.gateway.types import ColumnType

_POWERS = 10 ** np.arange(19, dtype=np.uint64)
_DECIMAL_DIGITS_MAX = 18  # beyond that a value may not fit 64 bits
_BINARY_SCALE_MAX = 16


@dataclass(frozen=True)
class Block:
    """`data` has the bytes of each value in a row; `kept` says which of them (None: all); `lengths` how many they
    are, -1 for NULL."""

    data: np.ndarray
    kept: np.ndarray | None
    lengths: np.ndarray


def block(array: pa.Array, type: ColumnType) -> Block | None:
    """The bytes of a column; None for types whose values have no bound."""
    if type.depth or not len(array):
        return None
    found = _binary(array, type)
    if found is None or not array.null_count:
        return found
    valid = array.is_valid().to_numpy(zero_copy_only=False)
    kept = np.broadcast_to(valid[:, None], found.data.shape)
    if found.kept is not None:
        kept = kept & found.kept
    return Block(found.data, kept, np.where(valid, found.lengths, -1))


def _numbers(array: pa.Array) -> np.ndarray:
    """The values of an array of fixed width, anything under NULLs."""
    return array.fill_null(0).to_numpy(zero_copy_only=False)


def _fixed(data: np.ndarray) -> Block:
    return Block(data, None, np.full(len(data), data.shape[1], np.int64))


def _magnitudes(values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Which are negative, and all without their sign."""
    if values.dtype.kind == "u":
        return np.zeros(len(values), np.bool_), values.astype(np.uint64)
    negative = values < 0
    wide = values.astype(np.int64).view(np.uint64)
    return negative, np.where(negative, ~wide + np.uint64(1), wide)


def _unscaled(array: pa.Array) -> np.ndarray | None:
    """The integers behind decimals; None if they may not fit."""
    if array.type.precision > _DECIMAL_DIGITS_MAX:
        return None
    plain = array.fill_null(0)
    return np.frombuffer(plain.buffers()[1], np.int64)[0::2][plain.offset : plain.offset + len(plain)]


# -- binary ----------------------------------------------------------------------------------------

_FIXED = {t.INT2: ">i2", t.INT4: ">i4", t.INT8: ">i8", t.FLOAT4: ">f4", t.FLOAT8: ">f8"}


def _binary(array: pa.Array, type: ColumnType) -> Block | None:
    p = pa.types
    if type.pg is t.BOOL and p.is_boolean(array.type):
        return _fixed(array.fill_null(False).to_numpy(zero_copy_only=False).astype(np.uint8)[:, None])
    if type.pg in _FIXED and (p.is_integer(array.type) or p.is_floating(array.type)):
        return _bytes_of(_numbers(array).astype(_FIXED[type.pg]))
    if type.pg is t.TIME and p.is_time(array.type):
        return _bytes_of(_numbers(array.cast(pa.time64("us"), safe=False).view(pa.int64())).astype(">i8"))
    if type.pg is t.DATE and p.is_date32(array.type):
        days = _numbers(array.view(pa.int32())).astype(np.int64)
        if (np.abs(days) < cal.DATE_INFINITY).all():
            return _bytes_of((days - cal.EPOCH_DAYS).astype(">i4"))
    if type.pg in (t.TIMESTAMP, t.TIMESTAMPTZ) and p.is_timestamp(array.type):
        micros = _numbers(array.cast(pa.timestamp("us", array.type.tz), safe=False).view(pa.int64()))
        if (micros < cal.TIME_INFINITY).all() and (micros > -cal.TIME_INFINITY).all():
            return _bytes_of((micros - cal.EPOCH_US).astype(">i8"))
    if type.pg is t.NUMERIC and p.is_decimal128(array.type) and array.type.scale <= _BINARY_SCALE_MAX:
        unscaled = _unscaled(array)
        return None if unscaled is None else _numeric(*_magnitudes(unscaled), array.type.scale)
    return None


def _bytes_of(values: np.ndarray) -> Block:
    return _fixed(np.ascontiguousarray(values).view(np.uint8).reshape(len(values), -1))


def _numeric(negative: np.ndarray, values: np.ndarray, scale: int) -> Block:
    """Decimals as Postgres has them: a head of eight bytes, and groups of four digits without those that are zero at
    either end.

    >>> found = _numeric(np.array([False]), np.array([1234560], np.uint64), 2)
    >>> bytes(found.data[0][found.kept[0]]).hex(" ", 2)
    '0003 0001 0000 0002 0001 0929 1770'
    """
    rows, after = len(values), -(-scale // 4)
    unit = _POWERS[scale]
    whole = values // unit
    fraction = (values - whole * unit) * _POWERS[4 * after - scale]
    before = max(-(-len(str(int(whole.max()))) // 4), 1)
    groups = np.empty((rows, before + after), np.int64)
    for last, rest, number in ((before, whole, before), (before + after, fraction, after)):
        for i in range(last - 1, last - 1 - number, -1):
            groups[:, i] = rest % np.uint64(10_000)
            rest = rest // np.uint64(10_000)
    there = groups != 0
    some = there.any(axis=1)
    first = np.where(some, there.argmax(axis=1), 0)
    last_group = np.where(some, before + after - 1 - there[:, ::-1].argmax(axis=1), -1)
    count = last_group - first + 1
    data = np.empty((rows, 4 + before + after), ">i2")
    data[:, 0] = count
    data[:, 1] = np.where(some, before - 1 - first, 0)
    data[:, 2] = np.where(negative & some, 0x4000, 0)
    data[:, 3] = scale
    data[:, 4:] = groups
    place = np.arange(before + after)
    kept = np.ones((rows, 4 + before + after), np.bool_)
    kept[:, 4:] = (place >= first[:, None]) & (place <= last_group[:, None])
    return Block(data.view(np.uint8), np.repeat(kept, 2, axis=1), 8 + 2 * count)
