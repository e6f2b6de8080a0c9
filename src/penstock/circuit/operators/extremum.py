"""MIN and MAX of a group: part of the aggregate operator.

    new = the better of the old extreme and the best value added      unless the old one was removed;
    then the rows of the group are read again, from the old extreme on: everything better is gone.

State: the values of each group in order (the best first), with weights; and the extreme of each
group as last emitted, in the registers.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from penstock.base.limits import SMALL_GROUP_ROWS_MAX
from penstock.evaluate.compile import compile_expr, compile_predicate
from penstock.kernels.order import OrderKey, order_code
from penstock.kernels.ranges import run_starts
from penstock.plan.expr import Expr
from penstock.state.arrangement import Arrangement
from penstock.state.batch import Batch, Layout, build
from penstock.state.newest import newest_rows
from penstock.state.walk import first_alive
from penstock.zset.column import Column, concat, equal_rows, nulls
from penstock.zset.types import SqlType
from penstock.zset.zset import ZSet


class Extremum:
    """One MIN (or MAX: descending) over one argument.

    >>> from penstock.plan.expr import Col
    >>> from penstock.zset.column import from_pylist
    >>> from penstock.zset.types import BIGINT
    >>> least = Extremum([], Col(BIGINT, 0), None, descending=False, names=["a"])
    >>> rows = ZSet((from_pylist(BIGINT, [5, 3, None]),), np.array([1, 1, 1]))
    >>> whole, member = np.zeros(1, np.uint64), np.zeros(3, np.int64)  # one group
    >>> least.step(rows, (), whole, member, nulls(BIGINT, 1), Arrangement("", least.layout))[0]
    Column(BIGINT, [3])
    """

    def __init__(
        self,
        key_types: Sequence[SqlType],
        arg: Expr,
        filter: Expr | None,
        descending: bool,
        names: Sequence[str],
    ) -> None:
        self.type = arg.type
        self._descending = descending
        self._value = compile_expr(arg, names=names)
        self._passes = compile_predicate(filter, names=names) if filter is not None else None
        width = len(key_types)
        self.layout = Layout((*key_types, arg.type), tuple(range(width)), (OrderKey(width, descending),))

    def step(
        self,
        delta: ZSet,
        keys: tuple[Column, ...],
        hashes: np.ndarray,
        member: np.ndarray,
        old: Column,
        arrangement: Arrangement,
    ) -> tuple[Column, Batch | None]:
        """The groups' new extremes, and the batch to append."""
        values = self._value(delta.columns, len(delta))
        weights = delta.weights
        counted = values.validity()
        if self._passes is not None:
            passes = self._passes(delta.columns, len(delta))
            counted = passes if counted is None else counted & passes
        if counted is not None and not counted.all():
            values, weights, member = values.filter(counted), weights[counted], member[counted]
        if not len(values):
            return old, None
        batch = build(self.layout, (*[k.take(member) for k in keys], values), (weights,))
        new = self._advance(values, weights, member, old, len(hashes))
        lost = self._lost(values, weights, member, old)
        if len(lost):
            new = self._recompute(lost, new, keys, hashes, old, batch, arrangement)
        return new, batch

    def _codes(self, column: Column) -> np.ndarray:
        """Smaller is better. The column has no NULLs that matter."""
        return order_code(column, self._descending)[-1]

    def _advance(
        self, values: Column, weights: np.ndarray, member: np.ndarray, old: Column, groups: int
    ) -> Column:
        """The better of the old extreme and the best value that was added."""
        together = concat([old, values])
        codes = self._codes(together)
        has_old = old.validity()
        owner = np.concatenate((np.arange(groups), member))
        counts = np.concatenate((np.ones(groups, np.bool_) if has_old is None else has_old, weights > 0))
        return _best(together, codes, owner, counts, groups)

    def _lost(self, values: Column, weights: np.ndarray, member: np.ndarray, old: Column) -> np.ndarray:
        """The groups whose old extreme had copies removed: the delta may also have added some."""
        removed = weights < 0
        if not removed.any():
            return np.zeros(0, np.int64)
        rows = np.flatnonzero(removed)
        groups = member[rows]
        # A value that was added and removed within the epoch was never there: read again as well.
        best_added = equal_rows(values.take(rows), old.take(groups))
        valid = old.validity()
        if valid is not None:
            best_added &= valid[groups]
        suspects = set(groups[best_added].tolist())
        added = np.flatnonzero(weights > 0)
        if len(added):
            suspects |= set(groups.tolist()) & set(member[added].tolist())
        return np.array(sorted(suspects), np.int64)

    def _recompute(
        self,
        lost: np.ndarray,
        new: Column,
        keys: tuple[Column, ...],
        hashes: np.ndarray,
        old: Column,
        batch: Batch,
        arrangement: Arrangement,
    ) -> Column:
        """Read the rows of these groups again: small groups all at once, large ones from the old extreme."""
        sizes = np.zeros(len(lost), np.int64)
        for b in (*arrangement.batches, batch):
            wanted = hashes[lost]
            sizes += b.hashes.searchsorted(wanted, "right") - b.hashes.searchsorted(wanted, "left")
        small = lost[sizes <= SMALL_GROUP_ROWS_MAX]
        large = lost[sizes > SMALL_GROUP_ROWS_MAX]
        parts = [new]
        index = np.arange(len(new))
        if len(small):
            parts.append(self._read_again(small, keys, hashes, batch, arrangement))
            index[small] = len(new) + np.arange(len(small))
        if len(large):
            found = []
            for group in large.tolist():
                key = tuple(k.slice(group, group + 1) for k in keys)
                start = old.slice(group, group + 1)
                batches = (*arrangement.batches, batch)
                found.append(self._walk(batches, hashes[group], key, start, new.slice(group, group + 1)))
            index[large] = sum(len(p) for p in parts) + np.arange(len(large))
            parts.append(concat(found))
        return concat(parts).take(index)

    def _read_again(
        self,
        groups: np.ndarray,
        keys: tuple[Column, ...],
        hashes: np.ndarray,
        batch: Batch,
        arrangement: Arrangement,
    ) -> Column:
        wanted = [k.take(groups) for k in keys]
        whole = Arrangement(arrangement.name, self.layout, (*arrangement.batches, batch))
        owners, columns, weights = [], [], []
        for found, mine, theirs in whole.probe(hashes[groups], wanted):
            owners.append(mine)
            columns.append(found.columns[-1].take(theirs))
            weights.append(found.weights[theirs])
        if not owners:
            return nulls(self.type, len(groups))
        owner, values, weight = np.concatenate(owners), concat(columns), np.concatenate(weights)
        codes = self._codes(values)
        order = np.lexsort((codes, owner))
        owner, codes, weight = owner[order], codes[order], weight[order]
        change = (owner[1:] != owner[:-1]) | (codes[1:] != codes[:-1])
        starts = np.flatnonzero(np.concatenate(([True], change)))
        alive = np.add.reduceat(weight, starts) > 0
        return _best(values.take(order[starts]), codes[starts], owner[starts], alive, len(groups))

    def _walk(
        self, batches: Sequence[Batch], hash: np.uint64, key: tuple[Column, ...], old: Column, added: Column
    ) -> Column:
        """From the better of the old extreme and what was added, in order, to the first value that is there."""
        starts = [c for c in (old, added) if not c.is_null()[0]]
        if not starts:
            return first_alive(self.layout, batches, hash, key, None, self.type)
        candidates = concat(starts)
        start = candidates.take(np.array([np.argmin(self._codes(candidates))]))
        return first_alive(self.layout, batches, hash, key, start, self.type)


def _best(values: Column, codes: np.ndarray, owner: np.ndarray, counts: np.ndarray, groups: int) -> Column:
    """For each group the value with the least code among those that count; NULL where none does."""
    rows = np.flatnonzero(counts)
    if not len(rows):
        return nulls(values.type, groups)
    order = rows[np.lexsort((codes[rows], owner[rows]))]
    first = order[run_starts(owner[order])]
    if len(first) == groups:
        return values.take(first)
    index = np.full(groups, len(values))
    index[owner[first]] = first
    return concat([values, nulls(values.type, 1)]).take(index)


class Registers:
    """The extremes of each group as last emitted: one row a group, the newest batch has it."""

    def __init__(self, key_types: Sequence[SqlType], types: Sequence[SqlType]) -> None:
        self._width = len(key_types)
        self._types = list(types)
        self.layout = Layout((*key_types, *types), tuple(range(self._width)), one_row=True)

    def read(self, arrangement: Arrangement, hashes: np.ndarray, keys: Sequence[Column]) -> list[Column]:
        """The extremes of each group; NULL for a group that has none."""
        count = len(hashes)
        owners, rows = newest_rows(arrangement, hashes, keys)
        if rows is None:
            return [nulls(t, count) for t in self._types]
        values = rows.columns[self._width :]
        if len(owners) == count == 1:
            return list(values)
        index = np.full(count, len(owners))
        index[owners] = np.arange(len(owners))
        return [concat([v, nulls(v.type, 1)]).take(index) for v in values]

    def change(self, keys: tuple[Column, ...], old: Sequence[Column], new: Sequence[Column]) -> Batch | None:
        """The batch that takes the registers from the old to the new extremes."""
        same = np.ones(len(old[0]), np.bool_)
        for a, b in zip(old, new, strict=True):
            same &= equal_rows(a, b)
        rows = np.flatnonzero(~same)
        if not len(rows):
            return None
        had = rows[~_all_null(old, rows)]
        has = rows[~_all_null(new, rows)]
        columns = [concat([k.take(had), k.take(has)]) for k in keys]
        columns += [concat([a.take(had), b.take(has)]) for a, b in zip(old, new, strict=True)]
        weights = np.concatenate((np.full(len(had), -1), np.full(len(has), 1)))
        return build(self.layout, tuple(columns), (weights,))


def _all_null(columns: Sequence[Column], rows: np.ndarray) -> np.ndarray:
    result = np.ones(len(rows), np.bool_)
    for column in columns:
        result &= column.take(rows).is_null()
    return result
