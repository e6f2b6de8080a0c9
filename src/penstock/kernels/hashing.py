"""The key hash: 64 bits, fixed by us, the same on every machine and in every process.

State is sorted by it and partitions are ranges of it, so it is part of the state format: a change
here is a new HASH_VERSION. Equal values hash alike whatever their width (INTEGER 1 and BIGINT 1),
NaN is one value, -0.0 is 0.0. Different values may hash alike: whoever uses a hash compares the
values too. COLLIDE_BITS lets tests force collisions.
"""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from penstock.base.limits import FEW_ROWS_MAX, HASH_WORDS_BYTES_MAX
from penstock.native import kernels
from penstock.zset.column import Column

HASH_VERSION = 1

# For tests: keep only this many of the top bits of every hash, so that different keys collide.
COLLIDE_BITS: int | None = None

_M1, _M2, _M3 = 0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB
_N1, _N2, _N3 = np.uint64(_M1), np.uint64(_M2), np.uint64(_M3)
_S29, _S32, _S3 = np.uint64(29), np.uint64(32), np.uint64(3)
_MASK = (1 << 64) - 1
_NULL_HASH = 0x5851F42D4C957F2D
_NAN_BITS = 0x7FF8000000000000
_BLOCK_ROWS = 1 << 15
_DOUBLE, _DOUBLE_BITS = struct.Struct("<d").pack, struct.Struct("<Q").unpack


def hash_columns(columns: Sequence[Column], count: int) -> np.ndarray:
    """One hash for each row over these columns; no columns: all rows hash alike."""
    if not columns:
        return np.zeros(count, np.uint64)
    if count <= FEW_ROWS_MAX:
        return np.array(hash_few(columns, count), np.uint64)
    if kernels is not None:
        found = _hash_compiled(columns, count)
        if found is not None:
            return found
    hashes = _hash_column(columns[0], count)
    for column in columns[1:]:
        hashes = _mix((hashes * _S3) ^ _hash_column(column, count))
    if COLLIDE_BITS is not None:
        hashes = hashes & np.uint64(_MASK ^ (_MASK >> COLLIDE_BITS))
    return hashes


def _hash_compiled(columns: Sequence[Column], count: int) -> np.ndarray | None:
    """`hash_columns` in compiled code; None where it does not know a type, or a text is long."""
    kept = _MASK if COLLIDE_BITS is None else _MASK ^ (_MASK >> COLLIDE_BITS)
    try:
        return kernels.hash(columns, count, HASH_WORDS_BYTES_MAX, kept)
    except TypeError:
        return None


def hash_few(columns: Sequence[Column], count: int) -> list[int]:
    """`hash_columns` of a few rows, as Python integers: at this size faster than arrays."""
    if not columns:
        return [0] * count
    hashes = _hash_values(columns[0])
    for column in columns[1:]:
        more = _hash_values(column)
        hashes = [_mix_int(((a * 3) & _MASK) ^ b) for a, b in zip(hashes, more, strict=True)]
    if COLLIDE_BITS is not None:
        hashes = [h & (_MASK ^ (_MASK >> COLLIDE_BITS)) for h in hashes]
    return hashes


def hash_plain(values: Sequence[int | str | bytes | float | None]) -> int:
    """`hash_columns` of one row of plain values (integers of 64 bits, texts, floats, None): a key that is looked up.

    >>> from penstock.zset.column import from_pylist
    >>> from penstock.zset.types import BIGINT, DOUBLE
    >>> row = [from_pylist(BIGINT, [-7]), from_pylist(DOUBLE, [0.5]), from_pylist(DOUBLE, [None])]
    >>> hash_plain([-7, 0.5, None]) == int(hash_columns(row, 1)[0])
    True
    """
    hash = 0
    for place, value in enumerate(values):
        if isinstance(value, int):
            found = _mix_int(value)
        elif value is None:
            found = _NULL_HASH
        elif isinstance(value, float):
            found = _mix_int(_DOUBLE_BITS(_DOUBLE(value + 0.0))[0] if value == value else _NAN_BITS)
        else:
            found = _hash_one(_as_bytes(value))
        hash = _mix_int(((hash * 3) & _MASK) ^ found) if place else found
    return hash if COLLIDE_BITS is None else hash & (_MASK ^ (_MASK >> COLLIDE_BITS))


def _hash_values(column: Column) -> list[int]:
    values = column.values
    if column.type.kind == "arrow":
        kind = values.type
        if pa.types.is_large_string(kind) or pa.types.is_large_binary(kind):
            hashes = [_hash_one(_as_bytes(v)) for v in values.to_pylist()]
        else:
            hashes = [_hash_object(v) for v in values.to_pylist()]
    elif values.dtype == object:
        hashes = [_hash_big(v) for v in values.tolist()]
    elif values.dtype.kind == "f":
        bits = (values.astype(np.float64) + 0.0).view(np.uint64).tolist()
        hashes = [_mix_int(b if v == v else _NAN_BITS) for b, v in zip(bits, values.tolist(), strict=True)]
    else:
        hashes = []
        for v in values.tolist():  # _mix_int, without a call: the usual key
            x = (v * _M1) & _MASK
            x = ((x ^ (x >> 29)) * _M2) & _MASK
            hashes.append(x ^ (x >> 32))
        valid = column.valid
        return hashes if valid is None else _with_null_hash(hashes, valid)
    valid = column.validity()
    return hashes if valid is None else _with_null_hash(hashes, valid)


def _with_null_hash(hashes: list[int], valid: np.ndarray) -> list[int]:
    return [h if v else _NULL_HASH for h, v in zip(hashes, valid.tolist(), strict=True)]


def is_exact(columns: Sequence[Column]) -> bool:
    """True where equal hashes prove equal values: of one number without NULLs the hash is a bijection."""
    if len(columns) != 1 or COLLIDE_BITS is not None:
        return False
    column = columns[0]
    return column.type.kind != "arrow" and column.valid is None and column.values.dtype != object


def _mix_int(x: int) -> int:
    x = (x * _M1) & _MASK
    x ^= x >> 29
    x = (x * _M2) & _MASK
    return x ^ (x >> 32)


def _mix(x: np.ndarray) -> np.ndarray:
    """Spread the bits of 64-bit values (a bijection)."""
    mixed = np.empty(len(x), np.uint64)
    shifted = np.empty(min(len(x), _BLOCK_ROWS), np.uint64)
    for start in range(
        0, len(x), _BLOCK_ROWS
    ):  # block by block, so that what lies between stays in the cache
        block = mixed[start : start + _BLOCK_ROWS]
        spare = shifted[: len(block)]
        np.multiply(x[start : start + _BLOCK_ROWS], _N1, out=block)
        block ^= np.right_shift(block, _S29, out=spare)
        block *= _N2
        block ^= np.right_shift(block, _S32, out=spare)
    return mixed


def _hash_column(column: Column, count: int) -> np.ndarray:
    kind = column.type.kind
    if kind == "arrow":
        hashes = _hash_arrow(column.values)
    else:
        hashes = _hash_numbers(column.values)
    valid = column.validity()
    if valid is not None:
        hashes = np.where(valid, hashes, np.uint64(_NULL_HASH))
    return hashes


def _hash_numbers(values: np.ndarray) -> np.ndarray:
    if values.dtype == object:
        return np.array([_hash_big(v) for v in values.tolist()], np.uint64)
    if values.dtype.kind == "f":
        values = values.astype(np.float64) + 0.0  # -0.0 becomes 0.0
        bits = values.view(np.uint64)
        missing = values != values
        if missing.any():
            bits = np.where(missing, np.uint64(_NAN_BITS), bits)
        return _mix(bits)
    if values.dtype.kind == "u" or values.dtype == np.bool_:
        return _mix(values.astype(np.uint64, copy=False))
    return _mix(values.astype(np.int64, copy=False).view(np.uint64))


def _hash_big(value: int) -> int:
    low = _mix_int(value & _MASK)
    if -(1 << 63) <= value < 1 << 63:
        return low  # as the same value in an int64 array hashes
    return _mix_int(low ^ ((value >> 64) & _MASK))


def _hash_arrow(array: pa.Array) -> np.ndarray:
    if pa.types.is_large_string(array.type) or pa.types.is_large_binary(array.type):
        return _hash_bytes(array)
    return np.array([_hash_object(v) for v in array.to_pylist()], np.uint64)


def _hash_object(value: object) -> int:
    """Nested values and intervals: rare as keys, so the plain way."""
    return int.from_bytes(hashlib.blake2b(repr(value).encode(), digest_size=8).digest(), "little")


def _hash_one(data: bytes) -> int:
    if len(data) > HASH_WORDS_BYTES_MAX:
        return int.from_bytes(hashlib.blake2b(data, digest_size=8).digest(), "little")
    h = (len(data) * _M3) & _MASK
    for start in range(0, len(data), 8):
        h = ((h ^ int.from_bytes(data[start : start + 8], "little")) * _M1) & _MASK
        h ^= h >> 29
    return _mix_int(h)


def _hash_bytes(array: pa.Array) -> np.ndarray:
    count = len(array)
    _, offset_buffer, data_buffer = array.buffers()
    offsets = np.frombuffer(offset_buffer, np.int64, count + array.offset + 1)[array.offset :]
    first, last = int(offsets[0]), int(offsets[-1])
    data = np.zeros(last - first + 8, np.uint8)  # eight more, so that the last word may be read whole
    if data_buffer is not None:
        data[: last - first] = np.frombuffer(data_buffer, np.uint8, last)[first:]
    starts, lengths = offsets[:-1] - first, np.diff(offsets)
    words = np.ndarray(len(data) - 7, "<u8", data, strides=(1,))
    hashes = lengths.astype(np.uint64) * _N3
    for at in range(0, min(HASH_WORDS_BYTES_MAX, int(lengths.max())), 8):
        rows = np.flatnonzero((lengths > at) & (lengths <= HASH_WORDS_BYTES_MAX))
        if not len(rows):
            break
        left = np.minimum(lengths[rows] - at, 8).astype(np.uint64)
        keep = np.uint64(_MASK) >> (np.uint64(64) - left * np.uint64(8))
        h = (hashes[rows] ^ (words[starts[rows] + at] & keep)) * _N1
        hashes[rows] = h ^ (h >> _S29)
    hashes = _mix(hashes)
    for row in np.flatnonzero(lengths > HASH_WORDS_BYTES_MAX).tolist():
        start = int(starts[row])
        hashes[row] = _hash_one(data[start : start + int(lengths[row])].tobytes())
    return hashes


def _as_bytes(value: str | bytes | None) -> bytes:
    if value is None:
        return b""
    return value.encode() if isinstance(value, str) else value
