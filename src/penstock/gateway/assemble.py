"""Columns of many rows to DataRow messages, or to rows of another form: each has a head, and a length before each value.

What stands side by side and has a fixed width (heads, lengths, blocks) is one record array, whose bytes that count are
taken in one go; texts lie between such segments as they lie in Arrow's buffers.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.gateway.blocks import Block

_NOTHING = pa.scalar(b"", pa.large_binary())
_LENGTH = np.dtype(">i4")
Column: TypeAlias = Block | pa.Array  # a large_binary array without NULLs, and the lengths beside it


class _Field(NamedTuple):
    """What every row has at a place: a number, or the bytes of a block, of which `kept` count (None: all)."""

    type: Any  # of numpy's
    values: Any  # one for each row, or one for all
    kept: np.ndarray | None = None


class _Segments:
    """Segments that are put together from the left to the right."""

    def __init__(self, rows: int) -> None:
        self._rows = rows
        self._pieces: list[pa.Array] = []
        self._fields: list[_Field] = []

    def number(self, type: Any, values: Any) -> None:
        self._fields.append(_Field(type, values))

    def block(self, found: Block) -> None:
        self._fields.append(_Field((np.uint8, (found.data.shape[1],)), found.data, found.kept))

    def texts(self, values: pa.Array) -> None:
        self._end_segment()
        self._pieces.append(values)

    def whole(self) -> bytes:
        """All rows, one after the other."""
        if not self._pieces:
            data, kept = self._segment()
            return (data if kept is None else data[kept]).tobytes()
        self._end_segment()
        joined = pc.binary_join_element_wise(*self._pieces, _NOTHING)
        _, offsets, data = joined.buffers()
        ends = np.frombuffer(offsets, np.int64)[joined.offset : joined.offset + self._rows + 1]
        return memoryview(data)[int(ends[0]) : int(ends[-1])].tobytes()

    def _segment(self) -> tuple[np.ndarray, np.ndarray | None]:
        """The bytes of the fields, a row of them for each row, and which of them count (None: all)."""
        fields = self._fields
        records = np.empty(self._rows, np.dtype([(f"f{i}", f.type) for i, f in enumerate(fields)]))
        for i, field in enumerate(fields):
            records[f"f{i}"] = field.values
        data = records.view(np.uint8).reshape(self._rows, -1)
        if all(f.kept is None for f in fields):
            return data, None
        kept = np.ones(data.shape, np.bool_)
        for i, field in enumerate(fields):
            if field.kept is not None:
                type, start = records.dtype.fields[f"f{i}"][:2]  # type: ignore[index]
                kept[:, start : start + type.itemsize] = field.kept
        return data, kept

    def _end_segment(self) -> None:
        if not self._fields:
            return
        data, kept = self._segment()
        if kept is None:
            offsets = np.arange(0, data.size + 1, data.shape[1], dtype=np.int64)
            data = data.reshape(-1)
        else:
            offsets = np.zeros(self._rows + 1, np.int64)
            np.cumsum(np.count_nonzero(kept, axis=1), out=offsets[1:])
            data = data[kept]
        buffers = [None, pa.py_buffer(offsets), pa.py_buffer(data)]
        self._pieces.append(pa.Array.from_buffers(pa.large_binary(), self._rows, buffers))
        self._fields = []


def row_messages(kind: bytes, columns: Sequence[Column], lengths: Sequence[np.ndarray], rows: int) -> bytes:
    """A message for each row: DataRow (D), or CopyData (d) in COPY's binary form, which has the same inside."""
    sizes = np.full(rows, 6 + 4 * len(columns), np.int64)
    for each in lengths:
        sizes += each
        if each.min() < 0:  # NULL: its length is -1, and it has no bytes
            sizes += each < 0
    out = _Segments(rows)
    out.number(np.uint8, ord(kind))
    out.number(_LENGTH, sizes)
    out.number(np.dtype(">u2"), len(columns))
    for column, each in zip(columns, lengths, strict=True):
        out.number(_LENGTH, each)
        if isinstance(column, Block):
            out.block(column)
        else:
            out.texts(column)
    return out.whole()
