"""The rows of a table or view, kept for reading: a log of deltas that is sorted only when needed.

A tick appends its delta as it is, which costs next to nothing; the log of small deltas is arranged by
whole row when it has grown. A load (many rows, none removed) stays as it came until somebody asks for a
row by its values, which only a removal does: reading everything takes no order.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from penstock.base.limits import LOG_DELTAS_MAX, LOG_ROWS_MAX
from penstock.base.undivided import Undivided
from penstock.kernels.hashing import hash_columns
from penstock.state.arrangement import Arrangement
from penstock.state.batch import Batch, Layout, build
from penstock.state.finder import Pieces
from penstock.state.scattered import Rows, Scattered
from penstock.state.visible import Visible, visible
from penstock.zset import weights as w
from penstock.zset.few import Few, gathered
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
        self._fresh: list[ZSet | Batch] | None = (
            None  # what storage does not have yet; None: no storage keeps it
        )

    @property
    def name(self) -> str:
        return self._arrangement.name

    def append(self, delta: Rows) -> None:
        if delta.__class__ is Few:
            rows = len(delta.rows)
        elif isinstance(delta, Scattered):
            self._append_batches(delta.parts)
            return
        else:
            delta.settle()
            rows = len(delta)
        if self._fresh is not None:
            self._fresh.append(delta)
        if rows >= LOG_ROWS_MAX and not w.any_negative(delta.weights):
            self._loads.append(ZSet(delta.columns, w.compacted(delta.weights)))
            return
        self._log.append(delta)
        self._log_rows += rows
        if len(self._log) >= LOG_DELTAS_MAX or self._log_rows >= LOG_ROWS_MAX:
            self._arrange_log()

    def _append_batches(self, batches: Sequence[Batch]) -> None:
        """Batches that are arranged already, most of them in files: nothing of them is read."""
        for batch in batches:
            if self._fresh is not None:
                self._fresh.append(batch)
            self._arrangement.append(batch)

    def arranged(self) -> Arrangement:
        """The rows arranged by whole row, loads and log included."""
        # Apart from the log: what that takes away would make the equal weights of the loads long.
        if self._loads:
            batch = self._batch(self._loads)
            with Undivided():  # not before: what fails or is stopped until here loses nothing
                self._loads = []
                self._arrangement.append(batch)
        if self._log:
            self._arrange_log()
        return self._arrangement

    def _take_log(self) -> list[ZSet]:
        log, self._log, self._log_rows = self._log, [], 0
        return log

    def _arrange_log(self) -> None:
        batch = self._batch(self._log)
        with Undivided():
            self._take_log()
            self._arrangement.append(batch)

    def _batch(self, parts: list[ZSet]) -> Batch:
        delta = gathered(parts)
        return build(self._arrangement.layout, delta.columns, (w.compacted(delta.weights),))

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
        load = union([*self._loads, *self._log])
        with Undivided():
            self._take_log()
            self._loads = [load]
        return union([*self._loads, *[b.zset() for b in batches]])

    def visible(self, plain: Batch | None) -> Visible | None:
        """The rows without merging them, where that is possible."""
        if self._loads:
            return None
        return visible(self._arrangement.layout, self.arranged().batches, plain)

    def pieces(self) -> Pieces:
        """What it consists of now, as it lies: for looking rows up."""
        return Pieces([*self._arrangement.batches, *self._loads], self._log, len(self._log))

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

    # -- what storage keeps: see Arrangement -----------------------------------------------

    @property
    def layout(self) -> Layout:
        return self._arrangement.layout

    @property
    def is_kept(self) -> bool:
        return self._fresh is not None

    def attach(self, runs: Sequence[Batch], kept: bool) -> None:
        """Begin with what storage has."""
        self._arrangement.attach(runs, False)
        self._arrangement.merges_large = not kept
        self._fresh = [] if kept else None

    def take_fresh(self) -> list[ZSet | Batch]:
        """What has been appended since this was last asked; everything, the first time."""
        fresh: list[ZSet | Batch] = []
        if self._fresh is None:
            fresh += [*self._arrangement.batches, *self._loads, *self._log]
        else:
            fresh += self._fresh
        self._fresh = []
        self._arrangement.merges_large = False
        return fresh

    def rebase(self, runs: Sequence[Batch]) -> None:
        """Go on with what storage has put together."""
        since, self._fresh = self._fresh or [], None
        self._arrangement.attach(runs, False)
        self._arrangement.merges_large = False
        self._loads = []
        self._take_log()
        for delta in since:
            self.append(Scattered([delta]) if isinstance(delta, Batch) else delta)
        self._fresh = since

    def fresh_bytes(self) -> int:
        """Bytes of what storage has not asked for yet."""
        return sum([d.nbytes() for d in self._fresh or ()])

    def compact(self) -> None:
        """Merge everything into one batch."""
        self.arranged().compact()
        self._fresh = None

    def row_count(self) -> int:
        """Rows stored (those that a later delta takes away counted too)."""
        return self._arrangement.rows() + self._log_rows + sum([len(x) for x in self._loads])

    def nbytes(self) -> int:
        return self._arrangement.nbytes() + self._unsorted_bytes()

    def _unsorted_bytes(self) -> int:
        return sum([d.nbytes() for d in (*self._loads, *self._log)])
