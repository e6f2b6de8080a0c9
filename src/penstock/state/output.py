"""Where a merge puts its rows: arrays made beforehand and filled slice by slice.

The end of a merge is then not a copy of everything, which one tick would have to pay for. The arrays
are memory, or a scratch file where a flow must not use more memory than it was given.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

import numpy as np
import pyarrow as pa

from penstock.state import measures as m
from penstock.state.batch import Batch, Layout, empty_batch
from penstock.state.measures import Measure
from penstock.zset import weights as w
from penstock.zset.column import Column, concat
from penstock.zset.types import SqlType

Allocate = Callable[[int, np.dtype], np.ndarray]


def in_memory(count: int, dtype: np.dtype) -> np.ndarray:
    return np.empty(count, dtype)


class Output:
    """Collects the slices of a merge of these batches."""

    def __init__(self, layout: Layout, inputs: Sequence[Batch], allocate: Allocate = in_memory) -> None:
        self._layout = layout
        self._count = 0
        capacity = sum(len(b) for b in inputs)
        self._hashes = allocate(capacity, np.dtype(np.uint64))
        self._columns = [
            _column_output(type, [b.columns[i] for b in inputs], capacity, allocate)
            for i, type in enumerate(layout.types)
        ]
        self._measures = [_Measures(capacity, allocate) for _ in inputs[0].measures]

    def nbytes(self) -> int:
        return (
            self._hashes.nbytes
            + sum(c.nbytes() for c in self._columns)
            + sum(x.nbytes() for x in self._measures)
        )

    def add(self, part: Batch) -> None:
        start, stop = self._count, self._count + len(part)
        self._hashes[start:stop] = part.hashes
        for output, column in zip(self._columns, part.columns, strict=True):
            output.add(start, column)
        for measures, measure in zip(self._measures, part.measures, strict=True):
            measures.add(start, measure)
        self._count = stop

    def finish(self) -> Batch:
        if not self._count:
            return empty_batch(self._layout, ())
        count = self._count
        columns = tuple([output.finish(count) for output in self._columns])
        return Batch(self._hashes[:count], columns, tuple([x.finish(count) for x in self._measures]))


class _ColumnOutput(Protocol):
    def nbytes(self) -> int: ...

    def add(self, start: int, column: Column) -> None: ...

    def finish(self, count: int) -> Column: ...


def _column_output(
    type: SqlType, inputs: Sequence[Column], capacity: int, allocate: Allocate
) -> _ColumnOutput:
    if type.kind == "fixed":
        return _Fixed(type, capacity, allocate)
    if type.is_text or type.id == "BLOB":
        return _Text(type, inputs, capacity, allocate)
    return _Slices()


class _Mask:
    """Which values are there: an array only once some value is not."""

    def __init__(self, capacity: int, allocate: Allocate) -> None:
        self._capacity = capacity
        self._allocate = allocate
        self._values: np.ndarray | None = None

    def add(self, start: int, count: int, valid: np.ndarray | None) -> None:
        if self._values is None:
            if valid is None:
                return
            self._values = self._allocate(self._capacity, np.dtype(np.bool_))
            self._values[:start] = True
        self._values[start : start + count] = True if valid is None else valid

    def finish(self, count: int) -> np.ndarray | None:
        return None if self._values is None else self._values[:count]


class _Fixed:
    """Numbers."""

    def __init__(self, type: SqlType, capacity: int, allocate: Allocate) -> None:
        self._type = type
        self._values = allocate(capacity, type.numpy)
        self._mask = _Mask(capacity, allocate)

    def nbytes(self) -> int:
        return int(self._values.nbytes)

    def add(self, start: int, column: Column) -> None:
        self._values[start : start + len(column)] = column.values
        self._mask.add(start, len(column), column.valid)

    def finish(self, count: int) -> Column:
        return Column(self._type, self._values[:count], self._mask.finish(count))


class _Text:
    """Text and binary: where each value ends, and all bytes one after the other."""

    def __init__(self, type: SqlType, inputs: Sequence[Column], capacity: int, allocate: Allocate) -> None:
        self._type = type
        self._offsets = allocate(capacity + 1, np.dtype(np.int64))
        self._offsets[0] = 0
        self._data = allocate(sum(_span(c.values)[1] for c in inputs), np.dtype(np.uint8))
        self._size = 0
        self._mask = _Mask(capacity, allocate)

    def nbytes(self) -> int:
        return int(self._offsets.nbytes + self._data.nbytes)

    def add(self, start: int, column: Column) -> None:
        count = len(column)
        if not count:
            return
        array = column.values
        first, size = _span(array)
        ends = np.frombuffer(array.buffers()[1], np.int64, count, (array.offset + 1) * 8)
        self._offsets[start + 1 : start + count + 1] = ends + (self._size - first)
        if size:
            self._data[self._size : self._size + size] = np.frombuffer(
                array.buffers()[2], np.uint8, size, first
            )
        self._size += size
        self._mask.add(start, count, column.validity())

    def finish(self, count: int) -> Column:
        valid = self._mask.finish(count)
        bits, nulls = None, 0
        if valid is not None:
            bits = pa.py_buffer(np.packbits(valid, bitorder="little"))
            nulls = count - int(np.count_nonzero(valid))
        buffers = [bits, pa.py_buffer(self._offsets[: count + 1]), pa.py_buffer(self._data[: self._size])]
        return Column(self._type, pa.Array.from_buffers(self._type.arrow, count, buffers, nulls))


def _span(array: pa.Array) -> tuple[int, int]:
    """Where the bytes of a text array begin in its buffer, and how many there are."""
    count = len(array)
    if not count:
        return 0, 0
    offsets = np.frombuffer(array.buffers()[1], np.int64, count + 1, array.offset * 8)
    return int(offsets[0]), int(offsets[-1] - offsets[0])


class _Slices:
    """Values of no fixed form: nested ones, and integers beyond 64 bits. Joined at the end."""

    def __init__(self) -> None:
        self._parts: list[Column] = []

    def nbytes(self) -> int:
        return sum(c.nbytes() for c in self._parts)

    def add(self, start: int, column: Column) -> None:
        self._parts.append(column)

    def finish(self, count: int) -> Column:
        return concat(self._parts)


class _Measures:
    """A measure: one number while all rows have the same, then an array, as long as int64 is enough."""

    def __init__(self, capacity: int, allocate: Allocate) -> None:
        self._capacity = capacity
        self._allocate = allocate
        self._same: int | None = None  # what all rows so far have
        self._values: np.ndarray | None = None
        self._filled = 0
        self._others: list[Measure] = []  # from the first slice on that is of another form

    def nbytes(self) -> int:
        return 0 if self._values is None else int(self._values.nbytes)

    def add(self, start: int, measure: Measure) -> None:
        if not len(measure):
            return
        if self._others or not isinstance(measure, np.ndarray) or measure.dtype != np.int64:
            self._others.append(measure)
            return
        self._filled = start + len(measure)
        if self._values is None:
            first = int(measure[0])
            if (self._same is None or self._same == first) and w.all_are(measure, measure[0]):
                self._same = first
                return
            self._values = self._allocate(self._capacity, np.dtype(np.int64))
            self._values[:start] = self._same or 0
        self._values[start : self._filled] = measure

    def finish(self, count: int) -> Measure:
        whole: list[Measure] = []
        if self._filled:
            values = self._values
            whole = [w.constant(self._same or 0, self._filled) if values is None else values[: self._filled]]
        if not self._others and whole:
            return whole[0]
        return m.concat([*whole, *self._others])
