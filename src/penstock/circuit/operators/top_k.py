"""top_k: ORDER BY ... LIMIT k OFFSET n: the rows at positions n to n + k of an order.

    prefix(new) = the first n + k rows of: the old prefix and the delta up to the old prefix's end,
                  then the old rows and the delta from there on
    d = rows n to n + k of the new prefix - those of the old one

What comes before the end of the old prefix is the prefix itself, so the walk through the state
starts at its end: a change costs the prefix and the rows that refill it. Ties are broken by the
whole row. State: the rows in order, and the prefix, as bags whose weights add.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from penstock.circuit.operator import Delta, Recorded, Result
from penstock.kernels.order import OrderKey, sort_rows
from penstock.state.arrangement import Arrangement
from penstock.state.batch import Batch, Layout, build, concat_batches
from penstock.state.laws import WEIGHT_SUM
from penstock.state.walk import SortKey, sort_key, walk
from penstock.zset.column import Column, concat
from penstock.zset.types import SqlType
from penstock.zset.zset import ZSet, union

_HASH = np.uint64(0)  # there is one partition: the key is empty

Entry = tuple[SortKey, Batch, int, int]  # sort key, batch, row, weight


@dataclass(frozen=True)
class Ranked:
    """Different rows in order: how often each is in the old prefix, and how often it is there now."""

    columns: tuple[Column, ...]
    old: np.ndarray
    now: np.ndarray

    def take(self, index: np.ndarray) -> Ranked:
        return Ranked(tuple(c.take(index) for c in self.columns), self.old[index], self.now[index])


class TopK(Recorded):
    """The rows from `offset` on, at most `limit` of them.

    >>> from penstock.zset.column import from_pylist
    >>> from penstock.zset.types import BIGINT
    >>> top = TopK([BIGINT], [OrderKey(0, descending=True)], limit=2, offset=0)
    >>> state = [Arrangement("", layout) for layout in top.layouts]
    >>> out, appended = top.step([ZSet((from_pylist(BIGINT, [1, 5, 3]),), np.array([1, 1, 1]))], state)
    >>> for arrangement, batch in zip(state, appended):
    ...     arrangement.append(batch)
    >>> out, top.step([ZSet((from_pylist(BIGINT, [5]),), np.array([-1]))], state)[0]
    (ZSet([((5,), 1), ((3,), 1)]), ZSet([((5,), -1), ((1,), 1)]))
    """

    name = "top_k"

    def __init__(
        self, types: Sequence[SqlType], order: Sequence[OrderKey], limit: int | None, offset: int
    ) -> None:
        ordered = {k.column for k in order}
        rest = [OrderKey(i) for i in range(len(types)) if i not in ordered]
        self._order = (*order, *rest)
        self._limit = limit
        self._offset = offset
        self._size = offset if limit is None else offset + limit
        rows = Layout(tuple(types), (), self._order)
        prefix = Layout(tuple(types), (), self._order, eager=True)
        self.layouts = (rows, prefix)
        self.routes = ((),)

    def step(self, deltas: Sequence[Delta], state: Sequence[Arrangement]) -> Result:
        delta = deltas[0]
        assert isinstance(delta, ZSet)
        batch = build(self.layouts[0], delta.columns, (delta.weights,))
        reach = self._reach(batch, state[1])
        if not reach:
            return (delta if self._limit is None and len(batch) else None), (batch, None)
        ranked = self._rank(batch, batch.slice(0, reach), state)
        new = _first(ranked.now, self._size)
        change = _changes(ranked.columns, new - ranked.old)
        prefix = None if change is None else build(self.layouts[1], change.columns, (change.weights,))
        if self._limit is None:  # everything but the prefix
            out: ZSet | None = delta if change is None else union([delta, change.negate()])
        else:
            out = _changes(ranked.columns, self._window(new) - self._window(ranked.old))
        return out, (batch, prefix)

    def _window(self, prefix: np.ndarray) -> np.ndarray:
        """The part of a prefix after the offset."""
        return prefix - _first(prefix, self._offset)

    def _reach(self, batch: Batch, prefix: Arrangement) -> int:
        """How many rows of the (sorted) delta do not come after the end of the old prefix."""
        if not self._size or len(prefix.batches) != 1:
            return len(batch)
        old = prefix.batches[0]
        if int(old.weights.sum()) < self._size or (old.weights < 0).any():
            return len(batch)  # the prefix has everything there is
        end = sort_key(old.columns, self._order)(len(old) - 1)
        return bisect_right(range(len(batch)), end, key=sort_key(batch.columns, self._order))

    def _rank(self, batch: Batch, near: Batch, state: Sequence[Arrangement]) -> Ranked:
        """The rows of the old prefix and those that may be in the new one; `near` is the delta up to its end."""
        rows, prefix = state
        old = concat_batches(prefix.batches) if prefix.batches else near.slice(0, 0)
        columns = tuple([concat((a, b)) for a, b in zip(old.columns, near.columns, strict=True)])
        before = np.concatenate((old.weights, np.zeros(len(near), np.int64)))
        ranked = self._added_up(columns, before, np.concatenate((old.weights, near.weights)))
        if int(ranked.old.sum()) < self._size:
            return ranked  # the prefix has everything there is
        if not self._size:
            return ranked.take(np.zeros(0, np.int64))
        # From the end of the old prefix on, the state knows how often a row is there.
        end = int(np.flatnonzero(ranked.old)[-1])
        kept = ranked.take(np.arange(end + 1))
        at_least = int(kept.now[end])  # of the row at the end; the state may have more of it
        kept.now[end] = 0
        missing = self._size - int(np.maximum(kept.now, 0).sum())
        if missing <= at_least:
            kept.now[end] = at_least
            return kept
        start = sort_key(kept.columns, self._order)(end)
        refill = self._refill([*rows.batches, batch], start, missing)
        if refill is None:
            return kept
        together = tuple([concat((a, b)) for a, b in zip(kept.columns, refill.columns, strict=True)])
        none = np.zeros(len(refill), np.int64)
        return self._added_up(
            together, np.concatenate((kept.old, none)), np.concatenate((kept.now, refill.weights))
        )

    def _added_up(self, columns: tuple[Column, ...], old: np.ndarray, now: np.ndarray) -> Ranked:
        """Rows in order, equal ones as one. All columns are in the order, so rows that tie are equal."""
        order, change = sort_rows(columns, self._order, np.zeros(len(old), np.uint64))
        starts = np.flatnonzero(change)
        if not len(starts):
            return Ranked(columns, old, now)
        first = order[starts]
        old, now = np.add.reduceat(old[order], starts), np.add.reduceat(now[order], starts)
        return Ranked(tuple([c.take(first) for c in columns]), old, now)

    def _refill(self, batches: Sequence[Batch], start: SortKey, missing: int) -> ZSet | None:
        """The first rows from `start` on, until their weights make up for what is missing."""
        found: dict[int, tuple[Batch, list[int], list[int]]] = {}
        for _, batch, row, weight in _alive(walk(self.layouts[0], batches, _HASH, (), start)):
            if missing <= 0:
                break
            missing -= weight
            _, rows, weights = found.setdefault(id(batch), (batch, [], []))
            rows.append(row)
            weights.append(weight)
        parts = [ZSet(b.take(np.array(r)).columns, np.array(w, np.int64)) for b, r, w in found.values()]
        return union(parts) if parts else None

    def seed(self) -> ZSet | None:
        return None

    def law(self) -> str:
        return f"{WEIGHT_SUM.title}; partition_recomputation"


def _first(weights: np.ndarray, size: int) -> np.ndarray:
    """How much of each row belongs to the first `size` rows.

    >>> _first(np.array([2, 0, 3, 1]), 4).tolist()
    [2, 0, 2, 0]
    """
    weights = np.maximum(weights, 0)
    before = np.cumsum(weights) - weights
    return np.clip(size - before, 0, weights)


def _changes(columns: tuple[Column, ...], weights: np.ndarray) -> ZSet | None:
    changed = np.flatnonzero(weights)
    return ZSet(columns, weights).take(changed) if len(changed) else None


def _alive(entries: Iterable[Entry]) -> Iterator[Entry]:
    """Equal rows as one, those whose weights add up to more than zero."""
    current: Entry | None = None
    for entry in entries:
        if current is not None and entry[0] == current[0]:
            current = (*current[:3], current[3] + entry[3])
            continue
        if current is not None and current[3] > 0:
            yield current
        current = entry
    if current is not None and current[3] > 0:
        yield current
