"""A single join whose right side has one row for a key at most is a left join."""

from __future__ import annotations

from penstock.plan import tree
from penstock.plan.domains import is_unique_on
from penstock.plan.nodes import Join, Node


def single_to_left(root: Node) -> Node:
    """A single join that can find one row only is a left join."""

    def change(node: Node) -> Node:
        if isinstance(node, Join) and node.kind == "single":
            if is_unique_on(node.right, {k.right for k in node.keys}):
                return Join("left", node.left, node.right, node.keys, node.residual)
        return node

    return tree.transform_up(root, change)
