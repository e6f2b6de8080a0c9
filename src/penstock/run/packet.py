"""Packets: what crosses an exchange, one schema for every edge.

A packet is for one partition in one wave; its payload is a delta as `state.packing` packs it, or a
receipt. Rows and batches share it: a batch has its hashes.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from penstock.base.limits import PACKET_BYTES_MAX
from penstock.circuit.operator import Delta
from penstock.state.batch import Batch, Layout, merge
from penstock.state.packing import pack, unpack
from penstock.zset.types import SqlType
from penstock.zset.zset import ZSet, union

RECEIPT = -1  # the edge of a receipt, which every wave hands on


class Packet(NamedTuple):
    partition: int
    wave: int  # in which it is opened
    edge: int
    payload: bytes


def pack_delta(delta: ZSet | Batch) -> bytes:
    """
    >>> import numpy as np
    >>> unpack_delta(pack_delta(ZSet((), np.array([2, -1]))), ())
    ZSet([((), 2), ((), -1)])
    """
    if isinstance(delta, Batch):
        return pack(delta.hashes, delta.columns, delta.measures)
    return pack(None, delta.columns, (delta.weights,))


def unpack_delta(payload: bytes, types: Sequence[SqlType]) -> ZSet | Batch:
    hashes, columns, measures = unpack(payload, types)
    if hashes is None:
        return ZSet(columns, measures[0])  # type: ignore[arg-type]
    return Batch(hashes, columns, measures)


def pieces(delta: ZSet | Batch) -> Iterator[ZSet | Batch]:
    """A delta in pieces of which each fits into a packet."""
    count = len(delta)
    pieces = min(count, delta.nbytes() // PACKET_BYTES_MAX + 1)
    if pieces <= 1:
        yield delta
        return
    if isinstance(delta, ZSet):
        whole = Batch(np.zeros(0, np.uint64), delta.columns, (delta.weights,))
        cuts = [i * count // pieces for i in range(pieces + 1)]
        yield from [whole.slice(a, b).zset() for a, b in itertools.pairwise(cuts)]
        return
    # The rows of one hash stay together: packets may arrive in another order, and theirs counts.
    first = delta.hashes[[i * count // pieces for i in range(1, pieces)]]
    cuts = [0, *np.unique(delta.hashes.searchsorted(first)).tolist(), count]
    yield from [delta.slice(a, b) for a, b in itertools.pairwise(cuts) if a < b]


def together(deltas: Sequence[ZSet | Batch], layout: Layout | None) -> Delta:
    """What several producers sent over one edge; batches are put together by the law of their layout."""
    present = [d for d in deltas if len(d)]
    if not present:
        return None
    batches = [d for d in present if isinstance(d, Batch)]
    if batches:
        assert layout is not None
        assert len(batches) == len(present)
        return batches[0] if len(batches) == 1 else merge(layout, batches)
    return union([d for d in present if isinstance(d, ZSet)])
