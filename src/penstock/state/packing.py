"""Rows as a few bytes: what small deltas and small batches are while they live in the database.

Column after column, each as its raw bytes: an Arrow file has more than a kilobyte of headers, a row
has fifty bytes. The reader knows the types; the version stands at the front.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from penstock.base.errors import CorruptState
from penstock.kernels.floatsum import FloatSum
from penstock.state.measures import Measure
from penstock.zset.column import Column
from penstock.zset.types import SqlType

VERSION = 1
_HEAD = struct.Struct("<BBIHH")  # version, has hashes, rows, columns, measures
_LENGTH = struct.Struct("<I")
# How an array is held.
_RAW, _MASKED, _INTEGERS_AS_TEXT, _TEXT, _TEXT_WITH_NULLS, _ARROW, _LIMBS = range(7)


def pack(hashes: np.ndarray | None, columns: Sequence[Column], measures: Sequence[Measure]) -> bytes:
    """Rows with their measures, and their hashes if there are any, as bytes.

    >>> from penstock.zset.column import from_pylist
    >>> from penstock.zset.types import BIGINT, VARCHAR
    >>> rows = [from_pylist(BIGINT, [1, None]), from_pylist(VARCHAR, ["a", None])]
    >>> packed = pack(None, rows, [np.array([1, -1])])
    >>> len(packed), unpack(packed, [BIGINT, VARCHAR])[1]
    (60, (Column(BIGINT, [1, None]), Column(VARCHAR, ['a', None])))
    """
    count = len(measures[0])
    parts = [_HEAD.pack(VERSION, hashes is not None, count, len(columns), len(measures))]
    if hashes is not None:
        parts.append(np.ascontiguousarray(hashes).tobytes())
    for column in columns:
        _pack_column(parts, column)
    for measure in measures:
        _pack_measure(parts, measure)
    return b"".join(parts)


def unpack(
    data: bytes, types: Sequence[SqlType]
) -> tuple[np.ndarray | None, tuple[Column, ...], tuple[Measure, ...]]:
    """What was packed: hashes, columns, measures."""
    reader = _Reader(data)
    version, has_hashes, count, columns, measures = _HEAD.unpack(reader.take(_HEAD.size))
    if version != VERSION or columns != len(types):
        raise CorruptState(f"packed rows of version {version} with {columns} columns, not {len(types)}")
    hashes = reader.array(np.dtype(np.uint64), count) if has_hashes else None
    found = tuple([_unpack_column(reader, type, count) for type in types])
    return hashes, found, tuple([_unpack_measure(reader, count) for _ in range(measures)])


class _Reader:
    def __init__(self, data: bytes) -> None:
        self._data = memoryview(data)
        self._at = 0

    def take(self, size: int) -> memoryview:
        part = self._data[self._at : self._at + size]
        if len(part) != size:
            raise CorruptState("packed rows end too early")
        self._at += size
        return part

    def byte(self) -> int:
        return self.take(1)[0]

    def array(self, dtype: np.dtype, count: int) -> np.ndarray:
        # A copy: the values must not hang on the bytes of a whole record.
        return np.frombuffer(self.take(dtype.itemsize * count), dtype).copy()

    def block(self) -> memoryview:
        return self.take(_LENGTH.unpack(self.take(_LENGTH.size))[0])

    def mask(self, count: int) -> np.ndarray:
        bits = np.frombuffer(self.take((count + 7) // 8), np.uint8)
        return np.unpackbits(bits, count=count).astype(np.bool_)


def _block(parts: list[bytes], data: bytes) -> None:
    parts.append(_LENGTH.pack(len(data)))
    parts.append(data)


def _pack_column(parts: list[bytes], column: Column) -> None:
    if column.type.kind == "arrow":
        if column.type.is_text or column.type.id == "BLOB":
            _pack_text(parts, column.values)
        else:
            parts.append(bytes((_ARROW,)))
            batch = pa.record_batch([_plain(column.values)], names=["v"])
            sink = pa.BufferOutputStream()
            with pa.ipc.new_stream(sink, batch.schema) as writer:
                writer.write_batch(batch)
            _block(parts, sink.getvalue().to_pybytes())
        return
    if column.values.dtype == object:
        parts.append(bytes((_INTEGERS_AS_TEXT,)))
        _block(parts, _integers_as_text(column.values))
        parts.append(np.packbits(_mask(column)).tobytes())
        return
    parts.append(bytes((_RAW if column.valid is None else _MASKED,)))
    parts.append(np.ascontiguousarray(column.values).tobytes())
    if column.valid is not None:
        parts.append(np.packbits(column.valid).tobytes())


def _mask(column: Column) -> np.ndarray:
    return np.ones(len(column), np.bool_) if column.valid is None else column.valid


def _plain(array: pa.Array | pa.ChunkedArray) -> pa.Array:
    return array.combine_chunks() if isinstance(array, pa.ChunkedArray) else array


def _pack_text(parts: list[bytes], values: pa.Array) -> None:
    array = _plain(values)
    nulls = array.null_count
    parts.append(bytes((_TEXT_WITH_NULLS if nulls else _TEXT,)))
    if nulls:
        valid = array.is_valid().to_numpy(zero_copy_only=False)
        parts.append(np.packbits(valid).tobytes())
        array = array.fill_null("" if pa.types.is_large_string(array.type) else b"")
    count = len(array)
    _, offsets_buffer, data_buffer = array.buffers()
    offsets = np.frombuffer(offsets_buffer, np.int64, count + 1, array.offset * 8) if count else _NO_OFFSETS
    parts.append(np.diff(offsets).astype(np.uint32).tobytes())
    size = int(offsets[-1] - offsets[0])
    _block(parts, data_buffer.slice(int(offsets[0]), size).to_pybytes() if size else b"")


_NO_OFFSETS = np.zeros(1, np.int64)


def _unpack_column(reader: _Reader, type: SqlType, count: int) -> Column:
    how = reader.byte()
    if how == _RAW:
        return Column(type, reader.array(_stored_dtype(type), count))
    if how == _MASKED:
        values = reader.array(_stored_dtype(type), count)
        return Column(type, values, reader.mask(count))
    if how == _INTEGERS_AS_TEXT:
        integers = _integers(reader.block(), count)
        mask = reader.mask(count)
        return Column(type, integers, None if mask.all() else mask)
    if how in (_TEXT, _TEXT_WITH_NULLS):
        return _unpack_text(reader, type, count, how == _TEXT_WITH_NULLS)
    if how == _ARROW:
        with pa.ipc.open_stream(pa.py_buffer(bytes(reader.block()))) as stream:
            return Column(type, stream.read_next_batch().column(0))
    raise CorruptState(f"packed rows hold a column in the unknown form {how}")


def _stored_dtype(type: SqlType) -> np.dtype:
    return type.numpy


def _unpack_text(reader: _Reader, type: SqlType, count: int, has_nulls: bool) -> Column:
    bits = None
    nulls = 0
    if has_nulls:
        valid = reader.mask(count)
        nulls = count - int(valid.sum())
        bits = pa.py_buffer(np.packbits(valid, bitorder="little").tobytes())
    offsets = np.zeros(count + 1, np.int64)
    np.cumsum(reader.array(np.dtype(np.uint32), count), out=offsets[1:])
    data = pa.py_buffer(bytes(reader.block()))
    return Column(type, pa.Array.from_buffers(type.arrow, count, [bits, pa.py_buffer(offsets), data], nulls))


def _pack_measure(parts: list[bytes], measure: Measure) -> None:
    if isinstance(measure, FloatSum):
        parts.append(bytes((_LIMBS, len(measure.ids))))
        parts.append(np.array(measure.ids, np.uint16).tobytes())
        parts.append(np.ascontiguousarray(measure.limbs).tobytes())
    elif measure.dtype == object:
        parts.append(bytes((_INTEGERS_AS_TEXT,)))
        _block(parts, _integers_as_text(measure))
    else:
        parts.append(bytes((_RAW,)))
        parts.append(np.ascontiguousarray(measure).tobytes())


def _unpack_measure(reader: _Reader, count: int) -> Measure:
    how = reader.byte()
    if how == _RAW:
        return reader.array(np.dtype(np.int64), count)
    if how == _INTEGERS_AS_TEXT:
        return _integers(reader.block(), count)
    if how == _LIMBS:
        width = reader.byte()
        ids = tuple(reader.array(np.dtype(np.uint16), width).tolist())
        return FloatSum(ids, reader.array(np.dtype(np.int64), count * width).reshape(count, width))
    raise CorruptState(f"packed rows hold a measure in the unknown form {how}")


def _integers_as_text(values: np.ndarray) -> bytes:
    return " ".join(map(str, values.tolist())).encode()


def _integers(text: memoryview, count: int) -> np.ndarray:
    result = np.empty(count, object)
    result[:] = [int(word) for word in bytes(text).split()]
    return result
