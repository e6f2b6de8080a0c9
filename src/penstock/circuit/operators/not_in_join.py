"""not_in_join: x IN (SELECT y ...) as a value, TRUE, FALSE or NULL: a mark join on one equality.

    mark(x) = TRUE   if x is among the y
              FALSE  if there is no y
              NULL   if x is NULL, or some y is NULL
              FALSE  otherwise

A row's mark changes when its x enters or leaves the y; all marks may change when the y become empty
or their first NULL comes or goes. State: the count of each y, and how many y and NULLs there are,
which add; A arranged by x (shared).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from penstock.circuit.operator import Delta, Recorded, Result
from penstock.circuit.operators.match_join import marks, with_marks
from penstock.circuit.operators.presence_join import count_of
from penstock.kernels.hashing import hash_columns
from penstock.state import measures as m
from penstock.state.arrangement import Arrangement
from penstock.state.batch import Batch, Layout, build
from penstock.state.laws import ACCUMULATOR_SUM
from penstock.zset.column import Column
from penstock.zset.types import SqlType
from penstock.zset.zset import ZSet, union


class NotInJoin(Recorded):
    """Inputs: A's delta, B's delta. Reads: A arranged by x (NULLs too).

    >>> from penstock.zset.column import from_pylist
    >>> from penstock.zset.types import BIGINT
    >>> mark = NotInJoin(BIGINT, 0, 0, [0])
    >>> state = [Arrangement("", layout) for layout in (*mark.layouts, Layout((BIGINT,), (0,)))]
    >>> x = ZSet((from_pylist(BIGINT, [1, 2]),), np.array([1, 1]))
    >>> y = ZSet((from_pylist(BIGINT, [2, None]),), np.array([1, 1]))
    >>> mark.step([x, None], state)[0], mark.step([x, y], state)[0]
    (ZSet([((1, False), 1), ((2, False), 1)]), ZSet([((1, None), 1), ((2, True), 1)]))
    """

    name = "not_in_join"

    def __init__(self, type: SqlType, left: int, right: int, left_columns: Sequence[int]) -> None:
        self._left = left
        self._left_columns = list(left_columns)  # where A's columns stand in its arrangement
        self._right = right
        self.layouts = (Layout((type,), (0,), unique=True), Layout((), (), unique=True))
        self.routes = ((), ())  # the totals concern every row: one partition

    def step(self, deltas: Sequence[Delta], state: Sequence[Arrangement]) -> Result:
        left, right = deltas
        counts, totals, left_state = state
        change, total_change = self._changes(right)
        before = _totals(totals, None)
        after = _totals(totals, total_change)
        parts: list[ZSet | None] = []
        if change is not None or total_change is not None:
            parts.append(self._moved(left_state, counts, change, before, after))
        if left is not None:
            assert isinstance(left, ZSet)
            found = self._marks(left.columns[self._left], counts, change, after)
            parts.append(ZSet((*left.columns, found), left.weights))
        found_parts = [p for p in parts if p is not None and len(p)]
        return (union(found_parts) if found_parts else None), (change, total_change)

    def _changes(self, right: Delta) -> tuple[Batch | None, Batch | None]:
        if right is None:
            return None, None
        assert isinstance(right, ZSet)
        column = right.columns[self._right]
        null = column.is_null()
        rows, nulls = int(right.weights.sum()), int(right.weights[null].sum())
        values = right.filter(~null) if null.any() else right
        counts = build(self.layouts[0], (values.columns[self._right],), (values.weights,))
        totals = Batch(np.zeros(1, np.uint64), (), (np.array([rows]), np.array([nulls])))
        return (counts if len(counts) else None), (totals if rows or nulls else None)

    def _moved(
        self,
        left_state: Arrangement,
        counts: Arrangement,
        change: Batch | None,
        before: tuple[bool, bool],
        after: tuple[bool, bool],
    ) -> ZSet | None:
        """A's old rows whose mark may change, with the old mark out and the new one in."""
        if before != after:
            touched = [b.zset().select(self._left_columns) for b in left_state.batches]
        else:
            if change is None:
                return None
            was = count_of(counts, None, change.hashes, change.columns)
            flipped = np.flatnonzero((was > 0) != (was + change.weights > 0))
            wanted = [c.take(flipped) for c in change.columns]
            probes = left_state.probe(change.hashes[flipped], wanted)
            touched = [b.zset().select(self._left_columns).take(rows) for b, _, rows in probes]
        if not touched:
            return None
        rows = union(touched)
        column = rows.columns[self._left]
        old, new = self._marks(column, counts, None, before), self._marks(column, counts, change, after)
        old_valid, new_valid = ~old.is_null(), ~new.is_null()
        changed = np.flatnonzero((old_valid != new_valid) | (old.values != new.values))
        return with_marks(rows.columns, changed, rows.weights, old, changed, rows.weights, new)

    def _marks(
        self, column: Column, counts: Arrangement, change: Batch | None, totals: tuple[bool, bool]
    ) -> Column:
        some, some_null = totals
        null = column.is_null()
        found = count_of(counts, change, hash_columns([column], len(column)), [column]) > 0
        found &= ~null
        unknown = (null | some_null) & ~found & some
        return marks(found, unknown)

    def seed(self) -> ZSet | None:
        return None

    def law(self) -> str:
        return f"{ACCUMULATOR_SUM.title}; clamp_not_a_law"


def _totals(totals: Arrangement, change: Batch | None) -> tuple[bool, bool]:
    """Whether there is any row, and any NULL."""
    batches = totals.batches if change is None else [*totals.batches, change]
    rows = sum(int(b.weights.sum()) for b in batches)
    nulls = sum(int(m.arrays(b.measures)[1].sum()) for b in batches)
    return rows > 0, nulls > 0
