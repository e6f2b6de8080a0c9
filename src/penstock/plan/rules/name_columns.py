"""Inner columns get neutral names and equal nodes become one: equal subplans then are equal."""

from __future__ import annotations

from dataclasses import replace

from penstock.plan import tree
from penstock.plan.nodes import Aggregate, Node, Project, Values


def name_columns(root: Node) -> Node:
    """The plan without the names that a query gave, except those of tables' columns."""

    def change(node: Node) -> Node:
        if isinstance(node, Project | Aggregate | Values):
            return replace(node, names=tree.neutral_names(tree.width(node)))
        return node

    return tree.intern(tree.transform_up(root, change))
