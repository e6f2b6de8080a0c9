"""EXPLAIN INCREMENTAL: the operators of a view, with the law of each, its key, and its state."""

from __future__ import annotations

from collections.abc import Callable

from penstock.base.quantities import length_of_time
from penstock.circuit.circuit import Circuit, CircuitNode
from penstock.circuit.operators.arrange import Arrange
from penstock.engine.catalog import MaterializedView, Table
from penstock.engine.core import Core
from penstock.state.laws import REASONS


def explain_in(core: Core, view: MaterializedView) -> str:
    """A view of a flow, with who else uses its operators."""
    uses = {v.name: {n.id for n in core.circuit.below([v.node])} for v in core.catalog.materialized()}
    tables = {t.node: t for t in core.catalog.tables()}
    return explain(core.circuit, view, lambda id: [n for n, ids in uses.items() if id in ids], tables)


def explain(
    circuit: Circuit, view: MaterializedView, users: Callable[[int], list[str]], tables: dict[int, Table]
) -> str:
    """The tree as text. A node that stands in several places is described once and then referred to.

    `users`: the views that use a node.
    """
    lines = [f"materialized view {view.name}: {', '.join(_columns(view))}"]
    seen: set[int] = set()
    reasons: set[str] = set()

    def visit(id: int, depth: int) -> None:
        node = circuit.nodes[id]
        pad = "  " * depth + "-> "
        if id in tables and node.operator is None:
            lines.append(f"{pad}table {tables[id].name}")
            return
        other = next((u for u in users(id) if u != view.name), None)
        if id in seen:
            lines.append(f"{pad}{_name(node)} (as above)")
            return
        seen.add(id)
        lines.append(pad + _describe(node, other))
        reasons.update(r for r in REASONS if node.operator is not None and r in node.operator.law())
        for below in dict.fromkeys((*node.inputs, *node.reads)):
            visit(below, depth + 1)

    visit(view.node, 1)
    if view.retain_s is not None:
        lines.append(f"  history: retained for {length_of_time(view.retain_s)}")
    if view.freshness_s is not None:
        lines.append(f"  freshness: {length_of_time(view.freshness_s)}")
    state = view.contents
    lines.append(f"  contents: {state.row_count()} rows, {size(state.nbytes())}, law weight_sum v1")
    lines += [f"  {reason}: {REASONS[reason]}" for reason in REASONS if reason in reasons]
    return "\n".join(lines)


def _name(node: CircuitNode) -> str:
    return f"{node.operator.name} #{node.id}" if node.operator is not None else node.label


def _columns(view: MaterializedView) -> list[str]:
    return [f"{n} {t}" for n, t in zip(view.schema.names, view.schema.types, strict=True)]


def _describe(node: CircuitNode, other: str | None) -> str:
    operator = node.operator
    assert operator is not None
    text = f"{_name(node)} [{operator.law()}]"
    if node.label:
        text += f" {node.label}"
    if node.owned:
        owned = [a.settled() for a in node.owned]
        rows, bytes = sum(a.rows() for a in owned), sum(a.nbytes() for a in owned)
        kind = "arrangement" if isinstance(operator, Arrange) else "state"
        text += f" | {kind} {node.owned[0].name}: {_key(node)}{rows} rows, {size(bytes)}"
    if other is not None:
        text += f", shared with {other}"
    return text


def _key(node: CircuitNode) -> str:
    layout = node.owned[0].layout
    if isinstance(node.operator, Arrange):
        names = [node.names[k] for k in layout.key]
    else:
        names = [node.names[k] if k < len(node.names) else f"#{k}" for k in layout.key]
    return f"key ({', '.join(names)}), "


def size(bytes: int) -> str:
    """Bytes for people.

    >>> size(0), size(2048), size(5_300_000)
    ('0 B', '2.0 KiB', '5.1 MiB')
    """
    value = float(bytes)
    for unit in ("B", "KiB", "MiB", "GiB"):
        if value < 1024 or unit == "GiB":
            return f"{value:.0f} {unit}" if unit == "B" else f"{value:.1f} {unit}"
        value /= 1024
    return f"{bytes} B"
