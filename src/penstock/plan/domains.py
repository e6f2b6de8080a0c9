"""Domains: the distinct values that a correlated subquery is asked for.

DuckDB flattens a correlated subquery by joining it with the distinct values of the outer query's
columns and joining the result back on these. What is here says when such a set of values is one.
"""

from __future__ import annotations

from collections.abc import Sequence

from penstock.plan import tree
from penstock.plan.expr import Col
from penstock.plan.nodes import Aggregate, Distinct, Filter, Join, Node, Project


def domain(node: Node) -> tuple[Node, list[int]] | None:
    """The source and its columns whose distinct values the node gives, if that is what it is."""
    if isinstance(node, Project):
        inner = domain(node.input)
        places = _places(node)
        if inner is None or places is None or set(places) != set(range(tree.width(node.input))):
            return None
        return inner[0], [inner[1][p] for p in places]
    if not isinstance(node, Distinct):
        return None
    below = node.input
    if isinstance(below, Project):
        places = _places(below)
        return None if places is None else (below.input, places)
    return below, list(range(tree.width(below)))


def _places(node: Project) -> list[int] | None:
    """The input's columns that a projection of nothing but columns gives."""
    places = [e.index for e in node.exprs if isinstance(e, Col)]
    return places if len(places) == len(node.exprs) else None


def comes_from(node: Node, columns: Sequence[int], source: Node, wanted: Sequence[int]) -> bool:
    """True where these columns of each row stand together in a row of the source, as those wanted."""
    if node is source:
        return list(columns) == list(wanted)
    if isinstance(node, Project):
        exprs = [node.exprs[c] for c in columns]
        places = [e.index for e in exprs if isinstance(e, Col)]
        return len(places) == len(exprs) and comes_from(node.input, places, source, wanted)
    if isinstance(node, Filter | Distinct):
        return comes_from(node.input, columns, source, wanted)
    if isinstance(node, Aggregate):
        keys = [node.keys[c] for c in columns if c < len(node.keys)]
        return len(keys) == len(columns) and comes_from(node.input, keys, source, wanted)
    if isinstance(node, Join) and node.kind != "full":
        count = tree.width(node.left)
        if max(columns, default=0) < count:
            return comes_from(node.left, columns, source, wanted)
        if node.kind == "inner" and min(columns) >= count:
            return comes_from(node.right, [c - count for c in columns], source, wanted)
    return False


def is_unique_on(node: Node, columns: set[int]) -> bool:
    """True where no two rows of the node have the same values in these columns."""
    if isinstance(node, Project):
        return is_unique_on(node.input, {e.index for c in columns if isinstance(e := node.exprs[c], Col)})
    if isinstance(node, Filter):
        return is_unique_on(node.input, columns)
    if isinstance(node, Aggregate):
        return columns >= set(range(len(node.keys)))
    if isinstance(node, Distinct):
        return columns >= set(range(tree.width(node)))
    return False
