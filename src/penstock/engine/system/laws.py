"""penstock.laws: the operators of every materialized view, with the law of each or its reason for having none."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from penstock.engine.system.relation import SystemRelation
from penstock.state.laws import REASONS

if TYPE_CHECKING:
    from penstock.engine.flow import Flow


def _rows(flow: Flow) -> Iterator[tuple[Any, ...]]:
    core = flow._core
    for view in core.catalog.materialized():
        for node in core.circuit.below([view.node]):
            if node.operator is None:
                continue
            law = node.operator.law()
            reason = next((r for r in REASONS if r in law), None)
            rows = sum(a.settled().rows() for a in node.owned)
            yield view.name, node.id, node.operator.name, node.label, law, reason, rows, list(node.inputs)


def _texts(flow: Flow) -> Iterator[tuple[Any, ...]]:
    for *row, inputs in _rows(flow):
        yield *row, [str(i) for i in inputs]


LAWS = SystemRelation(
    "laws",
    "the operators of every materialized view, each with its merge law or its reason for having none",
    (
        ("view", "VARCHAR"),
        ("node", "BIGINT"),
        ("operator", "VARCHAR"),
        ("label", "VARCHAR"),
        ("law", "VARCHAR"),
        ("reason", "VARCHAR"),
        ("state_rows", "BIGINT"),
        ("inputs", "VARCHAR[]"),
    ),
    _texts,
)
