"""A batch cut to a range of hashes: a partition of it, of which nothing is read before it is used."""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np

from penstock.state import measures as m
from penstock.state.batch import Batch
from penstock.state.measures import Measure
from penstock.zset.column import Column, TextBuffers


class BatchRange(Batch):
    """The rows of a batch whose hash h has first <= h < last.

    `Batch.range` gives the same rows, and touches every column to do so; for a batch in a file that means
    mapping and checking all of it.

    >>> whole = Batch(np.array([1, 5, 9], np.uint64), (), (np.array([1, 1, 2]),))
    >>> part = BatchRange(whole, 5, 2**64)
    >>> len(part), part.hashes.tolist(), part.weights.tolist()
    (2, [5, 9], [1, 2])
    """

    __slots__ = ("__dict__", "_first", "_last", "_whole")

    def __init__(self, whole: Batch, first: int, last: int) -> None:
        self._whole = whole
        self._first = first
        self._last = last
        self.ref = None
        self.columns = tuple([_ColumnRange(c.type, c, self) for c in whole.columns])

    @cached_property
    def bounds(self) -> tuple[int, int]:
        hashes = self._whole.hashes
        start = 0 if not self._first else int(np.searchsorted(hashes, np.uint64(self._first)))
        if self._last > 0xFFFFFFFFFFFFFFFF:
            return start, len(hashes)
        return start, int(np.searchsorted(hashes, np.uint64(self._last)))

    def __len__(self) -> int:
        start, stop = self.bounds
        return stop - start

    @cached_property
    def hashes(self) -> np.ndarray:  # type: ignore[override]
        start, stop = self.bounds
        return self._whole.hashes[start:stop]

    @cached_property
    def measures(self) -> tuple[Measure, ...]:  # type: ignore[override]
        start, stop = self.bounds
        return tuple([m.slice_rows(x, start, stop) for x in self._whole.measures])


class _ColumnRange(Column):
    """A column of the batch, cut when its values are first used."""

    __slots__ = ("_batch", "_cut", "_whole")

    def __init__(self, type: Any, whole: Column, batch: BatchRange) -> None:
        self.type = type
        self._whole = whole
        self._batch = batch
        self._cut: Column | None = None

    def _column(self) -> Column:
        found = self._cut
        if found is None:
            found = self._cut = self._whole.slice(*self._batch.bounds)
        return found

    def __len__(self) -> int:
        return len(self._batch)

    @property
    def values(self) -> Any:
        return (self._cut or self._column()).values

    @property
    def valid(self) -> np.ndarray | None:  # type: ignore[override]
        return (self._cut or self._column()).valid

    @property
    def _text(self) -> TextBuffers:  # type: ignore[override]
        return (self._cut or self._column())._text

    def text_buffers(self) -> TextBuffers:
        return self._column().text_buffers()
