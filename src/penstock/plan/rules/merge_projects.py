"""A projection of a projection is one, unless that would compute something twice."""

from __future__ import annotations

from collections import Counter

from penstock.plan import tree
from penstock.plan.expr import Call, Col, walk
from penstock.plan.nodes import Node, Project, Values


def merge_projects(root: Node) -> Node:
    """Adjacent projections merged, those that change nothing dropped."""
    return tree.transform_up(root, _merge)


def _merge(node: Node) -> Node:
    while isinstance(node, Project) and isinstance(node.input, Project) and _is_cheap(node, node.input):
        inner = node.input
        exprs = tuple(tree.substitute(e, inner.exprs) for e in node.exprs)
        node = Project(inner.input, exprs, node.names)
    if isinstance(node, Project):
        return _of_values(node) or tree.project(node.input, node.exprs)
    return node


def _is_cheap(outer: Project, inner: Project) -> bool:
    """True where everything that the inner one computes is used once at most."""
    uses = Counter(e.index for expr in outer.exprs for e in walk(expr) if isinstance(e, Col))
    return all(uses[i] <= 1 for i, expr in enumerate(inner.exprs) if isinstance(expr, Call))


def _of_values(node: Project) -> Values | None:
    """Constant rows, if that is all the projection gives."""
    below = node.input
    if not isinstance(below, Values) or any(isinstance(e, Call) for e in node.exprs):
        return None
    rows = tuple(
        tuple(row[e.index] if isinstance(e, Col) else e.value for e in node.exprs)  # type: ignore[attr-defined]
        for row in below.rows
    )
    return Values(tree.neutral_names(len(node.exprs)), tuple(e.type for e in node.exprs), rows)
