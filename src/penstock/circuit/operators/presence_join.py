"""presence_join: semi and anti join, and the unmatched rows of an outer join, on equal keys.

    unmatched(A, B) = the rows of A whose key has no row in B
    d unmatched = dA at the keys absent from B_new
                + A_old at the keys that B has lost  -  A_old at the keys that B has gained
    d semi = the same with "present" for "absent"

A key's rows move only when B's count of it crosses zero. State: B's count of each key, which adds;
A arranged by the key (shared).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from penstock.base.errors import CardinalityViolation
from penstock.circuit.operator import Delta, Recorded, Result
from penstock.circuit.operators.arrange import null_free, without_nulls
from penstock.kernels.hashing import hash_columns
from penstock.state.arrangement import Arrangement, probe_batch
from penstock.state.batch import Batch, Layout, build
from penstock.state.laws import ACCUMULATOR_SUM
from penstock.zset.column import Column
from penstock.zset.types import SqlType
from penstock.zset.zset import ZSet, union


class PresenceJoin(Recorded):
    """Inputs: A's delta, B's delta, A's delta arranged by the key. Reads: A arranged by the key.

    >>> from penstock.zset.column import from_pylist
    >>> from penstock.zset.types import BIGINT
    >>> anti = PresenceJoin("anti", [BIGINT], [0], [0], not_null=[0], left_columns=[0])
    >>> state = [Arrangement("counts", anti.layouts[0]), Arrangement("a", Layout((BIGINT,), (0,)))]
    >>> a = ZSet((from_pylist(BIGINT, [1, 2, None]),), np.array([1, 1, 1]))
    >>> b = ZSet((from_pylist(BIGINT, [2]),), np.array([1]))
    >>> anti.step([a, b, None], state)[0]
    ZSet([((None,), 1), ((1,), 1)])
    """

    def __init__(
        self,
        kind: str,  # "semi", "anti", or "single": anti, and an error where a row of A has two matches
        key_types: Sequence[SqlType],
        left_key: Sequence[int],
        right_key: Sequence[int],
        not_null: Sequence[int],  # the places in the key where NULL matches nothing
        left_columns: Sequence[int],  # where A's columns stand in its arrangement
    ) -> None:
        self.name = {"semi": "semi_join", "anti": "anti_join", "single": "single_match"}[kind]
        self._present = kind == "semi"
        self._single = kind == "single"
        self._left_key = list(left_key)
        self._right_key = list(right_key)
        self._left_not_null = [left_key[p] for p in not_null]
        self._right_not_null = list(not_null)
        self._left_columns = list(left_columns)
        self.layouts = (Layout(tuple(key_types), tuple(range(len(key_types))), unique=True),)
        self.routes = (tuple(left_key), tuple(right_key), None)

    def step(self, deltas: Sequence[Delta], state: Sequence[Arrangement]) -> Result:
        left, right, arranged = deltas
        counts, left_state = state
        change = self._change(right)
        parts: list[ZSet] = []
        if left is not None:
            assert isinstance(left, ZSet)
            parts += self._new_rows(left, counts, change)
        if change is not None:
            moved = self._moved_rows(change, counts, left_state)
            if moved is not None:
                parts.append(moved)
            if self._single:
                assert arranged is None or isinstance(arranged, Batch)
                self._check_single(change, counts, left_state, arranged)
        parts = [p for p in parts if len(p)]
        return (union(parts) if parts else None), (change,)

    def _change(self, right: Delta) -> Batch | None:
        """How B's counts change."""
        if right is None:
            return None
        assert isinstance(right, ZSet)
        keys = without_nulls(right.select(self._right_key), self._right_not_null)
        batch = build(self.layouts[0], keys.columns, (keys.weights,))
        return batch if len(batch) else None

    def _new_rows(self, left: ZSet, counts: Arrangement, change: Batch | None) -> list[ZSet]:
        """A's delta, the rows that belong to the result by B as it is now."""
        mask = null_free(left, self._left_not_null)
        parts = []
        if mask is not None:
            if not self._present:
                parts.append(left.filter(~mask))
            left = left.filter(mask)
        if not len(left):
            return parts
        keys = [left.columns[p] for p in self._left_key]
        found = count_of(counts, change, hash_columns(keys, len(left)), keys)
        if self._single and bool(((found > 1) & (left.weights > 0)).any()):
            raise _several()
        belongs = found > 0 if self._present else found <= 0
        parts.append(left if belongs.all() else left.filter(belongs))
        return parts

    def _moved_rows(self, change: Batch, counts: Arrangement, left_state: Arrangement) -> ZSet | None:
        """A's old rows at the keys that B has gained or lost."""
        before = count_of(counts, None, change.hashes, change.columns)
        gained = (before <= 0) & (before + change.weights > 0)
        lost = (before > 0) & (before + change.weights <= 0)
        keys = np.flatnonzero(gained | lost)
        if not len(keys):
            return None
        signs = np.where(gained[keys] == self._present, 1, -1)
        wanted = [c.take(keys) for c in change.columns]
        parts = []
        for batch, mine, theirs in left_state.probe(change.hashes[keys], wanted):
            rows = batch.zset().select(self._left_columns).take(theirs)
            parts.append(ZSet(rows.columns, rows.weights * signs[mine]))
        return union(parts) if parts else None

    def _check_single(
        self, change: Batch, counts: Arrangement, left_state: Arrangement, arranged: Batch | None
    ) -> None:
        """A row of A that is there must not have two matches."""
        after = count_of(counts, None, change.hashes, change.columns) + change.weights
        keys = np.flatnonzero((after > 1) & (change.weights > 0))
        if not len(keys):
            return
        batches = left_state.batches if arranged is None else [*left_state.batches, arranged]
        alive = np.zeros(len(keys), np.int64)
        wanted = [c.take(keys) for c in change.columns]
        for batch in batches:
            found = probe_batch(left_state.layout, batch, change.hashes[keys], wanted)
            if found is not None:
                np.add.at(alive, found[0], batch.weights[found[1]])
        if (alive > 0).any():
            raise _several()

    def seed(self) -> ZSet | None:
        return None

    def law(self) -> str:
        return f"{ACCUMULATOR_SUM.title}; clamp_not_a_law"


def _several() -> CardinalityViolation:
    return CardinalityViolation(
        "more than one row returned by a subquery used as an expression",
        hint="Aggregate the subquery, or make its condition pick one row.",
    )


def count_of(
    counts: Arrangement, change: Batch | None, hashes: np.ndarray, keys: Sequence[Column]
) -> np.ndarray:
    """How many rows each key has, with the change where one is given. A key may be asked for repeatedly."""
    total = np.zeros(len(hashes), np.int64)
    batches = counts.batches if change is None else [*counts.batches, change]
    for batch in batches:
        found = probe_batch(counts.layout, batch, hashes, keys)
        if found is not None:
            mine, theirs = found  # a key stands once in a batch, so no row is named twice
            total[mine] += batch.weights[theirs]
    return total
