"""The rows of a table or view, kept for reading: a log of deltas that is sorted only when needed.

A tick appends its delta as it is, which costs next to nothing; the log is arranged by whole row
when it has grown, or when somebody reads.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from penstock.base.limits import LOG_DELTAS_MAX, LOG_ROWS_MAX
from penstock.kernels.hashing import hash_columns
from penstock.state.arrangement import Arrangement
from penstock.state.batch import Layout, build
from penstock.zset.types import SqlType
from penstock.zset.zset import ZSet, empty_zset, union


class Contents:
    """A bag of rows."""

    def __init__(self, name: str, types: Sequence[SqlType]) -> None:
        self._types = tuple(types)
        self._arrangement = Arrangement(name, Layout(self._types, tuple(range(len(self._types)))))
        self._log: list[ZSet] = []
        self._log_rows = 0

    @property
    def name(self) -> str:
        return self._arrangement.name

    def append(self, delta: ZSet) -> None:
        for column in delta.columns:
            column.settle()
        self._log.append(delta)
        self._log_rows += len(delta)
        if len(self._log) >= LOG_DELTAS_MAX or self._log_rows >= LOG_ROWS_MAX:
            self.arranged()

    def arranged(self) -> Arrangement:
        """The rows arranged by whole row, the log included."""
        if self._log:
            delta = union(self._log)
            self._log = []
            self._log_rows = 0
            self._arrangement.append(build(self._arrangement.layout, delta.columns, (delta.weights,)))
        return self._arrangement

    def rows(self) -> ZSet:
        """Everything, equal rows not necessarily added up, no weight negative."""
        whole = self.arranged().contents()
        return empty_zset(self._types) if whole is None else whole.zset()

    def weights_of(self, rows: ZSet) -> np.ndarray:
        """How often each of these (different) rows is there."""
        arrangement = self.arranged()
        total = np.zeros(len(rows), np.int64)
        for batch, mine, theirs in arrangement.probe(hash_columns(rows.columns, len(rows)), rows.columns):
            np.add.at(total, mine, batch.weights[theirs])
        return total

    def row_count(self) -> int:
        """Rows stored (those that a later delta takes away counted too)."""
        return self._arrangement.rows() + self._log_rows

    def nbytes(self) -> int:
        logged = sum(d.weights.nbytes + sum(c.nbytes() for c in d.columns) for d in self._log)
        return self._arrangement.nbytes() + logged
