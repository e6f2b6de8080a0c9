"""Thresholds: comparisons of each row with the one row of a global aggregate, as in x > (SELECT avg(x) ...)."""

from __future__ import annotations

from dataclasses import dataclass

from penstock.plan import tree
from penstock.plan.expr import Call, Expr, columns_of
from penstock.plan.failing import can_fail
from penstock.plan.nodes import Aggregate, Filter, Join, Node, Project

FLIPPED = {"<": ">", "<=": ">=", ">": "<", ">=": "<="}


@dataclass(frozen=True)
class Threshold:
    """`value` (over the left's columns) compared with `bound` (over the right's), which has one row at most."""

    value: Expr
    comparison: str  # <, <=, >, >=
    bound: Expr


def threshold(join: Join) -> Threshold | None:
    """What the join compares, where it is a semi join and a comparison with one row is all of its condition."""
    if join.kind != "semi" or join.keys or join.residual is None or not at_most_one_row(join.right):
        return None
    found = _sides(join.residual, tree.width(join.left))
    # Where the right may have no row, the value is not asked for: so it must not fail.
    if found is None or (can_fail(found.value) and not _always_one_row(join.right)):
        return None
    type = found.value.type
    is_ordered = type.kind != "arrow" or type.is_text or type.id == "BLOB"
    return found if is_ordered and type == found.bound.type else None


def _sides(condition: Expr, width: int) -> Threshold | None:
    if not isinstance(condition, Call) or condition.name not in FLIPPED:
        return None
    a, b = condition.args
    name = condition.name
    if min(columns_of(a), default=0) >= width:
        a, b, name = b, a, FLIPPED[name]
    left, right = columns_of(a), columns_of(b)
    if not left or not right or max(left) >= width or min(right) < width:
        return None
    return Threshold(a, name, tree.shift(b, -width))


def at_most_one_row(node: Node) -> bool:
    """True where the plan cannot have two rows."""
    if isinstance(node, Project | Filter):
        return at_most_one_row(node.input)
    return isinstance(node, Aggregate) and not node.keys


def _always_one_row(node: Node) -> bool:
    while isinstance(node, Project):
        node = node.input
    return isinstance(node, Aggregate) and not node.keys
