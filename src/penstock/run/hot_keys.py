"""Hot keys: when many rows of a delta have one key, joining them is shared by all partitions.

What an aggregate or a DISTINCT is sent is combined by law before it leaves, so a hot key is one row from
each producer. A join has to make every row of its result. But state can be read anywhere, so the rows of a
hot key need not go to the partition that owns it: they are dealt out to all, and each task joins its share
with the state as it was before the epoch. What the epoch itself adds to that state lies with the owner, so the
rows go there as well, to meet that alone:

    rows x (old + pending)  =  (share of rows) x old, in each partition  +  rows x pending, at the owner

Which keys are hot, and which row goes where, depends on the rows and not on their order: a task that Spark runs
again may get them in another one, and must send the same rows to the same places.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

import numpy as np

from penstock.base.limits import HOT_KEY_ROWS_MIN
from penstock.circuit.operator import Delta, Operator
from penstock.circuit.operators.look_up import LookUp
from penstock.kernels.hashing import hash_columns
from penstock.run.program import Step
from penstock.run.ranges import Ranges
from penstock.state.arrangement import Arrangement
from penstock.state.batch import Batch
from penstock.zset.zset import ZSet, union

_SHARED, _AT_OWNER = 1 << 20, 1 << 21  # added to an edge's number


def edge_of(code: int) -> int:
    """The edge that a packet came over, whichever way it took."""
    return code & ~(_SHARED | _AT_OWNER)


def find(hashes: np.ndarray, partitions: int) -> np.ndarray | None:
    """True for the rows whose key so many have that one partition would have more than its share."""
    count = len(hashes)
    if count < HOT_KEY_ROWS_MIN:
        return None
    values, seen = np.unique(hashes, return_counts=True)
    hot = values[seen * 2 * partitions > count]
    if not len(hot):
        return None
    return np.isin(hashes, hot)


def routed(
    number: int, delta: ZSet, hashes: np.ndarray, spread: np.ndarray, ranges: Ranges
) -> Iterator[tuple[int, int, ZSet | Batch]]:
    """The rows of hot keys: a share to each partition, and all of them to their owners."""
    rows = np.flatnonzero(spread)
    count = len(ranges)
    dealt = hash_columns([c.take(rows) for c in delta.columns], len(rows)) % np.uint64(count)
    for p in range(count):
        share = rows[dealt == p]
        if len(share):
            yield number | _SHARED, p, delta.take(share)
    owners = ranges.owners(hashes[rows])
    for p in np.unique(owners).tolist():
        yield number | _AT_OWNER, p, delta.take(rows[owners == p])


def step(
    step: Step,
    operator: Operator,
    inputs: Sequence[Delta],
    arrived: Mapping[int, list[ZSet | Batch]],
    everywhere: Callable[[str], Arrangement],
) -> list[Delta]:
    """What a look-up makes of the rows of hot keys."""
    if not isinstance(operator, LookUp) or step.edges[0] is None:
        return []
    shared = _rows(arrived.get(step.edges[0] | _SHARED, ()))
    at_owner = _rows(arrived.get(step.edges[0] | _AT_OWNER, ()))
    made: list[Delta] = []
    state = step.state[0]
    if shared is not None and not step.first:
        made.append(operator.join(shared, everywhere(state), None))
    pending = inputs[1] if len(inputs) > 1 else None
    if at_owner is not None and pending is not None:
        assert isinstance(pending, Batch)
        layout = everywhere(state).layout
        made.append(operator.join(at_owner, Arrangement(state, layout), pending))
    return made


def _rows(parts: Sequence[ZSet | Batch]) -> ZSet | None:
    return union([p for p in parts if isinstance(p, ZSet)]) if parts else None
