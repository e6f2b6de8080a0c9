"""The rows of a table or view, kept for reading: a log of deltas that is sorted only when needed.

A tick appends its delta as it is, which costs next to nothing; the log of small deltas is arranged by
whole row when it has grown. A load (many rows, none removed) stays as it came until somebody asks for a
row by its values, which only a removal does: reading everything takes no order.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from penstock.base.limits import LOG_DELTAS_MAX, LOG_ROWS_MAX
from penstock.kernels.hashing import hash_columns
from penstock.state.arrangement import Arrangement
from penstock.state.batch import Batch, Layout, build
from penstock.state.output import Allocate
from penstock.zset import weights as w
from penstock.zset.types import SqlType
from penstock.zset.zset import ZSet, empty_zset, union

_SAMPLE_SEED = 1


class Contents:
    """A bag of rows."""

    def __init__(self, name: str, types: Sequence[SqlType]) -> None:
        self._types = tuple(types)
        self._arrangement = Arrangement(name, Layout(self._types, tuple(range(len(self._types)))))
        self._loads: list[ZSet] = []  # in no order, no weight negative
        self._log: list[ZSet] = []
        self._log_rows = 0

    @property
    def name(self) -> str:
        return self._arrangement.name

    def append(self, delta: ZSet) -> None:
        rows = delta.weights.size
        if rows >= LOG_ROWS_MAX and not w.any_negative(delta.weights):
            self._loads.append(ZSet(delta.columns, w.compacted(delta.weights)))
            return
        self._log.append(delta)
        self._log_rows += rows
        if len(self._log) >= LOG_DELTAS_MAX or self._log_rows >= LOG_ROWS_MAX:
            self._arrange(self._take_log())

    def arranged(self) -> Arrangement:
        """The rows arranged by whole row, loads and log included."""
        # Apart from the log: what that takes away would make the equal weights of the loads long.
        loads, self._loads = self._loads, []
        self._arrange(loads)
        self._arrange(self._take_log())
        return self._arrangement

    def _take_log(self) -> list[ZSet]:
        log, self._log, self._log_rows = self._log, [], 0
        return log

    def _arrange(self, parts: list[ZSet]) -> None:
        if parts:
            delta = union(parts)
            self._arrangement.append(
                build(self._arrangement.layout, delta.columns, (w.compacted(delta.weights),))
            )

    def rows(self) -> ZSet:
        """Everything, equal rows not necessarily added up, no weight negative."""
        if not self._loads:
            whole = self.arranged().contents()
            return empty_zset(self._types) if whole is None else whole.zset()
        batches = self._arrangement.batches
        if any(w.any_negative(x) for x in [*[b.weights for b in batches], *[d.weights for d in self._log]]):
            self.arranged()
            return self.rows()
        # One load instead of several, so that the next reader has nothing to put together.
        self._loads = [union([*self._loads, *self._take_log()])]
        return union([*self._loads, *[b.zset() for b in batches]])

    def sample(self, rows_max: int) -> ZSet:
        """Some of the rows, as good as random: for estimates."""
        if self._loads:
            load = max(self._loads, key=len)
            chosen = np.random.default_rng(_SAMPLE_SEED).integers(0, len(load), min(rows_max, len(load)))
            return load.take(np.unique(chosen))
        batches = self.arranged().batches
        # Batches are sorted by hash, so their first rows are a random sample.
        return max(batches, key=len).slice(0, rows_max).zset() if batches else empty_zset(self._types)

    def weights_of(self, rows: ZSet) -> np.ndarray:
        """How often each of these (different) rows is there."""
        arrangement = self.arranged()
        total = np.zeros(len(rows), np.int64)
        for batch, mine, theirs in arrangement.probe(hash_columns(rows.columns, len(rows)), rows.columns):
            np.add.at(total, mine, batch.weights[theirs])
        return total

    def swap(self, by_identity: Mapping[int, Batch]) -> None:
        """Exchange batches for equal ones: see `Arrangement.swap`."""
        self._arrangement.swap(by_identity)

    def use_scratch(self, allocate: Allocate) -> None:
        """Let large merges put their rows into scratch files."""
        self._arrangement.allocate = allocate

    def unwritten_bytes(self) -> int:
        """Bytes of the rows that storage does not have."""
        return self._arrangement.unwritten_bytes() + self._unsorted_bytes()

    def row_count(self) -> int:
        """Rows stored (those that a later delta takes away counted too)."""
        return self._arrangement.rows() + self._log_rows + sum([len(x) for x in self._loads])

    def nbytes(self) -> int:
        return self._arrangement.nbytes() + self._unsorted_bytes()

    def _unsorted_bytes(self) -> int:
        return sum([d.nbytes() for d in (*self._loads, *self._log)])
