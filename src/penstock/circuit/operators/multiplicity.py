"""multiplicity: DISTINCT, INTERSECT [ALL] and EXCEPT [ALL]: how often a row is there follows from how
often it is in each input.

    weight(row) = f(count in A, count in B)
    d = f(new counts) - f(old counts), for the rows in dA and dB

State: the counts of each row, which add.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from penstock.circuit.operator import Delta, Recorded, Result
from penstock.state import measures as m
from penstock.state.arrangement import Arrangement
from penstock.state.batch import Batch, Layout, build, merge
from penstock.state.laws import ACCUMULATOR_SUM
from penstock.zset.types import SqlType
from penstock.zset.zset import ZSet

Counts = Sequence[np.ndarray]

FUNCTIONS: dict[str, Callable[[Counts], np.ndarray]] = {
    "distinct": lambda n: (n[0] > 0).astype(np.int64),
    "intersect all": lambda n: np.maximum(np.minimum(n[0], n[1]), 0),
    "except all": lambda n: np.maximum(n[0] - np.maximum(n[1], 0), 0),
    "intersect": lambda n: ((n[0] > 0) & (n[1] > 0)).astype(np.int64),
    "except": lambda n: ((n[0] > 0) & (n[1] <= 0)).astype(np.int64),
}


class Multiplicity(Recorded):
    """One of `FUNCTIONS` over the counts of each row.

    >>> from penstock.zset.column import from_pylist
    >>> from penstock.zset.types import BIGINT
    >>> distinct = Multiplicity("distinct", [BIGINT], inputs=1)
    >>> counts = Arrangement("counts", distinct.layouts[0])
    >>> out, appended = distinct.step([ZSet((from_pylist(BIGINT, [7, 7]),), np.array([1, 1]))], [counts])
    >>> counts.append(appended[0])
    >>> gone = ZSet((from_pylist(BIGINT, [7]),), np.array([-1]))
    >>> out, distinct.step([gone], [counts])[0]  # one of two is taken away: it is still there
    (ZSet([((7,), 1)]), ZSet([]))
    """

    def __init__(self, name: str, types: Sequence[SqlType], inputs: int) -> None:
        self.name = name
        self._weight = FUNCTIONS[name]
        self._inputs = inputs
        self.layouts = (Layout(tuple(types), tuple(range(len(types))), unique=True),)
        self.routes = (tuple(range(len(types))),) * inputs

    def step(self, deltas: Sequence[Delta], state: Sequence[Arrangement]) -> Result:
        change = self._counts(deltas)
        if not len(change):
            return None, (None,)
        old = state[0].lookup(change.hashes, change.columns, change.measures)
        new = [m.plus(a, b) for a, b in zip(old, change.measures, strict=True)]
        weights = self._weight(m.arrays(new)) - self._weight(m.arrays(old))
        changed = np.flatnonzero(weights)
        out = ZSet(change.columns, weights)
        return (out if len(changed) == len(out) else out.take(changed)), (change,)

    def _counts(self, deltas: Sequence[Delta]) -> Batch:
        batches = []
        for i, delta in enumerate(deltas):
            if delta is None:
                continue
            assert isinstance(delta, ZSet)
            none = np.zeros(len(delta), np.int64)
            counts = tuple([delta.weights if k == i else none for k in range(self._inputs)])
            batches.append(build(self.layouts[0], delta.columns, counts))
        return batches[0] if len(batches) == 1 else merge(self.layouts[0], batches)

    def seed(self) -> ZSet | None:
        return None

    def law(self) -> str:
        return f"{ACCUMULATOR_SUM.title}; clamp_not_a_law"
