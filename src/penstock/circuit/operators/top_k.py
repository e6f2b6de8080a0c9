"""top_k: ORDER BY ... LIMIT k OFFSET n: the rows at positions n to n + k of an order.

    prefix(new) = the first n + k rows of (old prefix, delta, and old rows from the prefix's end on)
    d = rows n to n + k of the new prefix - those of the old one

Rows before the end of the prefix are the prefix itself, so the walk through the state starts at its
end: a change costs the prefix and the rows that refill it. Ties are broken by the whole row.
State: the rows in order, and the prefix, as bags whose weights add.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Iterator, Sequence

import numpy as np

from penstock.circuit.operator import Delta, Result
from penstock.kernels.order import OrderKey
from penstock.state.arrangement import Arrangement
from penstock.state.batch import Batch, Layout, build
from penstock.state.laws import WEIGHT_SUM
from penstock.state.walk import SortKey, sort_key, walk
from penstock.zset.types import SqlType
from penstock.zset.zset import ZSet, union

_HASH = np.uint64(0)  # there is one partition: the key is empty

Entry = tuple[SortKey, Batch, int, int]  # sort key, batch, row, weight


class TopK:
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
        self.layouts = (Layout(tuple(types), (), self._order), Layout(tuple(types), (), self._order))
        self.routes = ((),)

    def step(self, deltas: Sequence[Delta], state: Sequence[Arrangement]) -> Result:
        delta = deltas[0]
        assert isinstance(delta, ZSet)
        batch = build(self.layouts[0], delta.columns, (delta.weights,))
        if not len(batch):
            return None, (None, None)
        if self._is_beyond(batch, state[1]):
            return (delta if self._limit is None else None), (batch, None)
        old = self._old_prefix(state[1])
        new = self._new_prefix(old, batch, state[0])
        change = _difference(self.layouts[1], new, old)
        if self._limit is None:  # everything but the prefix
            out = ZSet(delta.columns, delta.weights)
            if change is not None:
                out = union([out, change.zset().negate()])
            return out, (batch, change)
        emitted = _difference(self.layouts[1], self._window(new), self._window(old))
        return (emitted.zset() if emitted is not None else None), (batch, change)

    def _is_beyond(self, batch: Batch, prefix: Arrangement) -> bool:
        """The prefix is full, and every row of the delta comes after it: nothing changes in it."""
        rows = prefix.contents()
        if rows is None or int(rows.weights.sum()) < self._size:
            return False
        end = sort_key(rows.columns, self._order)(len(rows) - 1)
        return sort_key(batch.columns, self._order)(0) > end

    def _old_prefix(self, prefix: Arrangement) -> list[Entry]:
        rows = prefix.contents()
        if rows is None:
            return []
        key = sort_key(rows.columns, self._order)
        entries = [(key(i), rows, i, int(rows.weights[i])) for i in range(len(rows))]
        return sorted(entries, key=_sort_key_of)

    def _new_prefix(self, old: list[Entry], batch: Batch, rows: Arrangement) -> list[Entry]:
        runs: list[Iterable[Entry]] = [walk(rows.layout, [batch], _HASH, (), None)]
        if sum(e[3] for e in old) < self._size:
            runs.append(old)  # the prefix has everything there is
        elif old:
            end = old[-1][0]
            runs.append([e for e in old if e[0] < end])
            runs.append(walk(rows.layout, rows.batches, _HASH, (), end))
        return list(self._first(heapq.merge(*runs, key=_sort_key_of)))

    def _first(self, entries: Iterable[Entry]) -> Iterator[Entry]:
        """The first rows whose weights add up to the size of the prefix."""
        left = self._size
        for key, batch, row, weight in _added_up(entries):
            if left <= 0:
                return
            taken = min(weight, left)
            left -= taken
            yield key, batch, row, taken

    def _window(self, prefix: list[Entry]) -> list[Entry]:
        """The part of the prefix after the offset."""
        skip = self._offset
        window = []
        for key, batch, row, weight in prefix:
            kept = weight - min(weight, skip)
            skip -= weight - kept
            if kept:
                window.append((key, batch, row, kept))
        return window

    def seed(self) -> ZSet | None:
        return None

    def law(self) -> str:
        return f"{WEIGHT_SUM.title}; partition_recomputation"


def _sort_key_of(entry: Entry) -> SortKey:
    return entry[0]


def _added_up(entries: Iterable[Entry]) -> Iterator[Entry]:
    """Equal rows as one, those with a positive weight."""
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


def _difference(layout: Layout, new: list[Entry], old: list[Entry]) -> Batch | None:
    """new - old as a batch; None if they are the same."""
    parts = [*_rows(new, 1), *_rows(old, -1)]
    if not parts:
        return None
    change = union(parts)
    batch = build(layout, change.columns, (change.weights,))
    return batch if len(batch) else None


def _rows(entries: list[Entry], sign: int) -> list[ZSet]:
    by_batch: dict[int, tuple[Batch, list[int], list[int]]] = {}
    for _, batch, row, weight in entries:
        _, rows, weights = by_batch.setdefault(id(batch), (batch, [], []))
        rows.append(row)
        weights.append(sign * weight)
    return [
        ZSet(batch.zset().take(np.array(rows)).columns, np.array(weights)) for batch, rows, weights in by_batch.values()
    ]
