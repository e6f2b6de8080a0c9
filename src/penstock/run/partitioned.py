"""An epoch in N partitions, in this process: what a cluster does, without the cluster.

Each partition sees the state's range of hashes and the rows that exchanges send to it. The outcome
is the same for every N: the Spark engine will run the same steps in its tasks, and tests run this
one to show that nothing depends on N.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from penstock.circuit.circuit import Circuit, CircuitNode
from penstock.circuit.fragment import partition_range, route
from penstock.circuit.operator import Delta
from penstock.kernels.hashing import hash_columns
from penstock.run.inline import Epoch
from penstock.state.arrangement import Arrangement
from penstock.state.batch import Batch, concat_batches
from penstock.zset.zset import ZSet, union

Parts = list[Delta]  # one for each partition


def run_partitioned(circuit: Circuit, changes: dict[int, Delta], partitions: int) -> Epoch:
    """`inline.run`, in partitions."""
    deltas: dict[int, Parts] = {id: _scatter(delta, partitions) for id, delta in changes.items()}
    appends: list[tuple[Arrangement, Batch]] = []
    for node in circuit.schedule(frozenset(changes)):
        inputs = [_exchanged(node, i, deltas.get(p), partitions) for i, p in enumerate(node.inputs)]
        outputs: Parts = [None] * partitions
        owned: list[list[Batch]] = [[] for _ in node.owned]
        for partition in range(partitions):
            mine = [parts[partition] for parts in inputs]
            if not any(d is not None and len(d) for d in mine):
                continue
            state = _state(circuit, node, partition, partitions)
            assert node.operator is not None
            out, batches = node.operator.step([d if d is None or len(d) else None for d in mine], state)
            outputs[partition] = out
            for collected, batch in zip(owned, batches, strict=True):
                if batch is not None and len(batch):
                    collected.append(batch)
        if any(out is not None and len(out) for out in outputs):
            deltas[node.id] = outputs
        for arrangement, collected in zip(node.owned, owned, strict=True):
            if collected:  # ranges ascend, so batches below each other are sorted
                appends.append((arrangement, concat_batches(collected)))
    return Epoch({id: _gather(parts) for id, parts in deltas.items()}, appends)


def _scatter(delta: Delta, partitions: int) -> Parts:
    """A source's delta: batches by range, rows anywhere."""
    if isinstance(delta, Batch):
        return [delta.range(*partition_range(p, partitions)) for p in range(partitions)]
    if delta is None:
        return [None] * partitions
    return [delta.take(np.arange(p, len(delta), partitions)) for p in range(partitions)]


def _exchanged(node: CircuitNode, input: int, parts: Parts | None, partitions: int) -> Parts:
    if parts is None:
        return [None] * partitions
    columns = route(node, input)
    if columns is None:
        return parts
    rows = _gather(parts)
    if rows is None:
        return [None] * partitions
    assert isinstance(rows, ZSet)
    owner = partition_of(hash_columns([rows.columns[c] for c in columns], len(rows)), partitions)
    return [rows.take(np.flatnonzero(owner == p)) for p in range(partitions)]


def partition_of(hashes: np.ndarray, partitions: int) -> np.ndarray:
    """The partition that owns each hash."""
    bounds = np.array([partition_range(p, partitions)[0] for p in range(partitions)], np.uint64)
    return np.searchsorted(bounds, hashes, "right") - 1


def _gather(parts: Sequence[Delta]) -> Delta:
    present = [p for p in parts if p is not None and len(p)]
    if not present:
        return None
    if isinstance(present[0], Batch):
        return concat_batches([p for p in present if isinstance(p, Batch)])
    return union([p for p in present if isinstance(p, ZSet)])


def _state(circuit: Circuit, node: CircuitNode, partition: int, partitions: int) -> list[Arrangement]:
    """The state that a partition's step sees. A node that wants all rows in one place sees all state."""
    whole = circuit.state_of(node)
    routes = [route(node, i) for i in range(len(node.inputs))]
    if routes and all(r == () for r in routes):
        return list(whole)
    return [a.partition(*partition_range(partition, partitions)) for a in whole]
