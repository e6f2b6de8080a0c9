"""Aggregates of a serialised DuckDB plan."""

from __future__ import annotations

from penstock.base.errors import NotMaintainable
from penstock.plan import tree
from penstock.plan.expr import Call, Const, Expr
from penstock.plan.nodes import Agg, Aggregate, Node, identity
from penstock.sql.read_expr import position_of, read_expr
from penstock.sql.read_types import Json, read_type
from penstock.zset.types import BIGINT

_ALIASES = {
    "sum_no_overflow": "sum",
    "mean": "avg",
    "variance": "var_samp",
    "stddev": "stddev_samp",
    "arbitrary": "first",
}
_ACCEPTED = {
    "count_star", "count", "sum", "avg", "min", "max", "bool_and", "bool_or", "first", "any_value",
    "var_samp", "var_pop", "stddev_samp", "stddev_pop",
}  # fmt: skip
MAINTAINED = frozenset((*_ACCEPTED, *_ALIASES))  # the aggregates that a view can have, by all their names
_NUMERIC = ("sum", "avg", "var_samp", "var_pop", "stddev_samp", "stddev_pop")
_MOMENTS = ("var_samp", "var_pop", "stddev_samp", "stddev_pop")
_SAME_WHEN_DISTINCT = ("min", "max", "bool_and", "bool_or", "first", "any_value")


def read_aggregate(item: Json, node: Node) -> Node:
    """GROUP BY with one grouping set: keys, then aggregates, then a 0 for each GROUPING()."""
    groups = [read_expr(group, identity(node)) for group in item.get("groups") or []]
    sets = item.get("grouping_sets") or []
    if len(sets) > 1 or (sets and sorted(sets[0]) != list(range(len(groups)))):
        raise NotMaintainable("grouping sets (GROUPING SETS, ROLLUP, CUBE) cannot be maintained yet")
    node, keys = tree.with_columns(node, groups)
    aggs = tuple(_aggregate(e, node) for e in item.get("expressions") or [])
    result: Node = Aggregate(node, tuple(keys), aggs, tree.neutral_names(len(keys) + len(aggs)))
    zeros = [Const(BIGINT, 0)] * len(item.get("grouping_functions") or [])
    return tree.project(result, [*identity(result), *zeros])


def _aggregate(item: Json, node: Node) -> Agg:
    name = item["qname"]["path"][-1]
    name = _ALIASES.get(name, name)
    if name not in _ACCEPTED or item.get("state_export", "NONE") != "NONE":
        raise _refused(name, item)
    args = [read_expr(child, identity(node)) for child in item["children"]]
    if len(args) > 1:
        raise NotMaintainable(
            f"{name} with {len(args)} arguments cannot be maintained", position=position_of(item)
        )
    condition = read_expr(item["filter"], identity(node)) if item.get("filter") else None
    arg: Expr | None = args[0] if args else None
    distinct = item["aggregate_type"] == "DISTINCT" and name not in _SAME_WHEN_DISTINCT
    if name in _MOMENTS and arg is not None:
        if distinct:
            raise NotMaintainable(f"{name}(DISTINCT ...) cannot be maintained", position=position_of(item))
        arg = _exact(arg)
    if name in _NUMERIC and arg is not None and not (arg.type.is_numeric or arg.type.id == "BOOLEAN"):
        raise NotMaintainable(f"{name} of {arg.type} cannot be maintained", position=position_of(item))
    if name == "count" and isinstance(arg, Const) and arg.value is not None and not distinct:
        name, arg = "count_star", None
    return Agg(name, arg, read_type(item["return_type"]), distinct, condition)


def _exact(arg: Expr) -> Expr:
    """The integer or decimal that DuckDB made a DOUBLE of: on it the moments are exact."""
    if isinstance(arg, Call) and arg.name == "cast" and arg.type.id == "DOUBLE":
        inner = arg.args[0]
        if inner.type.is_integer or inner.type.id == "DECIMAL":
            return inner
    return arg


def _refused(name: str, item: Json) -> NotMaintainable:
    if name in ("arg_min_null", "arg_max_null"):
        name = "first/last with ORDER BY"
    return NotMaintainable(f"the aggregate {name} cannot be maintained yet", position=position_of(item))
