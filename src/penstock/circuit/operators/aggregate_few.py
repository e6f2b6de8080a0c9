"""aggregate, for a delta of a few rows: the same step in plain Python integers.

Arrays of one number cost what arrays of a thousand cost. Measures that are integers are added up one by
one here, and only what leaves the step is made an array again.
"""

from __future__ import annotations

from collections.abc import Sequence

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
        hashes = hash_few(keys, len(delta))
        members = _members(keys, hashes)
        if members is None:
            return None
        firsts = [rows[0] for rows in members]
        found = np.array([hashes[row] for row in firsts], np.uint64)
        changes = self._changes(delta, members)
        old = _look_up(state, found, keys, firsts, len(self._measures))
        new = [[a + b for a, b in zip(x, y, strict=True)] for x, y in zip(old, changes, strict=True)]
        return self._emit(keys, firsts, old, new), (_appended(found, keys, firsts, changes),)

    def _changes(self, delta: ZSet, members: list[list[int]]) -> list[list[int]]:
        """For each group its change of each measure."""
        columns, count = delta.columns, len(delta)
        weights = delta.weights.tolist()
        changes: list[list[int]] = [[] for _ in members]
        for kind, arg, passes in self._measures:
            terms = weights
            if passes is not None:
                chosen = passes(columns, count).tolist()
                terms = [w if p else 0 for w, p in zip(terms, chosen, strict=True)]
            if arg is not None:
                terms = _terms(kind, arg(columns, count), terms)
            for rows, change in zip(members, changes, strict=True):
                change.append(terms[rows[0]] if len(rows) == 1 else sum([terms[r] for r in rows]))
        return changes

    def _emit(
        self, keys: list[Column], firsts: list[int], old: list[list[int]], new: list[list[int]]
    ) -> ZSet | None:
        """The old row and the new row of each group, where they differ."""
        count = len(firsts)
        both = old + new
        arrays = [integers(list(x)) for x in zip(*both, strict=True)]
        values = [finish([arrays[p] for p in places]) for finish, places in self._outputs]
        kept: list[int] = []
        weights: list[int] = []
        for group in range(count):
            was, is_now = (old[group][0] > 0, new[group][0] > 0) if keys else (True, True)
            if was and is_now and all(same_value(c, group, c, count + group) for c in values):
                continue
            if was:
                kept.append(group)
                weights.append(-1)
            if is_now:
                kept.append(count + group)
                weights.append(1)
        if not kept:
            return None
        if len(kept) == 2 and count == 1:  # the usual change: one group, its old row and its new one
            return ZSet((*[k.take(_TWICE) for k in keys], *values), _OLD_AND_NEW)
        rows, at = np.array([firsts[k % count] for k in kept]), np.array(kept)
        return ZSet((*[k.take(rows) for k in keys], *[v.take(at) for v in values]), np.array(weights))


def _members(keys: list[Column], hashes: list[int]) -> list[list[int]] | None:
    """The rows of each group, groups in the order of their hashes; None if different keys share a hash."""
    if len(hashes) == 1:
        return [[0]]
    found: dict[int, list[int]] = {}
    for row, hash in enumerate(hashes):
        rows = found.setdefault(hash, [])
        if rows and not all(same_value(k, rows[0], k, row) for k in keys):
            return None
        rows.append(row)
    return [found[hash] for hash in sorted(found)]


def _terms(kind: str, column: Column, weights: list[int]) -> list[int]:
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
        size = len(known)
        for group, at in enumerate(known.searchsorted(hashes).tolist()):
            while at < size and known[at] == hashes[group]:
                if (exact and batch.columns[0].valid is None) or all(
                    same_value(k, firsts[group], c, at) for k, c in zip(keys, batch.columns, strict=True)
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
    kept = [i for i, change in enumerate(changes) if any(change)]
    if not kept:
        return None
    if len(kept) < len(changes):
        hashes = hashes[np.array(kept)]
        changes = [changes[i] for i in kept]
    columns = tuple(keys)
    if len(kept) < len(firsts) or (columns and len(columns[0]) > 1):
        rows = np.array([firsts[i] for i in kept])
        columns = tuple([k.take(rows) for k in keys])
    return Batch(hashes, columns, tuple([integers(list(x)) for x in zip(*changes, strict=True)]))
