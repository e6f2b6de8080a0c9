"""A single join whose right side has one row for a key at most is a left join."""

from __future__ import annotations

from penstock.plan import tree
from penstock.plan.domains import is_unique_on
from penstock.plan.nodes import Join, Node


def single_to_left(root: Node) -> Node:
    """A single join that can find one row only is a left join."""

    def change(node: Node) -> Node:
        if not isinstance(node, Join) or node.kind != "single":
            return node
        if not is_unique_on(node.right, {k.right for k in node.keys}):
            return node
        return Join("left", node.left, node.right, node.keys, node.residual)

    return tree.transform_up(root, change)
