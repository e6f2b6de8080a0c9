"""A batch: one immutable run of an arrangement, sorted by the hash of its key.

Every batch holds rows with measures (weights, counts, sums) under one law: rows that are equal
merge by adding their measures, and a row whose measures are all zero is not there. A layout says
which columns are the key, and whether the key is the whole row ("unique": accumulators of groups)
or rows of one key stand side by side (rows of a join input). Rows with only positive weights are
not searched for equals: adding them up changes nothing that a reader can see.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from penstock.kernels.hashing import hash_columns
from penstock.kernels.order import OrderKey, lexsort, sort_order, sort_rows
from penstock.kernels.ranges import run_starts
from penstock.native import kernels
from penstock.state import measures as m
from penstock.state.grouping import exact_groups
from penstock.state.measures import Measure
from penstock.zset.column import Column, concat, empty
from penstock.zset.comparing import equal_at
from penstock.zset.made_text import made
from penstock.zset.taking import take_columns
from penstock.zset.types import SqlType
from penstock.zset.weights import compacted
from penstock.zset.zset import ZSet


@dataclass(frozen=True)
class Layout:
    """How the batches of one arrangement are laid out."""

    types: tuple[SqlType, ...]
    key: tuple[int, ...]
    order: tuple[OrderKey, ...] = ()  # rows of one hash are sorted by these
    unique: bool = False  # rows are always merged with their equals, and looked up as whole rows
    eager: bool = False  # small merges look for rows that cancel, too: for state that stays small
    one_row: bool = False  # a key has at most one row: in time order, each -1 undoes the +1 before it

    @cached_property
    def compared(self) -> tuple[int, ...]:
        """The columns that a look-up compares."""
        return tuple(range(len(self.types))) if self.unique else self.key

    @cached_property
    def orders_all(self) -> bool:
        """True where every column is in the order: rows that tie are equal."""
        return len({k.column for k in self.order}) == len(self.types) > 0


class Batch:
    """Rows sorted by hash, with their measures. `ref` says where storage has the batch, once it has."""

    __slots__ = ("columns", "hashes", "measures", "ref")

    ref: Any  # where storage has it: of the commit layer, None until then

    def __init__(
        self, hashes: np.ndarray, columns: tuple[Column, ...], measures: tuple[Measure, ...]
    ) -> None:
        self.hashes = hashes
        self.columns = columns
        self.measures = measures
        self.ref = None

    def __len__(self) -> int:
        return len(self.hashes)

    @property
    def weights(self) -> np.ndarray:
        return self.measures[0]  # type: ignore[return-value]

    def zset(self) -> ZSet:
        """The rows with their weights."""
        return ZSet(self.columns, self.weights)

    def slice(self, start: int, stop: int) -> Batch:
        columns = tuple([c.slice(start, stop) for c in self.columns])
        parts = tuple([m.slice_rows(x, start, stop) for x in self.measures])
        return Batch(self.hashes[start:stop], columns, parts)

    def take(self, index: np.ndarray) -> Batch:
        columns = tuple(take_columns(self.columns, index))
        return Batch(self.hashes[index], columns, tuple([m.take(x, index) for x in self.measures]))

    def range(self, first: int, last: int) -> Batch:
        """The rows whose hash h has first <= h < last: a partition of the batch."""
        start = int(np.searchsorted(self.hashes, np.uint64(first)))
        stop = len(self) if last > 0xFFFFFFFFFFFFFFFF else int(np.searchsorted(self.hashes, np.uint64(last)))
        return self.slice(start, stop)

    def nbytes(self) -> int:
        return (
            self.hashes.nbytes
            + sum(c.nbytes() for c in self.columns)
            + sum(m.nbytes(x) for x in self.measures)
        )


def empty_batch(layout: Layout, measures: Sequence[Measure]) -> Batch:
    none = tuple(m.zeros_like(x, 0) for x in measures)
    return Batch(np.zeros(0, np.uint64), tuple(empty(t) for t in layout.types), none)


def build(
    layout: Layout, columns: tuple[Column, ...], measures: tuple[Measure, ...], cancel: bool = True
) -> Batch:
    """Rows in any order as a batch of the layout, equal rows merged where that can matter.

    Without `cancel`, rows that take each other away may both stay, for a later merge to find: right for
    readers that add weights up anyway, and cheaper."""
    count = len(measures[0])
    hashes = hash_columns([columns[k] for k in layout.key], count)
    batch = Batch(hashes, columns, measures)
    if count > 1:
        if layout.one_row:  # within an epoch the old row goes before the new one comes
            removed = batch.weights < 0
            if removed.any():
                early = np.concatenate((np.flatnonzero(removed), np.flatnonzero(~removed)))
                return _consolidated(layout, batch.take(early[sort_order(hashes[early])]), cancel)
        return _arranged(layout, batch, cancel)
    return _consolidated(layout, batch, cancel)


def merge(layout: Layout, batches: Sequence[Batch], cancel: bool = True) -> Batch:
    """Batches of one layout as one, by the law: equal rows add up, zeros vanish."""
    if kernels is not None and not layout.order:
        merged = _merged(batches)
        if merged is not None:
            return _consolidated(layout, merged, cancel)
    return _arranged(layout, concat_batches(batches), cancel)


def _merged(batches: Sequence[Batch]) -> Batch | None:
    """Sorted batches as one, sorted, in compiled code; None where that does not know a type."""
    sources = [[b.hashes, *b.measures, *b.columns] for b in batches]
    try:
        which, rows = kernels.merge_order([b.hashes for b in batches])
        parts = kernels.gather(sources, which, rows)
    except (
        TypeError,
        AttributeError,
    ):  # nested values, sums of more than 64 bits or of floats; rows of a load
        return None
    first = 1 + len(batches[0].measures)
    measures = tuple([compacted(x[0]) for x in parts[1:first]])
    columns = zip(batches[0].columns, parts[first:], strict=True)
    return Batch(parts[0][0], tuple([made(c.type, len(rows), p) for c, p in columns]), measures)


def concat_batches(batches: Sequence[Batch]) -> Batch:
    """One below the other, without sorting."""
    if len(batches) == 1:
        return batches[0]
    columns = tuple([concat(parts) for parts in zip(*[b.columns for b in batches], strict=True)])
    measures = tuple([m.concat(parts) for parts in zip(*[b.measures for b in batches], strict=True)])
    hashes = np.concatenate([b.hashes for b in batches])
    return Batch(hashes, columns, measures)


def _arranged(layout: Layout, batch: Batch, cancel: bool) -> Batch:
    """Rows in any order as a batch of the layout."""
    if not layout.orders_all or not len(batch):
        return _consolidated(layout, _sorted(layout, batch), cancel)
    # The sort finds equal rows on its way, so what cancels costs nothing more to find.
    rows, change = sort_rows(batch.columns, layout.order, batch.hashes)
    starts = np.flatnonzero(change)
    measures = [m.sum_groups(m.take(x, rows), starts) for x in batch.measures]
    kept = np.flatnonzero(m.any_nonzero(measures))
    first = rows[starts[kept]]
    columns = tuple(take_columns(batch.columns, first))
    return Batch(batch.hashes[first], columns, tuple([m.take(x, kept) for x in measures]))


def _sorted(layout: Layout, batch: Batch) -> Batch:
    hashes = batch.hashes
    if layout.order:
        return batch.take(sort_rows(batch.columns, layout.order, hashes)[0])
    if (hashes[1:] >= hashes[:-1]).all():
        return batch
    return batch.take(sort_order(hashes))


def _consolidated(layout: Layout, batch: Batch, cancel: bool) -> Batch:
    """A sorted batch with equal rows merged (for rows: only where a negative weight may cancel)."""
    hashes = batch.hashes
    if layout.unique:
        starts = run_starts(hashes)
        if len(starts) < len(hashes):
            if len(layout.key) == len(layout.types):
                batch = _merge_runs(batch, starts)
            else:
                batch = _merge_equal_rows(batch)
        keep = m.any_nonzero(batch.measures)
        if not keep.all():
            batch = batch.take(np.flatnonzero(keep))
        return batch
    if layout.one_row:
        return _last_of_each_key(layout, batch)
    if not cancel and not layout.eager:
        return batch
    negative = batch.weights <= 0  # zero weights go too
    if not negative.any():
        return batch
    return _cancel(layout, batch, negative)


def _merge_runs(batch: Batch, starts: np.ndarray) -> Batch:
    """Adjacent rows of one hash added up, after checking that they really are equal."""
    first = np.repeat(starts, np.diff(np.append(starts, len(batch))))
    same = equal_at(batch.columns, first, batch.columns, np.arange(len(batch)))
    if not same.all():  # a collision of different keys: group by the values themselves
        order, starts = exact_groups(batch.hashes, batch.columns)
        batch = batch.take(order)
    merged = batch.take(starts)
    merged.measures = tuple([m.sum_groups(x, starts) for x in batch.measures])
    return merged


def _last_of_each_key(layout: Layout, batch: Batch) -> Batch:
    """Rows of one key in time order are -a +b, -b +c, ...: what lies between the first -a and the last
    +c cancels, so nothing needs to be compared but the keys."""
    starts = run_starts(batch.hashes)
    if len(starts) == len(batch):
        return batch
    keys = [batch.columns[k] for k in layout.key]
    first = np.repeat(starts, np.diff(np.append(starts, len(batch))))
    if not equal_at(keys, first, keys, np.arange(len(batch))).all():
        order, starts = exact_groups(batch.hashes, keys)
        batch = batch.take(order)
    ends = np.append(starts[1:], len(batch)) - 1
    keep = np.zeros(len(batch), np.bool_)
    weights = batch.weights
    keep[starts[weights[starts] < 0]] = True
    keep[ends[weights[ends] > 0]] = True
    return batch if keep.all() else batch.take(np.flatnonzero(keep))


def _cancel(layout: Layout, batch: Batch, negative: np.ndarray) -> Batch:
    """Merge equal rows within the hashes that have a negative weight; the others stay as they are."""
    starts = run_starts(batch.hashes)
    touched = np.logical_or.reduceat(negative, starts)
    lengths = np.diff(np.append(starts, len(batch)))
    rows = np.flatnonzero(np.repeat(touched, lengths))
    merged = _merge_equal_rows(batch.take(rows))
    merged = merged.take(np.flatnonzero(m.any_nonzero(merged.measures)))
    rest = np.ones(len(batch), np.bool_)
    rest[rows] = False
    return _sorted(layout, concat_batches([batch.take(np.flatnonzero(rest)), merged]))


def _merge_equal_rows(batch: Batch) -> Batch:
    """A batch in which different rows share a hash, with equal rows added up; still sorted by hash."""
    identity = hash_columns(batch.columns, len(batch))
    order = lexsort([batch.hashes, identity])
    batch, identity = batch.take(order), identity[order]
    same = (batch.hashes[1:] == batch.hashes[:-1]) & (identity[1:] == identity[:-1])
    starts = np.flatnonzero(np.concatenate(([True], ~same)))
    first = np.repeat(starts, np.diff(np.append(starts, len(batch))))
    if not equal_at(batch.columns, first, batch.columns, np.arange(len(batch))).all():
        exact, starts = exact_groups(batch.hashes, batch.columns)
        batch = batch.take(exact)
    merged = batch.take(starts)
    merged.measures = tuple([m.sum_groups(x, starts) for x in batch.measures])
    return merged
