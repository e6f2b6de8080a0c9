"""Fragments: the circuit cut at its exchanges, for engines that run it in several places.

An exchange stands where an operator wants its input by the hash of a key. What lies between two
exchanges is a fragment: it runs on one partition without talking to another. A fragment's wave is
the number of exchanges before it, so fragments of one wave can run at the same time.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from penstock.circuit.circuit import CircuitNode
from penstock.circuit.operator import Route

HASHES = 1 << 64


@dataclass(frozen=True)
class Exchange:
    """Rows of one node on their way to another, by the hash of these columns."""

    producer: int
    consumer: int
    input: int
    columns: tuple[int, ...]


@dataclass(frozen=True)
class Fragment:
    """Nodes that run together, in topological order."""

    wave: int
    nodes: tuple[int, ...]


def partition_range(partition: int, partitions: int) -> tuple[int, int]:
    """The hashes that a partition owns: from the first up to, not including, the last.

    >>> partition_range(0, 2) == (0, 2**63), partition_range(1, 2) == (2**63, 2**64)
    (True, True)
    """
    return partition * HASHES // partitions, (partition + 1) * HASHES // partitions


def route(node: CircuitNode, input: int) -> Route:
    """The columns by which an input must be exchanged; None if its rows may stay where they are."""
    routes = node.operator.routes if node.operator is not None else ()
    return routes[input] if input < len(routes) else None


def exchanges(nodes: Iterable[CircuitNode]) -> list[Exchange]:
    """Every exchange of the circuit."""
    found = []
    for node in nodes:
        for i, producer in enumerate(node.inputs):
            columns = route(node, i)
            if columns is not None:
                found.append(Exchange(producer, node.id, i, columns))
    return found


def fragments(nodes: Iterable[CircuitNode]) -> list[Fragment]:
    """The circuit cut at its exchanges: the nodes of each wave that hang together."""
    ordered = sorted(nodes, key=lambda n: n.id)
    cut = {(e.producer, e.consumer, e.input) for e in exchanges(ordered)}
    wave: dict[int, int] = {}
    group: dict[int, int] = {}  # the least node of a fragment names it
    for node in ordered:
        before = [wave[p] + ((p, node.id, i) in cut) for i, p in enumerate(node.inputs)]
        wave[node.id] = max([0, *before, *(wave[r] for r in node.reads)])
        group[node.id] = node.id
        for i, producer in enumerate(node.inputs):
            if (producer, node.id, i) not in cut and wave[producer] == wave[node.id]:
                _join(group, producer, node.id)
    found: dict[int, list[int]] = {}
    for id in group:
        found.setdefault(_root(group, id), []).append(id)
    return [Fragment(wave[ids[0]], tuple(ids)) for ids in found.values()]


def _root(group: dict[int, int], id: int) -> int:
    while group[id] != id:
        id = group[id]
    return id


def _join(group: dict[int, int], a: int, b: int) -> None:
    first, second = sorted((_root(group, a), _root(group, b)))
    group[second] = first
