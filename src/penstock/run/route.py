"""Where the rows of a delta go: producer-side combining by law, then the partition of each row's hash."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np

from penstock.base.errors import PenstockError
from penstock.circuit.operator import Delta, Operator
from penstock.circuit.operators.aggregate import Aggregate
from penstock.kernels.hashing import hash_columns
from penstock.run import hot_keys
from penstock.run.program import Edge
from penstock.run.ranges import Ranges
from penstock.state.batch import Batch, Layout, build
from penstock.zset.zset import ZSet


def combined(edge: Edge, delta: ZSet | Batch, operators: Mapping[int, Operator]) -> Delta:
    """What crosses the edge in the place of a delta: measures, or rows without repetitions."""
    if isinstance(delta, Batch):
        return delta
    if edge.combine is not None:
        aggregate = operators[edge.combine]
        assert isinstance(aggregate, Aggregate)
        try:
            return aggregate.partial(delta)
        except PenstockError as error:
            error.node = edge.combine
            raise
    if edge.consolidate and len(delta) > 1:
        layout = Layout(edge.types, tuple(range(len(edge.types))), unique=True)
        return build(layout, delta.columns, (delta.weights,)).zset()
    return delta


def routed(
    edge: Edge, number: int, delta: ZSet | Batch, ranges: Ranges, here: int | None
) -> Iterator[tuple[int, int, ZSet | Batch]]:
    """The delta in parts: the code of its edge, the partition that it is for, and the rows.

    `here` is the partition that the delta is in; None: in none of them, so that rows that need not move may go
    to any."""
    count = len(ranges)
    if count == 1:
        yield number, 0, delta
    elif isinstance(delta, Batch):
        yield from _by_hash(number, delta, ranges, here if edge.columns is None else None)
    elif edge.columns is None:
        if here is not None:
            yield number, here, delta
        else:
            # By the rows themselves: whoever runs this again may have them in another order.
            dealt = (hash_columns(delta.columns, len(delta)) % np.uint64(count)).astype(np.int64)
            yield from by_owner(number, delta, dealt, count)
    else:
        hashes = hash_columns([delta.columns[c] for c in edge.columns], len(delta))
        spread = hot_keys.find(hashes, count) if edge.spread else None
        if spread is not None:
            yield from hot_keys.routed(number, delta, hashes, spread, ranges)
            rest = np.flatnonzero(~spread)
            delta, hashes = delta.take(rest), hashes[rest]
        yield from by_owner(number, delta, ranges.owners(hashes), count)


def _by_hash(
    number: int, batch: Batch, ranges: Ranges, here: int | None
) -> Iterator[tuple[int, int, ZSet | Batch]]:
    """A batch is in the order of its hashes, so each partition's part is a slice."""
    if here is not None:  # where it was made: nothing of it belongs elsewhere
        yield number, here, batch
        return
    for p in range(len(ranges)):
        part = batch.range(*ranges.of(p))
        if len(part):
            yield number, p, part


def by_owner(
    number: int, delta: ZSet, owners: np.ndarray, count: int
) -> Iterator[tuple[int, int, ZSet | Batch]]:
    order = np.argsort(owners, kind="stable")
    stops = np.searchsorted(owners[order], np.arange(count + 1))
    for p in range(count):
        if stops[p] < stops[p + 1]:
            yield number, p, delta.take(order[stops[p] : stops[p + 1]])
