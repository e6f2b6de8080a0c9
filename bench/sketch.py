"""The degree distribution in bare numpy: the least that two aggregates over sorted runs can cost.

No SQL, no types, no NULLs, no checks, one 64-bit integer key, one count: the floor that a tick of
one row is measured against. Each aggregate is a list of runs sorted by hash; a change is looked up
in each run, emitted as the old value out and the new value in, and appended as a small run. Runs of
similar length are merged by adding their counts.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Ints = npt.NDArray[np.int64]
Hashes = npt.NDArray[np.uint64]
Run = tuple[Hashes, Ints, Ints]  # hashes in order, keys, counts


def hashed(keys: Ints) -> Hashes:
    mixed = keys.astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    mixed ^= mixed >> np.uint64(29)
    mixed *= np.uint64(0xBF58476D1CE4E5B9)
    mixed ^= mixed >> np.uint64(32)
    return mixed


def consolidated(hashes: Hashes, keys: Ints, counts: Ints) -> Run:
    """Sorted by hash, each key once, its counts added."""
    order = np.argsort(hashes, kind="stable")
    hashes = hashes[order]
    starts = np.flatnonzero(np.concatenate(([True], hashes[1:] != hashes[:-1])))
    return hashes[starts], keys[order][starts], np.add.reduceat(counts[order], starts)


class CountByKey:
    """SELECT key, COUNT(*) ... GROUP BY key, kept fresh.

    >>> counts = CountByKey()
    >>> keys, values, weights = counts.step(np.array([5, 5, 9]), np.array([1, 1, 1]))
    >>> sorted(zip(keys.tolist(), values.tolist(), weights.tolist()))
    [(5, 2, 1), (9, 1, 1)]
    >>> keys, values, weights = counts.step(np.array([5]), np.array([-1]))
    >>> sorted(zip(keys.tolist(), values.tolist(), weights.tolist()))
    [(5, 1, 1), (5, 2, -1)]
    """

    def __init__(self) -> None:
        self.runs: list[Run] = []

    def step(self, keys: Ints, weights: Ints) -> tuple[Ints, Ints, Ints]:
        hashes, keys, change = consolidated(hashed(keys), keys, weights)
        old = self._lookup(hashes)
        new = old + change
        self._append((hashes, keys, change))
        had, has = old > 0, new > 0
        return (
            np.concatenate([keys[had], keys[has]]),
            np.concatenate([old[had], new[has]]),
            np.concatenate([np.full(had.sum(), -1), np.full(has.sum(), 1)]),
        )

    def _lookup(self, hashes: Hashes) -> Ints:
        found = np.zeros(len(hashes), np.int64)
        for run_hashes, _, counts in self.runs:
            place = np.searchsorted(run_hashes, hashes)
            place[place == len(run_hashes)] = 0
            found += np.where(run_hashes[place] == hashes, counts[place], 0)
        return found

    def _append(self, run: Run) -> None:
        self.runs.append(run)
        while len(self.runs) > 1 and 2 * len(self.runs[-1][0]) >= len(self.runs[-2][0]):
            newer, older = self.runs.pop(), self.runs.pop()
            hashes = np.concatenate([older[0], newer[0]])
            keys = np.concatenate([older[1], newer[1]])
            counts = np.concatenate([older[2], newer[2]])
            self.runs.append(consolidated(hashes, keys, counts))


class DegreeSketch:
    """How many nodes have how many edges, from two counts one above the other."""

    def __init__(self) -> None:
        self.degrees = CountByKey()
        self.distribution = CountByKey()

    def step(self, sources: Ints) -> tuple[Ints, Ints, Ints]:
        _, degrees, weights = self.degrees.step(sources, np.ones(len(sources), np.int64))
        return self.distribution.step(degrees, weights)
