"""Projections that only pick and reorder columns move up, so that what is below stands in table order.

The last pruning then makes the few that are needed, in one canonical order.
"""

from __future__ import annotations

from dataclasses import replace

from penstock.plan import tree
from penstock.plan.expr import Col, Expr
from penstock.plan.nodes import Aggregate, Filter, Join, Node, Project, TopK, identity


def lift_projects(root: Node) -> Node:
    """Projections of columns above joins, filters, aggregates and top-k instead of below them."""
    return tree.transform_up(root, _lift)


def _places(node: Node) -> tuple[Node, list[int]]:
    """The input below a projection of columns, and which of its columns that gives."""
    if isinstance(node, Project) and all(isinstance(e, Col) for e in node.exprs):
        return node.input, [e.index for e in node.exprs if isinstance(e, Col)]
    return node, list(range(tree.width(node)))


def _lift(node: Node) -> Node:
    if isinstance(node, Join):
        return _join(node)
    if isinstance(node, Aggregate):
        below, places = _places(node.input)
        columns = [tree.column(below, p) for p in places]
        aggs = tuple(
            replace(agg, arg=_substituted(agg.arg, columns), filter=_substituted(agg.filter, columns))
            for agg in node.aggs
        )
        return Aggregate(below, tuple(places[k] for k in node.keys), aggs, node.names)
    if isinstance(node, Filter):
        below, places = _places(node.input)
        predicate = tree.remap(node.predicate, dict(enumerate(places)))
        return tree.select(tree.filtered(below, [predicate]), places)
    if isinstance(node, TopK):
        below, places = _places(node.input)
        order = tuple(replace(key, column=places[key.column]) for key in node.order)
        return tree.select(TopK(below, order, node.limit, node.offset), places)
    return node


def _substituted(expr: Expr | None, columns: list[Col]) -> Expr | None:
    return None if expr is None else tree.substitute(expr, columns)


def _join(node: Join) -> Node:
    left, left_places = _places(node.left)
    right, right_places = _places(node.right)
    if left is node.left and right is node.right:
        return node
    count = tree.width(left)
    both = left_places + [count + p for p in right_places]
    places = dict(enumerate(both))
    keys = tuple(replace(k, left=left_places[k.left], right=right_places[k.right]) for k in node.keys)
    residual = None if node.residual is None else tree.remap(node.residual, places)
    marks = tuple(tree.remap(m, places) for m in node.marks)
    joined = Join(node.kind, left, right, keys, residual, marks)
    if node.kind in ("semi", "anti"):
        return tree.select(joined, left_places)
    if node.kind == "mark":
        return tree.project(joined, [*(identity(joined)[p] for p in left_places), tree.column(joined, count)])
    return tree.select(joined, both)
