"""Nodes that constants or emptiness make superfluous go away."""

from __future__ import annotations

from penstock.plan import tree
from penstock.plan.expr import Const, Expr
from penstock.plan.nodes import (
    Agg,
    Aggregate,
    Distinct,
    Filter,
    Join,
    Node,
    Project,
    SetOp,
    TopK,
    Union,
    Values,
    identity,
)
from penstock.zset.types import BOOLEAN, SqlType


def simplify(root: Node) -> Node:
    """Filters that are constant, inputs without rows, joins with one constant row, doubled DISTINCTs."""
    return tree.transform_up(root, _simplify)


def _simplify(node: Node) -> Node:
    if isinstance(node, Filter):
        return _filter(node)
    if isinstance(node, Join):
        return _join(node)
    if isinstance(node, Aggregate):
        return _aggregate(node)
    if isinstance(node, Union):
        return _union(node)
    if isinstance(node, SetOp):
        return _set_operation(node)
    if isinstance(node, Distinct) and tree.keeps_rows_distinct(node.input):
        return node.input
    if isinstance(node, TopK):
        if node.limit == 0:
            return tree.empty(node.schema.types)
        if node.limit is None and node.offset == 0:
            return node.input
    if isinstance(node, Distinct | TopK | Project) and tree.is_empty(node.input):
        return tree.empty(node.schema.types)
    return node


def _filter(node: Filter) -> Node:
    if isinstance(node.predicate, Const):
        return node.input if node.predicate.value else tree.empty(node.schema.types)
    return tree.empty(node.schema.types) if tree.is_empty(node.input) else node


def _nulls(types: tuple[SqlType, ...]) -> list[Expr]:
    return [Const(t, None) for t in types]


def _join(node: Join) -> Node:
    left, right, kind = node.left, node.right, node.kind
    if tree.is_empty(left):
        if kind != "full":
            return tree.empty(node.schema.types)
        return tree.project(right, [*_nulls(left.schema.types), *identity(right)])
    if tree.is_empty(right):
        if kind in ("inner", "semi"):
            return tree.empty(node.schema.types)
        added = [] if kind == "anti" else _nulls(right.schema.types)
        added = [Const(BOOLEAN, False)] if kind == "mark" else added
        return tree.project(left, [*identity(left), *added])
    if node.keys or node.marks or kind not in ("inner", "left", "single"):
        return node
    if (row := _one_row(right)) is not None and (kind == "inner" or node.residual is None):
        return _attached(node, [*identity(left), *row], left)
    if (row := _one_row(left)) is not None and kind == "inner":
        return _attached(node, [*row, *identity(right)], right)
    return node


def _one_row(node: Node) -> list[Expr] | None:
    """The constants of an input that always has one row."""
    if isinstance(node, Values) and len(node.rows) == 1:
        return [Const(t, v) for t, v in zip(node.types, node.rows[0], strict=True)]
    return None


def _attached(node: Join, columns: list[Expr], other: Node) -> Node:
    terms = [] if node.residual is None else [tree.substitute(node.residual, columns)]
    return tree.project(tree.filtered(other, terms), columns)


def _aggregate(node: Aggregate) -> Node:
    if node.keys and tree.is_empty(node.input):
        return tree.empty(node.schema.types)
    if node.keys and not node.aggs:
        return Distinct(tree.select(node.input, node.keys))
    if not node.keys and (tree.is_empty(node.input) or not node.aggs):
        return Values(node.names, node.schema.types, (tuple(map(_of_nothing, node.aggs)),))
    aggs = list(dict.fromkeys(node.aggs))
    if len(aggs) == len(node.aggs):
        return node
    count = len(node.keys)
    once = Aggregate(node.input, node.keys, tuple(aggs), tree.neutral_names(count + len(aggs)))
    return tree.select(once, [*range(count), *(count + aggs.index(agg) for agg in node.aggs)])


def _of_nothing(agg: Agg) -> int | None:
    return 0 if agg.name in ("count", "count_star") else None


def _union(node: Union) -> Node:
    parts = [p for part in node.parts for p in (part.parts if isinstance(part, Union) else (part,))]
    parts = [p for p in parts if not tree.is_empty(p)]
    if not parts:
        return tree.empty(node.schema.types)
    return parts[0] if len(parts) == 1 else Union(tuple(parts))


def _set_operation(node: SetOp) -> Node:
    if tree.is_empty(node.left) or (node.kind == "intersect" and tree.is_empty(node.right)):
        return tree.empty(node.schema.types)
    if tree.is_empty(node.right):
        return node.left if node.all else Distinct(node.left)
    return node
