"""match_join: semi, anti, mark join, and the unmatched rows of an outer join, with any condition.

    matches(row of A) = the sum of the weights of the rows of B for which the condition is true
    d = f(new weight, new matches) - f(old weight, old matches)       for the rows of A touched:
        those in dA, and those in A_old under the keys in dB

State: for each row of A its weight and its matches (for mark joins also how many comparisons were
NULL), which add; A and B arranged by the equal part of the condition (shared).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from penstock.base.errors import CardinalityViolation
from penstock.base.limits import JOIN_PAIRS_MAX
from penstock.circuit.operator import Delta, Recorded, Result
from penstock.evaluate.compile import compile_expr
from penstock.kernels.hashing import hash_columns
from penstock.plan.expr import Expr
from penstock.state import measures as m
from penstock.state.arrangement import Arrangement, probe_batch
from penstock.state.batch import Batch, Layout
from penstock.state.grouping import group_rows
from penstock.state.laws import ACCUMULATOR_SUM
from penstock.zset.column import Column, with_nulls
from penstock.zset.types import BOOLEAN, SqlType
from penstock.zset.zset import ZSet, union


class MatchJoin(Recorded):
    """Inputs: A's delta, B's delta arranged by key. Reads: A arranged by key, B arranged by key.

    >>> from penstock.plan.expr import Call, Col
    >>> from penstock.state.batch import build
    >>> from penstock.zset.column import from_pylist
    >>> from penstock.zset.types import BIGINT
    >>> less = Call(BOOLEAN, "<", (Col(BIGINT, 0), Col(BIGINT, 1)))
    >>> semi = MatchJoin("semi", [BIGINT], [], [], [], [0], less, ["a", "b"])
    >>> keyless = Layout((BIGINT,), ())
    >>> state = [Arrangement("", layout) for layout in (semi.layouts[0], keyless, keyless)]
    >>> a = ZSet((from_pylist(BIGINT, [1, 9]),), np.array([1, 1]))
    >>> b = build(keyless, (from_pylist(BIGINT, [5]),), (np.array([1]),))
    >>> semi.step([a, b], state)[0]  # the rows of A that are less than some row of B
    ZSet([((1,), 1)])
    """

    def __init__(
        self,
        kind: str,  # semi, anti, single, mark
        types: Sequence[SqlType],  # of A
        left_key: Sequence[int],
        right_key: Sequence[int],
        not_null: Sequence[int],  # places in the key where NULL matches nothing
        left_columns: Sequence[int],  # where A's columns stand in its arrangement
        condition: Expr | None,  # over A's columns ++ B's; three-valued for mark joins
        names: Sequence[str],
    ) -> None:
        self.name = {"semi": "semi_join", "anti": "anti_join", "single": "single_match", "mark": "mark_join"}[
            kind
        ]
        self._kind = kind
        self._left_key = list(left_key)
        self._right_key = list(right_key)
        self._not_null = [left_key[p] for p in not_null]
        self._left_columns = list(left_columns)
        self._condition = compile_expr(condition, names=names) if condition is not None else None
        self.layouts = (Layout(tuple(types), tuple(left_key), unique=True),)
        self.routes = (tuple(left_key), None)

    def step(self, deltas: Sequence[Delta], state: Sequence[Arrangement]) -> Result:
        left, right = deltas
        matches, left_state, right_state = state
        assert right is None or isinstance(right, Batch)
        rows = self._touched(left, right, left_state)
        if rows is None:
            return None, (None,)
        old = m.arrays(matches.lookup(rows.hashes, rows.columns, [np.zeros(0, np.int64)] * 3))
        weight, change = old[0], rows.weights
        new_weight = weight + change
        delta_hits = self._count(rows, [right] if right is not None else [])
        fresh = np.flatnonzero((weight <= 0) & (new_weight > 0))
        state_hits = [np.zeros(len(rows), np.int64) for _ in range(2)]
        if len(fresh):
            found = self._count(rows.take(fresh), right_state.batches)
            for total, part in zip(state_hits, found, strict=True):
                total[fresh] = part
        new = [new_weight]
        for before, now, there in zip(old[1:], delta_hits, state_hits, strict=True):
            hits = np.where(weight > 0, before, there) + now
            new.append(np.where(new_weight > 0, hits, 0))
        self._check(new)
        changes = tuple([m.plus(b, -a) for a, b in zip(old, new, strict=True)])
        batch = Batch(rows.hashes, rows.columns, changes)
        kept = np.flatnonzero(m.any_nonzero(changes))
        return self._emit(rows, old, new), (batch.take(kept) if len(kept) else None,)

    def _touched(self, left: Delta, right: Batch | None, left_state: Arrangement) -> Batch | None:
        """A's rows that the epoch touches, each once, with the change of its weight (zero for those
        that only their matches change)."""
        parts: list[ZSet] = []
        if left is not None:
            assert isinstance(left, ZSet)
            parts.append(left)
        if right is not None and len(right):
            keys = [right.columns[p] for p in self._right_key]
            groups = group_rows(keys, len(right))
            first = groups.first_rows()
            wanted = [k.take(first) for k in keys]
            for batch, _, theirs in left_state.probe(groups.hashes, wanted):
                found = batch.zset().select(self._left_columns).take(theirs)
                parts.append(ZSet(found.columns, np.zeros(len(found), np.int64)))
        if not parts:
            return None
        rows = union(parts)
        groups = group_rows(rows.columns, len(rows))
        first = groups.first_rows()
        together = tuple([c.take(first) for c in rows.columns])
        weights = np.add.reduceat(groups.arranged(rows.weights), groups.starts) if len(rows) else rows.weights
        hashes = hash_columns([together[p] for p in self._left_key], len(first))
        order = np.argsort(hashes, kind="stable")
        return Batch(hashes, together, (weights,)).take(order)

    def _count(self, rows: Batch, batches: Sequence[Batch]) -> list[np.ndarray]:
        """For each row: the matching weights in the batches, and those whose comparison is NULL."""
        hits = np.zeros(len(rows), np.int64)
        unknown = np.zeros(len(rows), np.int64)
        able = np.ones(len(rows), np.bool_)
        for position in self._not_null:
            valid = rows.columns[position].validity()
            if valid is not None:
                able &= valid
        index = np.flatnonzero(able)
        right_layout_key = tuple(self._right_key)
        for batch in batches:
            for part in _chunks(rows, index, batch):
                keys = [rows.columns[p].take(part) for p in self._left_key]
                layout = Layout((), right_layout_key)
                found = probe_batch(layout, batch, rows.hashes[part], keys)
                if found is None:
                    continue
                mine, theirs = part[found[0]], found[1]
                true, null = self._evaluate(rows, batch, mine, theirs)
                weights = batch.weights[theirs]
                np.add.at(hits, mine, np.where(true, weights, 0))
                if null is not None:
                    np.add.at(unknown, mine, np.where(null, weights, 0))
        return [hits, unknown]

    def _evaluate(
        self, rows: Batch, batch: Batch, mine: np.ndarray, theirs: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray | None]:
        if self._condition is None:
            return np.ones(len(mine), np.bool_), None
        pairs = [c.take(mine) for c in rows.columns] + [c.take(theirs) for c in batch.columns]
        result = self._condition(pairs, len(mine))
        if result.valid is None:
            return result.values, None
        return result.values & result.valid, ~result.valid

    def _check(self, new: Sequence[np.ndarray]) -> None:
        if self._kind == "single" and bool(((new[0] > 0) & (new[1] > 1)).any()):
            raise CardinalityViolation(
                "more than one row returned by a subquery used as an expression",
                hint="Aggregate the subquery, or make its condition pick one row.",
            )

    def _emit(self, rows: Batch, old: Sequence[np.ndarray], new: Sequence[np.ndarray]) -> ZSet | None:
        if self._kind == "mark":
            return self._emit_marks(rows, old, new)
        wanted = self._kind == "semi"
        before = np.where((old[1] > 0) == wanted, old[0], 0)
        after = np.where((new[1] > 0) == wanted, new[0], 0)
        weights = after - before
        changed = np.flatnonzero(weights)
        return ZSet(rows.columns, weights).take(changed) if len(changed) else None

    def _emit_marks(self, rows: Batch, old: Sequence[np.ndarray], new: Sequence[np.ndarray]) -> ZSet | None:
        before, after = marks(old[1] > 0, old[2] > 0), marks(new[1] > 0, new[2] > 0)
        same = (old[1] > 0) == (new[1] > 0)
        same &= (old[1] > 0) | ((old[2] > 0) == (new[2] > 0))
        same &= old[0] == new[0]
        gone, come = np.flatnonzero((old[0] != 0) & ~same), np.flatnonzero((new[0] != 0) & ~same)
        return with_marks(rows.columns, gone, old[0], before, come, new[0], after)

    def seed(self) -> ZSet | None:
        return None

    def law(self) -> str:
        return f"{ACCUMULATOR_SUM.title}; clamp_not_a_law"


def marks(true: np.ndarray, unknown: np.ndarray) -> Column:
    """TRUE where a match is there, else NULL where a comparison was NULL, else FALSE."""
    return with_nulls(BOOLEAN, true.copy(), true | ~unknown)


def with_marks(
    columns: Sequence[Column],
    gone: np.ndarray,
    old_weights: np.ndarray,
    old_marks: Column,
    come: np.ndarray,
    new_weights: np.ndarray,
    new_marks: Column,
) -> ZSet | None:
    """Rows with their old marks taken out and with their new marks put in."""
    out = ZSet((*[c.take(gone) for c in columns], old_marks.take(gone)), -old_weights[gone])
    back = ZSet((*[c.take(come) for c in columns], new_marks.take(come)), new_weights[come])
    parts = [p for p in (out, back) if len(p)]
    return union(parts) if parts else None


def _chunks(rows: Batch, index: np.ndarray, batch: Batch) -> list[np.ndarray]:
    """The rows in portions whose pairs with the batch stay below a limit."""
    if len(index) * len(batch) <= JOIN_PAIRS_MAX:
        return [index] if len(index) else []
    hashes = rows.hashes[index]
    pairs = batch.hashes.searchsorted(hashes, "right") - batch.hashes.searchsorted(hashes, "left")
    portion = np.cumsum(pairs) // JOIN_PAIRS_MAX
    cuts = np.flatnonzero(np.diff(portion)) + 1
    return [p for p in np.split(index, cuts) if len(p)]
