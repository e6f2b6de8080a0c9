"""Which columns are never NULL, as far as tables' constraints and filters say so."""

from __future__ import annotations

from collections.abc import Collection

from penstock.plan import tree
from penstock.plan.expr import Call, Col, Const, Expr, conjuncts
from penstock.plan.nodes import (
    Aggregate,
    Distinct,
    Filter,
    Join,
    MultiJoin,
    Node,
    Project,
    Scan,
    TopK,
    Union,
    Values,
)

NotNull = Collection[tuple[str, int]]  # a table's name and the position of a column that is NOT NULL

_REJECTING = ("=", "<>", "<", "<=", ">", ">=", "is_not_null")


def is_never_null(expr: Expr, node: Node, not_null: NotNull) -> bool:
    """True where the expression over the node's rows is known to be never NULL."""
    if isinstance(expr, Const):
        return expr.value is not None
    if isinstance(expr, Col):
        return _column(node, expr.index, not_null)
    assert isinstance(expr, Call)
    plain = expr.name == "cast" and expr.type.is_numeric and expr.args[0].type.is_numeric
    return plain and is_never_null(expr.args[0], node, not_null)


def _column(node: Node, index: int, not_null: NotNull) -> bool:
    if isinstance(node, Scan):
        return (node.table, node.columns[index]) in not_null
    if isinstance(node, Values):
        return all(row[index] is not None for row in node.rows)
    if isinstance(node, Project):
        return is_never_null(node.exprs[index], node.input, not_null)
    if isinstance(node, Filter):
        here = tree.column(node, index)
        tested = any(
            isinstance(term, Call) and term.name in _REJECTING and here in term.args
            for term in conjuncts(node.predicate)
        )
        return tested or _column(node.input, index, not_null)
    if isinstance(node, Distinct | TopK):
        return _column(node.input, index, not_null)
    if isinstance(node, Union):
        return all(_column(part, index, not_null) for part in node.parts)
    if isinstance(node, Aggregate):
        if index < len(node.keys):
            return _column(node.input, node.keys[index], not_null)
        return node.aggs[index - len(node.keys)].name in ("count", "count_star")
    if isinstance(node, MultiJoin):
        for part in node.parts:
            if index < tree.width(part):
                return _column(part, index, not_null)
            index -= tree.width(part)
    if isinstance(node, Join) and node.kind != "full":
        count = tree.width(node.left)
        if index < count:
            return _column(node.left, index, not_null)
        return node.kind == "inner" and _column(node.right, index - count, not_null)
    return False
