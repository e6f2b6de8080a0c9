"""An arrangement: indexed state as a short list of immutable batches, oldest and largest first.

Appending adds a batch; nothing is ever changed in place, so whoever holds the list of batches of
an epoch holds that epoch. Neighbours of like size are merged by the law, small ones at once, large
ones a slice of hashes at a time, paid for by what is appended: the number of batches stays
logarithmic and no tick pays for a whole merge.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise

import numpy as np

from penstock.base import faults
from penstock.base.limits import (
    INSERT_ROWS_MAX,
    MERGE_AT_ONCE_BATCHES_MIN,
    MERGE_AT_ONCE_ROWS_MAX,
    MERGE_ROWS_MIN,
    MERGE_ROWS_PER_APPENDED_ROW,
    SMALL_APPEND_ROWS_MAX,
    SMALL_BATCH_ROWS_MAX,
    YOUNG_GROUP_BYTES,
    YOUNG_GROUPS_MAX,
)
from penstock.base.undivided import Undivided
from penstock.kernels.ranges import expand
from penstock.kernels.search import lower_bounds
from penstock.native import kernels
from penstock.state import measures as m
from penstock.state.batch import Batch, Layout, merge
from penstock.state.few_groups import Added, FewGroups, batch_of_groups
from penstock.state.insert import insert_rows
from penstock.state.measures import Measure
from penstock.state.merging import Merging
from penstock.state.young import Young, stored
from penstock.zset.column import Column, equal_rows, same_value
from penstock.zset.few import Row

_FIRST = np.zeros(1, np.int64)


class Arrangement:
    """Batches of one layout, and the merges that are under way."""

    __slots__ = ("_batches", "_credit", "_fresh", "_merging", "layout", "merges_large", "name", "young")

    def __init__(self, name: str, layout: Layout, batches: Sequence[Batch] = ()) -> None:
        self.name = name
        self.layout = layout
        self._batches: list[Batch] = list(batches)
        self.young = Young()  # what has been appended and is not in a batch yet
        self._merging: list[Merging] = []
        self._credit = 0
        self.merges_large = True  # not where storage does it
        self._fresh: list[Batch] | None = None  # what storage does not have yet; None: no storage keeps it

    @property
    def batches(self) -> list[Batch]:
        """Everything, as batches."""
        if self.young.changes:
            self._settle()
        return self._batches

    def settled(self) -> Arrangement:
        """Itself, with everything in batches: its figures are exact then."""
        if self.young.changes:
            self._settle()
        return self

    def rows(self) -> int:  # whoever looks at figures does not have to hold the flow's lock
        return sum([len(b) for b in list(self._batches)]) + len(self.young.changes)

    def nbytes(self) -> int:
        merging = sum([x.nbytes() for x in list(self._merging)])
        return sum([b.nbytes() for b in list(self._batches)]) + merging + self._young_bytes()

    def _young_bytes(self) -> int:
        return len(self.young.changes) * YOUNG_GROUP_BYTES

    def partition(self, first: int, last: int) -> Arrangement:
        """The same state, cut to a range of hashes: views of the same memory."""
        cut = [b.range(first, last) for b in self.batches]
        return Arrangement(self.name, self.layout, [b for b in cut if len(b)])

    # -- reading ---------------------------------------------------------------------------

    def probe(
        self, hashes: np.ndarray, keys: Sequence[Column]
    ) -> Iterator[tuple[Batch, np.ndarray, np.ndarray]]:
        """For each batch with rows under these keys: the batch, the probe's row numbers, the batch's."""
        yield from probe_batches(self.layout, self.batches, hashes, keys)

    def lookup(self, hashes: np.ndarray, keys: Sequence[Column], like: Sequence[Measure]) -> list[Measure]:
        """The measures under each key, added up over the batches; zero where there is nothing.

        `hashes` must not hold the same key twice."""
        count = len(hashes)
        totals: list[Measure] | None = None
        for batch, mine, theirs in self.probe(hashes, keys):
            parts = [m.take(x, theirs) for x in batch.measures]
            whole = len(mine) == count and (count == 1 or bool((mine == np.arange(count)).all()))
            if totals is None:
                totals = (
                    parts
                    if whole
                    else [m.add_at(m.zeros_like(x, count), mine, p) for x, p in zip(like, parts, strict=True)]
                )
            elif whole:
                totals = [m.plus(t, p) for t, p in zip(totals, parts, strict=True)]
            else:
                totals = [m.add_at(t, mine, p) for t, p in zip(totals, parts, strict=True)]
        return totals if totals is not None else [m.zeros_like(x, count) for x in like]

    def total(self, key: Row, width: int) -> Added:
        """`lookup` of one group whose measures are integers, in plain Python; `width`: how many they are."""
        return self.young.remember(key, stored(key, self._batches, width))

    def contents(self) -> Batch | None:
        """Everything as one merged batch, equal rows added up; None if there is nothing."""
        batches = self.batches
        if not batches:
            return None
        if len(batches) > 1 or (batches[0].weights < 0).any():
            return merge(self.layout, batches)
        return batches[0]

    # -- writing ---------------------------------------------------------------------------

    def append(self, batch: Batch) -> None:
        """Add a batch, and pay for some merging. If that fails (a file is corrupt) the batch has been added."""
        young = self.young
        if isinstance(batch, FewGroups):
            if kernels is not None:
                kernels.add_groups(young.changes, young.known, batch.groups)
            else:
                young.add(batch.groups)
            if len(young.changes) >= YOUNG_GROUPS_MAX:
                self._settle()
            return
        if not len(batch):
            return
        if young.changes:
            self._settle()
        young.known.clear()
        for column in batch.columns:
            column.settle()
        if self._fresh is not None:
            self._fresh.append(batch)
        self._add(batch)

    def _settle(self) -> None:
        """Make a batch of what is young; nothing that can be looked up changes by it."""
        young = self.young
        changed = [(key, added) for key, added in young.changes.items() if any(added)]
        batch = batch_of_groups(self.layout.types, changed) if changed else None
        with Undivided():  # who reads may be stopped, but not here
            young.changes = {}  # not before: what fails until here loses nothing
            if batch is not None:
                if self._fresh is not None:
                    self._fresh.append(batch)
                self._add(batch)

    def _add(self, batch: Batch) -> None:
        batches = self._batches
        before = len(batches[-1]) if batches else 0
        batches.append(batch)
        if (
            before
            and before + len(batch) <= SMALL_BATCH_ROWS_MAX
            and self._merges_at_once(len(batch))
            and not (self._merging and self._is_merging(batches[-2]))
        ):
            last = batches[-2]
            merged = insert_rows(self.layout, last, batch) if len(batch) <= INSERT_ROWS_MAX else None
            if merged is None:
                merged = merge(self.layout, (last, batch), cancel=False)
            after = len(merged)
            batches[-2:] = [merged] if after else []
            # Whether merges are due depends on ratios of two: look again when the size has doubled.
            if after.bit_length() != before.bit_length():
                self._start_merges()
        else:
            self._start_merges()
        if self._merging:
            self._work(len(batch))

    def _merges_at_once(self, appended: int) -> bool:
        """Whether a small batch joins the newest one, or waits until several have come together."""
        layout = self.layout
        if layout.unique or layout.eager:
            return True  # state that stays small because it is added up
        # Sorting rows by all their columns is dear even for few.
        return appended <= SMALL_APPEND_ROWS_MAX and not layout.orders_all

    def _is_merging(self, batch: Batch) -> bool:
        return any(batch is x.older or batch is x.newer for x in self._merging)

    def _start_merges(self) -> None:
        """Do the merges of several small batches, and start those of two large ones, that are due."""
        while len(self._batches) > 1 and (self._merge_small() or self._start_large()):
            pass

    def _work(self, appended: int) -> None:
        self._credit += appended * MERGE_ROWS_PER_APPENDED_ROW
        if self._credit < MERGE_ROWS_MIN:
            return
        for merging in list(self._merging):
            with faults.step("merge.slice"):
                self._credit -= merging.work(self._credit)
            if merging.done():
                self._finish(merging)
            if self._credit <= 0:
                break
        if not self._merging:
            self._credit = 0

    def _merge_small(self) -> bool:
        """The newest batches at once, when several of like size have come together."""
        batches = self._batches
        count, total = 1, len(batches[-1])
        while count < len(batches):
            older = batches[-count - 1]
            if (
                len(older) > 2 * total
                or total + len(older) > MERGE_AT_ONCE_ROWS_MAX
                or self._is_merging(older)
            ):
                break
            count, total = count + 1, total + len(older)
        if count < MERGE_AT_ONCE_BATCHES_MIN:
            return False
        # Rows that come and go in turns would be joined with for ever: what cancels is found here, and not at each append.
        merged = merge(self.layout, batches[-count:])
        batches[-count:] = [merged] if len(merged) else []
        return True

    def _start_large(self) -> bool:
        if not self.merges_large:
            return False
        batches = self._batches
        for i in range(len(batches) - 1, 0, -1):
            older, newer = batches[i - 1], batches[i]
            if len(newer) + len(older) <= MERGE_AT_ONCE_ROWS_MAX or len(newer) * 2 < len(older):
                continue
            if not (self._is_merging(older) or self._is_merging(newer)):
                with faults.step("merge.start"):
                    self._merging.append(Merging(self.layout, older, newer))
                return True
        return False

    def _finish(self, merging: Merging) -> None:
        with faults.step("merge.finish"):
            result = merging.result()
            self._merging.remove(merging)
            at = next(i for i, b in enumerate(self._batches) if b is merging.older)
            self._batches[at : at + 2] = [result] if len(result) else []

    # -- what storage keeps ----------------------------------------------------------------

    def attach(self, runs: Sequence[Batch], kept: bool) -> None:
        """Begin with what storage has; if it keeps the arrangement, it will ask for what is new."""
        self.young = Young()
        self._batches = list(runs)
        self._merging.clear()
        self._fresh = [] if kept else None
        self.merges_large = not kept

    @property
    def is_kept(self) -> bool:
        return self._fresh is not None

    def take_fresh(self) -> list[Batch]:
        """What has been appended since this was last asked; everything, the first time."""
        if self.young.changes:
            self._settle()
        fresh = list(self._batches) if self._fresh is None else self._fresh
        self._fresh = []
        self.merges_large = False
        self._merging.clear()
        return fresh

    def rebase(self, runs: Sequence[Batch]) -> None:
        """Storage has put together all that it was given as these batches: go on with them."""
        self._batches = list(runs)
        for batch in self._fresh or ():
            self._add(batch)

    def fresh_bytes(self) -> int:
        """Bytes of what storage has not asked for yet."""
        return sum([b.nbytes() for b in self._fresh or ()]) + self._young_bytes()

    def compact(self) -> None:
        """Merge everything into one batch: for bulk loads and tests."""
        whole = self.contents()
        self._merging.clear()
        self._batches = [whole] if whole is not None and len(whole) else []
        self._fresh = None  # storage must take it all anew


Found = tuple[Batch, np.ndarray, np.ndarray]  # a batch, rows of the probe, rows of the batch


def probe_batches(
    layout: Layout, batches: Sequence[Batch], hashes: np.ndarray, keys: Sequence[Column], first: bool = False
) -> list[Found]:
    """For each batch with rows under these keys: the batch, the probe's row numbers, the batch's. With `first`,
    a key is looked for until a batch has it, and not in those after it."""
    if kernels is not None and len(hashes) > 1:
        try:
            pairs = _probe_compiled(layout, batches, hashes, keys, first)
        except TypeError:  # nested values, integers of more than 64 bits
            pass
        else:
            return pairs
    found: list[Found] = []
    waiting: np.ndarray | None = None  # the rows of the probe that no batch has had yet; None: all
    for batch in batches:
        if waiting is None:
            one = probe_batch(layout, batch, hashes, keys)
        elif len(waiting):
            one = probe_batch(layout, batch, hashes[waiting], [k.take(waiting) for k in keys])
        else:
            break
        if one is None:
            continue
        mine = one[0] if waiting is None else waiting[one[0]]
        found.append((batch, mine, one[1]))
        if first:
            unsettled = np.ones(len(hashes) if waiting is None else len(waiting), np.bool_)
            unsettled[one[0]] = False
            waiting = np.flatnonzero(unsettled) if waiting is None else waiting[unsettled]
    return found


def _probe_compiled(
    layout: Layout, batches: Sequence[Batch], hashes: np.ndarray, keys: Sequence[Column], first: bool
) -> list[Found]:
    compared = layout.compared
    sources = [(b.hashes, [b.columns[p] for p in compared]) for b in batches]
    pairs = kernels.probe(hashes, keys, sources, first)
    if pairs is None:
        return []
    mine, which, theirs = pairs
    start, last = int(which[0]), int(which[-1])
    if start == last:
        return [(batches[start], mine, theirs)]
    ends = which.searchsorted(np.arange(start, last + 2)).tolist()
    return [(batches[start + i], mine[a:b], theirs[a:b]) for i, (a, b) in enumerate(pairwise(ends)) if a < b]


def probe_batch(
    layout: Layout, batch: Batch, hashes: np.ndarray, keys: Sequence[Column]
) -> tuple[np.ndarray, np.ndarray] | None:
    """Pairs (row of the probe, row of the batch) with equal keys: by hash, then by the values."""
    found = batch.hashes
    if not len(found):
        return None
    if len(hashes) == 1:
        return _probe_one(layout, batch, hashes[0], keys)
    low = lower_bounds(found, hashes)
    there = low < len(found)
    if not there.all():
        low = np.minimum(low, len(found) - 1)
    there &= found[low] == hashes
    mine = np.flatnonzero(there)
    if not len(mine):
        return None
    theirs = low[mine]
    after = theirs + 1
    if (found[np.minimum(after, len(found) - 1)] == hashes[mine])[after < len(found)].any():
        owner, theirs = expand(theirs, found.searchsorted(hashes[mine], "right"))
        mine = mine[owner]
    same = None
    for column, position in zip(keys, layout.compared, strict=True):
        equal = equal_rows(column.take(mine), batch.columns[position].take(theirs))
        same = equal if same is None else same & equal
    if same is not None and not same.all():
        mine, theirs = mine[same], theirs[same]
        if not len(mine):
            return None
    return mine, theirs


def _probe_one(
    layout: Layout, batch: Batch, hash: np.uint64, keys: Sequence[Column]
) -> tuple[np.ndarray, np.ndarray] | None:
    """`probe_batch` for one row: no vectors where one number will do."""
    found = batch.hashes
    at, count = int(found.searchsorted(hash)), len(found)
    if at == count or found[at] != hash:
        return None
    if at + 1 == count or found[at + 1] != hash:
        for column, position in zip(keys, layout.compared, strict=True):
            if not same_value(column, 0, batch.columns[position], at):
                return None
        return _FIRST, np.array((at,))
    theirs = np.arange(at, int(found.searchsorted(hash, "right")))
    for column, position in zip(keys, layout.compared, strict=True):
        mine = np.zeros(len(theirs), np.int64)
        theirs = theirs[equal_rows(column.take(mine), batch.columns[position].take(theirs))]
    return (np.zeros(len(theirs), np.int64), theirs) if len(theirs) else None
