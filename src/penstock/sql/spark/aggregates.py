"""Spark's aggregate and window functions, with the types that Spark gives their results."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from penstock.sql.spark.arithmetic import divide
from penstock.sql.spark.cast import cast, coerced
from penstock.sql.spark.dialect import Tree, refuse
from penstock.sql.spark.functions_numbers import alike, truth
from penstock.sql.spark.typed import Typed, integer_of, raw_cast
from penstock.sql.spark.types import bounded, is_decimal
from penstock.zset import types as t
from penstock.zset.types import SqlType

Around = Callable[[str], str]  # puts FILTER and OVER behind an aggregate


def _count(args: Sequence[Typed], distinct: bool, around: Around) -> Typed:
    if len(args) == 1 and not distinct:
        return Typed(around(f"count({args[0].sql})"), t.BIGINT)
    if len(args) == 1:
        return Typed(around(f"count(DISTINCT {args[0].sql})"), t.BIGINT)
    there = " AND ".join(f"{arg.sql} IS NOT NULL" for arg in args)
    what = f"ROW({', '.join(arg.sql for arg in args)})" if distinct else "1"
    word = "DISTINCT " if distinct else ""
    return Typed(around(f"count({word}CASE WHEN {there} THEN {what} END)"), t.BIGINT)


def _number(x: Typed) -> Typed:
    if x.type.id in ("VARCHAR", "NULL"):
        return cast(x, t.DOUBLE)
    if not x.type.is_numeric:
        raise refuse(f"a number is wanted here, and this is {x.type.duck}", x.tree)
    return coerced(x, t.DOUBLE) if x.type.id == "FLOAT" else x


def _sum(args: Sequence[Typed], distinct: bool, around: Around) -> Typed:
    x = _number(args[0])
    inner = around(f"sum({'DISTINCT ' if distinct else ''}{x.sql})")
    if x.type.is_float:
        return Typed(inner, t.DOUBLE)
    type = bounded(x.type.width + 10, x.type.scale) if is_decimal(x.type) else t.BIGINT
    return Typed(f"CAST({inner} AS {type.duck})", type)


def _average(args: Sequence[Typed], distinct: bool, around: Around) -> Typed:
    x = _number(args[0])
    if not is_decimal(x.type):
        return Typed(around(f"avg({'DISTINCT ' if distinct else ''}{x.sql})"), t.DOUBLE)
    total = _sum([x], distinct, around)
    count = Typed(f"nullif({_count([x], distinct, around).sql}, 0)", t.BIGINT)
    type = bounded(x.type.width + 4, x.type.scale + 4)
    return divide(total, raw_cast(count, t.decimal(20, 0)), type)


def _extremum(name: str) -> Callable[..., Typed]:
    def make(args: Sequence[Typed], distinct: bool, around: Around) -> Typed:
        return Typed(around(f"{name}({args[0].sql})"), args[0].type)

    return make


def _condition(name: str) -> Callable[..., Typed]:
    def make(args: Sequence[Typed], distinct: bool, around: Around) -> Typed:
        return Typed(around(f"{name}({truth(args[0]).sql})"), t.BOOLEAN)

    return make


def _count_if(args: Sequence[Typed], distinct: bool, around: Around) -> Typed:
    word = "DISTINCT " if distinct else ""
    return Typed(around(f"count({word}CASE WHEN {truth(args[0]).sql} THEN 1 END)"), t.BIGINT)


def _moment(name: str) -> Callable[..., Typed]:
    def make(args: Sequence[Typed], distinct: bool, around: Around) -> Typed:
        if distinct:
            raise refuse(f"{name}(DISTINCT ...) is not translated", args[0].tree)
        return Typed(around(f"{name}({coerced(_number(args[0]), t.DOUBLE).sql})"), t.DOUBLE)

    return make


def _collect(distinct_always: bool) -> Callable[..., Typed]:
    def make(args: Sequence[Typed], distinct: bool, around: Around) -> Typed:
        word = "DISTINCT " if distinct or distinct_always else ""
        gathered = around(f"list({word}{args[0].sql})")
        kept = f"list_filter({gathered}, lambda each: each IS NOT NULL)"
        return Typed(f"coalesce({kept}, [])", t.list_of(args[0].type))

    return make


def _percentile(args: Sequence[Typed], distinct: bool, around: Around) -> Typed:
    if distinct or args[1].literal is None:
        raise refuse(
            "percentile with DISTINCT, or of a share that is no literal, is not translated", args[0].tree
        )
    value = coerced(_number(args[0]), t.DOUBLE)
    return Typed(around(f"quantile_cont({value.sql}, {args[1].literal})"), t.DOUBLE)


def _median(args: Sequence[Typed], distinct: bool, around: Around) -> Typed:
    return _percentile([args[0], Typed("0.5", t.DOUBLE, literal="0.5")], distinct, around)


Make = Callable[[Sequence[Typed], bool, Around], Typed]
AGGREGATES: dict[str, tuple[int, int | None, Make]] = {
    "count": (1, None, _count), "sum": (1, 1, _sum), "avg": (1, 1, _average), "mean": (1, 1, _average),
    "min": (1, 1, _extremum("min")), "max": (1, 1, _extremum("max")), "any_value": (1, 1, _extremum("any_value")),
    "bool_and": (1, 1, _condition("bool_and")), "every": (1, 1, _condition("bool_and")),
    "bool_or": (1, 1, _condition("bool_or")), "some": (1, 1, _condition("bool_or")),
    "any": (1, 1, _condition("bool_or")), "count_if": (1, 1, _count_if),
    "stddev": (1, 1, _moment("stddev_samp")), "stddev_samp": (1, 1, _moment("stddev_samp")),
    "std": (1, 1, _moment("stddev_samp")), "stddev_pop": (1, 1, _moment("stddev_pop")),
    "variance": (1, 1, _moment("var_samp")), "var_samp": (1, 1, _moment("var_samp")),
    "var_pop": (1, 1, _moment("var_pop")), "collect_list": (1, 1, _collect(False)),
    "array_agg": (1, 1, _collect(False)), "collect_set": (1, 1, _collect(True)),
    "percentile": (2, 2, _percentile), "median": (1, 1, _median),
}  # fmt: skip


def _ranked(name: str, type: SqlType = t.INTEGER) -> Make:
    def make(args: Sequence[Typed], distinct: bool, around: Around) -> Typed:
        inner = around(f"{name}({', '.join(str(integer_of(arg)) for arg in args)})")
        return Typed(f"CAST({inner} AS {type.duck})", type)

    return make


def _neighbour(name: str) -> Make:
    def make(args: Sequence[Typed], distinct: bool, around: Around) -> Typed:
        far = 1 if len(args) < 2 else integer_of(args[1])
        if far is None:
            raise refuse(f"{name} by a number of rows that is no literal is not translated", args[0].tree)
        value, *default = alike([args[0], *args[2:]], name)
        inner = ", ".join([value.sql, str(far), *(each.sql for each in default)])
        return Typed(around(f"{name}({inner})"), value.type)

    return make


WINDOWS: dict[str, tuple[int, int | None, Make]] = {
    "row_number": (0, 0, _ranked("row_number")), "rank": (0, 0, _ranked("rank")),
    "dense_rank": (0, 0, _ranked("dense_rank")), "ntile": (1, 1, _ranked("ntile")),
    "percent_rank": (0, 0, _ranked("percent_rank", t.DOUBLE)), "cume_dist": (0, 0, _ranked("cume_dist", t.DOUBLE)),
    "lag": (1, 3, _neighbour("lag")), "lead": (1, 3, _neighbour("lead")),
    "first_value": (1, 1, _extremum("first_value")), "last_value": (1, 1, _extremum("last_value")),
    "first": (1, 1, _extremum("first_value")), "last": (1, 1, _extremum("last_value")),
}  # fmt: skip


def aggregate(
    name: str, args: Sequence[Typed], distinct: bool, around: Around, windowed: bool, tree: Tree
) -> Typed:
    """The translation of an aggregate; with `windowed` also of what only a window has."""
    found = (WINDOWS.get(name) if windowed else None) or AGGREGATES.get(name)
    if found is None:
        raise refuse(f"the function {name} is not translated with {'OVER' if windowed else 'FILTER'}", tree)
    fewest, most, make = found
    if len(args) < fewest or (most is not None and len(args) > most):
        raise refuse(f"the function {name} does not take {len(args)} arguments", tree)
    if any(arg.aggregate for arg in args) and not windowed:
        raise refuse(f"{name} of an aggregate", tree, "Put the inner one into a subquery.")
    made = make(args, distinct, around)
    return Typed(made.sql, made.type, tree, aggregate=not windowed)
