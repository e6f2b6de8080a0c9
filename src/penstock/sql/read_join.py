"""Joins of a serialised DuckDB plan: conditions become keys, marks and a residual."""

from __future__ import annotations

from collections.abc import Sequence

from penstock.base.errors import NotMaintainable
from penstock.plan import tree
from penstock.plan.expr import Call, Col, Expr
from penstock.plan.joins import join
from penstock.plan.nodes import Node, identity
from penstock.sql.read_expr import COMPARISONS, read_expr
from penstock.sql.read_types import Json, Unreadable
from penstock.zset.types import BOOLEAN

_KINDS = {
    "INNER": "inner", "LEFT": "left", "RIGHT": "right", "FULL": "full", "OUTER": "full", "SEMI": "semi",
    "ANTI": "anti", "MARK": "mark", "SINGLE": "single", "RIGHT_SEMI": "right semi", "RIGHT_ANTI": "right anti",
}  # fmt: skip


def read_comparison_join(item: Json, left: Node, right: Node) -> Node:
    """A join with a list of conditions, each between the left and the right or over both."""
    both = _both(left, right)
    terms: list[Expr] = []
    for condition in item["conditions"]:
        if condition["comparison"] == "INVALID":
            terms.append(read_expr(condition["left"], both))
        else:
            a = read_expr(condition["left"], identity(left))
            b = tree.shift(read_expr(condition["right"], identity(right)), tree.width(left))
            terms.append(Call(BOOLEAN, COMPARISONS[condition["comparison"]], (a, b)))
    if item.get("predicate"):
        terms.append(read_expr(item["predicate"], both))
    return _mapped(item, _kind(item), left, right, terms)


def read_any_join(item: Json, left: Node, right: Node) -> Node:
    """A join on any condition."""
    return _mapped(item, _kind(item), left, right, [read_expr(item["condition"], _both(left, right))])


def _both(left: Node, right: Node) -> tuple[Expr, ...]:
    moved = tuple(Col(c.type, c.index + tree.width(left)) for c in identity(right) if isinstance(c, Col))
    return identity(left) + moved


def _kind(item: Json) -> str:
    kind = _KINDS.get(item["join_type"])
    if kind is None:
        raise NotMaintainable(f"{item['join_type']} joins cannot be maintained")
    return kind


def _mapped(item: Json, kind: str, left: Node, right: Node, terms: Sequence[Expr]) -> Node:
    """The join with the columns that DuckDB keeps of either side."""
    node = join(kind, left, right, terms)
    left_map, right_map = item.get("left_projection_map") or [], item.get("right_projection_map") or []
    if not left_map and not right_map:
        return node
    count = tree.width(left)
    keep = list(left_map) or list(range(count))
    if kind in ("semi", "anti", "mark"):
        keep += range(count, tree.width(node))
    elif kind in ("right semi", "right anti"):
        raise Unreadable(f"projection maps of a {kind} join")
    else:
        keep += [count + c for c in right_map] or range(count, tree.width(node))
    return tree.select(node, keep)
