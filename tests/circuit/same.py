"""Equality that sees everything: types of numbers, the sign of zero, positions in the text, sharing."""

from __future__ import annotations

import struct
from dataclasses import fields, is_dataclass
from typing import Any

from penstock.circuit.build import Registry
from penstock.circuit.circuit import Circuit


def same(a: Any, b: Any) -> bool:
    """Whether two values are the same down to the last bit.

    >>> same((1, 0.0), (1, 0.0)), same(1, True), same(0.0, -0.0), same(float("nan"), float("nan"))
    (True, False, False, True)
    """
    done: set[tuple[int, int]] = set()  # pairs that were compared: a plan is a DAG, not a tree

    def equal(a: Any, b: Any) -> bool:
        if type(a) is not type(b):
            return False
        if isinstance(a, float):
            return struct.pack(">d", a) == struct.pack(">d", b)
        if is_dataclass(a):
            if (id(a), id(b)) not in done:
                if not all(equal(getattr(a, f.name), getattr(b, f.name)) for f in fields(a) if f.init):
                    return False
                done.add((id(a), id(b)))
            return True
        if isinstance(a, (tuple, list)):
            return len(a) == len(b) and all(map(equal, a, b))
        if isinstance(a, dict):
            return len(a) == len(b) and all(map(equal, a.items(), b.items()))
        return bool(a == b)

    return equal(a, b)


def same_circuit(a: Circuit, b: Circuit) -> bool:
    """Node by node, in the same order, with what each operator was made of and what it owns."""
    return a.last == b.last and same(_described(a), _described(b))


def _described(circuit: Circuit) -> list[Any]:
    return [
        (
            id, node.id, node.operator and tuple(node.operator.recipe), node.operator and node.operator.name,
            node.operator and node.operator.routes, node.operator and node.operator.law(), node.inputs,
            node.reads, node.types, node.names, node.label, [(a.name, a.layout) for a in node.owned],
        )
        for id, node in circuit.nodes.items()
    ]  # fmt: skip


def same_registry(a: Registry, b: Registry) -> bool:
    return same((a.plans, a.arrangements, a.columns), (b.plans, b.arrangements, b.columns))
