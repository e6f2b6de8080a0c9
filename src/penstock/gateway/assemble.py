"""Columns of many rows to DataRow messages, or to rows of another form: each has a head, and a length before each value.

Blocks that stand side by side are one matrix, whose bytes that count are taken in one go; texts lie between such
segments as they lie in Arrow's buffers.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.gateway.blocks import Block

_NOTHING = pa.scalar(b"", pa.large_binary())
Column: TypeAlias = Block | pa.Array  # a large_binary array without NULLs, and the lengths beside it


class Rows:
    """Segments that are put together from the left to the right."""

    def __init__(self, rows: int) -> None:
        self._rows = rows
        self._pieces: list[pa.Array] = []
        self._parts: list[Block] = []

    def fixed(self, data: np.ndarray) -> None:
        """Bytes that every row has: a matrix of them."""
        self._parts.append(Block(data, None, np.full(self._rows, data.shape[1], np.int64)))

    def lengths(self, lengths: np.ndarray) -> None:
        self.fixed(np.ascontiguousarray(lengths.astype(">i4")).view(np.uint8).reshape(-1, 4))

    def block(self, found: Block) -> None:
        self._parts.append(found)

    def texts(self, values: pa.Array) -> None:
        self._end_segment()
        self._pieces.append(values)

    def whole(self) -> bytes:
        """All rows, one after the other."""
        if not self._pieces:
            return self._segment().tobytes()
        self._end_segment()
        joined = pc.binary_join_element_wise(*self._pieces, _NOTHING)
        _, offsets, data = joined.buffers()
        ends = np.frombuffer(offsets, np.int64)[joined.offset : joined.offset + self._rows + 1]
        return memoryview(data)[int(ends[0]) : int(ends[-1])].tobytes()

    def _segment(self) -> np.ndarray:
        parts = self._parts
        width = sum(p.data.shape[1] for p in parts)
        data = np.empty((self._rows, width), np.uint8)
        partly = any(p.kept is not None for p in parts)
        kept = np.ones((self._rows, width), np.bool_) if partly else None
        at = 0
        for part in parts:
            end = at + part.data.shape[1]
            data[:, at:end] = part.data
            if part.kept is not None:
                assert kept is not None
                kept[:, at:end] = part.kept
            at = end
        return data.reshape(-1) if kept is None else data[kept]

    def _end_segment(self) -> None:
        if not self._parts:
            return
        data = self._segment()
        sizes = np.zeros(self._rows, np.int64)
        for part in self._parts:
            sizes += np.maximum(part.lengths, 0)
        offsets = np.zeros(self._rows + 1, np.int64)
        np.cumsum(sizes, out=offsets[1:])
        buffers = [None, pa.py_buffer(offsets), pa.py_buffer(data)]
        self._pieces.append(pa.Array.from_buffers(pa.large_binary(), self._rows, buffers))
        self._parts = []


def row_messages(kind: bytes, columns: Sequence[Column], lengths: Sequence[np.ndarray], rows: int) -> bytes:
    """A message for each row: DataRow (D), or CopyData (d) in COPY's binary form, which has the same inside."""
    sizes = np.full(rows, 6 + 4 * len(columns), np.int64)
    for each in lengths:
        sizes += np.maximum(each, 0)
    out = Rows(rows)
    head = np.empty((rows, 7), np.uint8)
    head[:, 0] = ord(kind)
    head[:, 1:5] = np.ascontiguousarray(sizes.astype(">i4")).view(np.uint8).reshape(-1, 4)
    head[:, 5:] = np.array([len(columns)], ">u2").view(np.uint8)
    out.fixed(head)
    for column, each in zip(columns, lengths, strict=True):
        out.lengths(each)
        if isinstance(column, Block):
            out.block(column)
        else:
            out.texts(column)
    return out.whole()
