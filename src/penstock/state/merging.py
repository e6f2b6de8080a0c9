"""A merge of two neighbouring batches, done a slice of hashes at a time."""

from __future__ import annotations

import numpy as np

from penstock.state.batch import Batch, Layout, merge
from penstock.state.output import Output


class Merging:
    """Both inputs stay readable until the result takes their place."""

    __slots__ = ("_at_newer", "_at_older", "_layout", "_output", "newer", "older")

    def __init__(self, layout: Layout, older: Batch, newer: Batch) -> None:
        self._layout = layout
        self.older = older
        self.newer = newer
        self._at_older = 0
        self._at_newer = 0
        self._output = Output(layout, (older, newer))

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
