"""aggregate, for a delta of a few rows: the same step in plain Python integers.

Arrays of one number cost what arrays of a thousand cost. Measures that are integers are added up one by
one here, and only what leaves the step is made an array again.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import repeat

import numpy as np

from penstock.circuit.accumulators import Finish, MeasureSpec
from penstock.circuit.operator import Result
from penstock.evaluate.compile import Predicate
from penstock.evaluate.forms import Eval
from penstock.kernels.hashing import hash_few, is_exact
from penstock.kernels.wide import integers
from penstock.state.arrangement import Arrangement
from penstock.state.batch import Batch
from penstock.zset.column import Column, same_value
from penstock.zset.zset import ZSet

_TWICE = np.zeros(2, np.int64)
_OLD_AND_NEW = np.array((-1, 1))
_OLD_AND_NEW.flags.writeable = False
_KINDS = frozenset(("rows", "count", "true", "sum", "squares"))


class FewRows:
    """The step of an aggregate with one input, integer measures and no extremes."""

    def __init__(
        self,
        keys: Sequence[int],
        specs: Sequence[MeasureSpec],
        compiled: Sequence[tuple[Eval | None, Predicate | None]],
        outputs: Sequence[tuple[Finish, Sequence[int]]],
    ) -> None:
        self._keys = list(keys)
        self._measures = [(s.kind, *c) for s, c in zip(specs, compiled, strict=True)]
        self._outputs = list(outputs)

    @staticmethod
    def fits(specs: Sequence[MeasureSpec]) -> bool:
        return all(s.kind in _KINDS and s.input == 0 for s in specs)

    def step(self, delta: ZSet, state: Arrangement) -> Result | None:
        """The result of the step; None where different keys share a hash, which is not for here."""
        keys = [delta.columns[k] for k in self._keys]
        hashes = hash_few(keys, delta.weights.size)
        members = _members(keys, hashes)
        if members is None:
            return None
        firsts = [rows[0] for rows in members]
        found = np.array([hashes[row] for row in firsts], np.uint64)
        terms = self._terms(delta)
        old = _look_up(state, found, keys, firsts, len(terms))
        new: list[list[int]] = []
        changes: list[list[int]] = []
        for rows, before in zip(members, old, strict=True):
            change, after = [], []
            for of_row, measure in zip(terms, before, strict=True):
                added = of_row[rows[0]] if len(rows) == 1 else sum([of_row[r] for r in rows])
                change.append(added)
                after.append(measure + added)
            changes.append(change)
            new.append(after)
        return self._emit(keys, firsts, old, new), (_appended(found, keys, firsts, changes),)

    def _terms(self, delta: ZSet) -> list[list[int]]:
        """For each measure what each row adds to it."""
        weights = delta.weights.tolist()
        found = []
        for kind, arg, passes in self._measures:
            terms = weights
            if passes is not None:
                chosen = passes(delta.columns, len(weights)).tolist()
                terms = [w if p else 0 for w, p in zip(terms, chosen, strict=True)]
            if arg is not None:
                terms = _weighted(kind, arg(delta.columns, len(weights)), terms)
            found.append(terms)
        return found

    def _emit(
        self, keys: list[Column], firsts: list[int], old: list[list[int]], new: list[list[int]]
    ) -> ZSet | None:
        """The old row and the new row of each group, where they differ."""
        count = len(firsts)
        arrays = [integers(x) for x in zip(*old, *new, strict=True)]
        values = [finish([arrays[p] for p in places]) for finish, places in self._outputs]
        going: list[int] = []
        coming: list[int] = []
        for group in range(count):
            was, is_now = (old[group][0] > 0, new[group][0] > 0) if keys else (True, True)
            if was and is_now and _same(values, group, values, count + group):
                continue
            if was:
                going.append(group)
            if is_now:
                coming.append(count + group)
        kept = going + coming
        if len(kept) == 2 * count:
            rows = _TWICE if count == 1 else np.array(firsts + firsts)
            weights = _OLD_AND_NEW if count == 1 else np.array([-1] * count + [1] * count)
            return ZSet((*[k.take(rows) for k in keys], *values), weights)
        if not kept:
            return None
        rows, at = np.array([firsts[k % count] for k in kept]), np.array(kept)
        weights = np.array([-1] * len(going) + [1] * len(coming))
        return ZSet((*[k.take(rows) for k in keys], *[v.take(at) for v in values]), weights)


def _members(keys: list[Column], hashes: list[int]) -> list[list[int]] | None:
    """The rows of each group, groups in the order of their hashes; None if different keys share a hash."""
    if len(hashes) == 1:
        return [[0]]
    found: dict[int, list[int]] = {}
    for row, hash in enumerate(hashes):
        rows = found.setdefault(hash, [])
        if rows and not _same(keys, rows[0], keys, row):
            return None
        rows.append(row)
    return [found[hash] for hash in sorted(found)]


def _same(left: Sequence[Column], i: int, right: Sequence[Column], j: int) -> bool:
    """Whether row i of these columns equals row j of those."""
    return all(map(same_value, left, repeat(i), right, repeat(j)))


def _weighted(kind: str, column: Column, weights: list[int]) -> list[int]:
    """What each row adds to a measure of its argument."""
    valid = column.validity()
    if valid is not None:
        weights = [w if v else 0 for w, v in zip(weights, valid.tolist(), strict=True)]
    if kind == "count":
        return weights
    values = column.values.tolist()
    if kind == "true":
        return [w if v else 0 for w, v in zip(weights, values, strict=True)]
    if kind == "squares":
        return [v * v * w for w, v in zip(weights, values, strict=True)]
    return [v * w for w, v in zip(weights, values, strict=True)]


def _look_up(
    state: Arrangement, hashes: np.ndarray, keys: list[Column], firsts: list[int], width: int
) -> list[list[int]]:
    """The measures of each group, added up over the batches."""
    exact = is_exact(keys)
    totals = [[0] * width for _ in firsts]
    for batch in state.batches:
        known = batch.hashes
        size = known.size
        for group, at in enumerate(known.searchsorted(hashes).tolist()):
            while at < size and known[at] == hashes[group]:
                if (exact and batch.columns[0].valid is None) or _same(
                    keys, firsts[group], batch.columns, at
                ):
                    total = totals[group]
                    for i, measure in enumerate(batch.measures):
                        total[i] += measure.item(at)  # type: ignore[union-attr]
                    break
                at += 1
    return totals


def _appended(
    hashes: np.ndarray, keys: list[Column], firsts: list[int], changes: list[list[int]]
) -> Batch | None:
    """The changes as a batch, without groups of which no measure changed."""
    if not all(map(any, changes)):
        kept = [i for i, change in enumerate(changes) if any(change)]
        if not kept:
            return None
        hashes = hashes[np.array(kept)]
        firsts, changes = [firsts[i] for i in kept], [changes[i] for i in kept]
    measures = tuple([integers(x) for x in zip(*changes, strict=True)])
    if firsts == [0] and keys and len(keys[0].values) == 1:
        return Batch(hashes, tuple(keys), measures)
    rows = np.array(firsts)
    return Batch(hashes, tuple([k.take(rows) for k in keys]), measures)
