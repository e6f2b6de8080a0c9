"""A merge of two neighbouring batches, done a slice of hashes at a time."""

from __future__ import annotations

import numpy as np

from penstock.state.batch import Batch, Layout, concat_batches, empty_batch, merge
from penstock.zset.column import Column


class Merging:
    """Both inputs stay readable until the result takes their place."""

    __slots__ = ("_at_newer", "_at_older", "_layout", "_output", "newer", "older")

    def __init__(self, layout: Layout, older: Batch, newer: Batch) -> None:
        self._layout = layout
        self.older = older
        self.newer = newer
        self._at_older = 0
        self._at_newer = 0
        self._output = _Output(layout, len(older) + len(newer))

    def done(self) -> bool:
        return self._at_older == len(self.older) and self._at_newer == len(self.newer)

    def nbytes(self) -> int:
        return self._output.nbytes()

    def work(self, rows_max: int) -> int:
        """Merge about this many rows; the number really merged."""
        left = len(self.older) - self._at_older + len(self.newer) - self._at_newer
        stop_older, stop_newer = len(self.older), len(self.newer)
        if left > rows_max:
            # A hash is never cut in two: equal rows must meet in one slice.
            share = max(1, rows_max * len(self.older) // (len(self.older) + len(self.newer)))
            bound = self.older.hashes[min(self._at_older + share, len(self.older) - 1)]
            stop_older = int(np.searchsorted(self.older.hashes, bound, "right"))
            stop_newer = int(np.searchsorted(self.newer.hashes, bound, "right"))
        parts = [
            self.older.slice(self._at_older, stop_older),
            self.newer.slice(self._at_newer, stop_newer),
        ]
        self._output.add(merge(self._layout, parts))
        done = stop_older - self._at_older + stop_newer - self._at_newer
        self._at_older, self._at_newer = stop_older, stop_newer
        return done

    def result(self) -> Batch:
        return self._output.finish()


class _Output:
    """Collects slices. Fixed-width columns go into arrays made beforehand, so that the end is not a
    copy of everything; text columns are joined at the end (a memcpy)."""

    def __init__(self, layout: Layout, capacity: int) -> None:
        self._layout = layout
        self._capacity = capacity
        self._count = 0
        self._hashes = np.empty(capacity, np.uint64)
        self._slices: list[Batch] = []
        self._fixed: dict[int, np.ndarray] = {}
        for i, type in enumerate(layout.types):
            if type.kind == "fixed":
                self._fixed[i] = np.empty(capacity, type.numpy)

    def nbytes(self) -> int:
        return self._hashes.nbytes + sum(a.nbytes for a in self._fixed.values())

    def add(self, part: Batch) -> None:
        start, stop = self._count, self._count + len(part)
        self._hashes[start:stop] = part.hashes
        for i, target in self._fixed.items():
            target[start:stop] = part.columns[i].values
        # The fixed columns of the slice are copied already: keep only their masks and the rest.
        columns = tuple(
            Column(c.type, self._fixed[i][start:stop], c.valid) if i in self._fixed else c
            for i, c in enumerate(part.columns)
        )
        self._slices.append(Batch(self._hashes[start:stop], columns, part.measures))
        self._count = stop

    def finish(self) -> Batch:
        if not self._slices:
            return empty_batch(self._layout, ())
        if len(self._slices) == 1:
            return self._slices[0]
        others = concat_batches([_without(s, self._fixed) for s in self._slices])
        columns = []
        rest = iter(others.columns)
        for i, type in enumerate(self._layout.types):
            if i not in self._fixed:
                columns.append(next(rest))
                continue
            values = self._fixed[i][: self._count]
            columns.append(Column(type, values, _joined_mask([s.columns[i] for s in self._slices])))
        return Batch(self._hashes[: self._count], tuple(columns), others.measures)


def _without(batch: Batch, fixed: dict[int, np.ndarray]) -> Batch:
    columns = tuple(c for i, c in enumerate(batch.columns) if i not in fixed)
    return Batch(batch.hashes[:0], columns, batch.measures)


def _joined_mask(columns: list[Column]) -> np.ndarray | None:
    if all(c.valid is None for c in columns):
        return None
    return np.concatenate([np.ones(len(c), np.bool_) if c.valid is None else c.valid for c in columns])
