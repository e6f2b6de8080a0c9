"""A join with one row that is only compared with is a semi join.

`x > (SELECT avg(x) ...)` comes as an inner join with the one row of the average. When the average
changes, so does every joined row; but nobody looks at the average itself, and as a semi join only
the rows between the old and the new average change.
"""

from __future__ import annotations

from penstock.plan import tree
from penstock.plan.expr import columns_of
from penstock.plan.nodes import Join, MultiJoin, Node, Project
from penstock.plan.thresholds import threshold


def threshold_to_semi(root: Node) -> Node:
    """Projections of a threshold's other side, over a semi join."""
    return tree.transform_up(root, _change)


def _change(node: Node) -> Node:
    if not isinstance(node, Project) or not isinstance(node.input, MultiJoin):
        return node
    join = node.input
    if len(join.parts) != 2 or join.equalities or len(join.filters) != 1:
        return node
    first, second = (tree.width(part) for part in join.parts)
    used = {c for expr in node.exprs for c in columns_of(expr)}
    for left, right, places in (
        (0, 1, {c: c for c in range(first + second)}),
        (1, 0, {c: c + second if c < first else c - first for c in range(first + second)}),
    ):
        if any(places[c] >= tree.width(join.parts[left]) for c in used):
            continue
        semi = Join("semi", join.parts[left], join.parts[right], (), tree.remap(join.filters[0], places))
        if threshold(semi) is not None:
            return tree.project(semi, [tree.remap(e, places) for e in node.exprs])
    return node
