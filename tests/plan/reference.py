"""A plan run the slow and plain way, on lists of rows: what a plan means, to compare others with.

Joins look at every pair of rows, aggregates at every row of a group; nothing is incremental.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Any

from penstock.evaluate.compile import compile_expr
from penstock.plan.expr import Expr
from penstock.plan.nodes import (
    Agg,
    Aggregate,
    Distinct,
    Filter,
    Join,
    MultiJoin,
    Node,
    OrderKey,
    Project,
    Scan,
    SetOp,
    TopK,
    Union,
    Values,
)
from penstock.zset.column import constant, from_pylist
from penstock.zset.types import SqlType

Row = tuple[Any, ...]
Tables = dict[str, list[Row]]


class MoreThanOneRow(Exception):
    """A single join found two matches for one row."""


def run(node: Node, tables: Tables) -> list[Row]:
    """The rows that the plan gives over these tables."""
    return _RUNNERS[type(node)](node, *(run(i, tables) for i in node.inputs), tables)  # type: ignore[operator]


def evaluate(expr: Expr, types: Sequence[SqlType], rows: Sequence[Row]) -> list[Any]:
    """The expression's value on each row."""
    columns = [from_pylist(t, [row[i] for row in rows]) for i, t in enumerate(types)]
    return compile_expr(expr)(columns, len(rows)).to_pylist()


def _scan(node: Scan, tables: Tables) -> list[Row]:
    return [tuple(row[c] for c in node.columns) for row in tables[node.table]]


def _values(node: Values, tables: Tables) -> list[Row]:
    def plain(type: SqlType, value: Any) -> Any:
        return constant(type, value, 1).to_pylist()[0]

    return [tuple(map(plain, node.types, row)) for row in node.rows]


def _project(node: Project, rows: list[Row], tables: Tables) -> list[Row]:
    columns = [evaluate(e, node.input.schema.types, rows) for e in node.exprs]
    return list(zip(*columns, strict=True)) if columns else [()] * len(rows)


def _kept(terms: Sequence[Expr], types: Sequence[SqlType], rows: list[Row]) -> list[Row]:
    for term in terms:
        rows = [row for row, ok in zip(rows, evaluate(term, types, rows), strict=True) if ok]
    return rows


def _filter(node: Filter, rows: list[Row], tables: Tables) -> list[Row]:
    return _kept([node.predicate], node.schema.types, rows)


def _same(a: Any, b: Any, null_safe: bool) -> bool:
    if a is None or b is None:
        return null_safe and a is None and b is None
    return bool(a == b) or (a != a and b != b)


def _multi_join(node: MultiJoin, *inputs: Any) -> list[Row]:
    rows: list[Row] = [()]
    for part in inputs[:-1]:
        rows = [a + b for a in rows for b in part]
        count = len(rows[0]) if rows else 0
        ready = [(a, b, safe) for a, b, safe in node.equalities if max(a, b) < count]
        rows = [row for row in rows if all(_same(row[a], row[b], safe) for a, b, safe in ready)]
    return _kept(node.filters, node.schema.types, rows)


def _join(node: Join, left: list[Row], right: list[Row], tables: Tables) -> list[Row]:
    types = node.left.schema.types + node.right.schema.types
    near = [
        (i, j)
        for i, a in enumerate(left)
        for j, b in enumerate(right)
        if all(_same(a[k.left], b[k.right], k.null_safe) for k in node.keys)
    ]
    if node.residual is not None:
        tested = evaluate(node.residual, types, [left[i] + right[j] for i, j in near])
        near = [pair for pair, ok in zip(near, tested, strict=True) if ok]
    if node.kind == "mark":
        return _marked(node, left, right, near, types)
    matches: dict[int, list[int]] = {i: [] for i in range(len(left))}
    for i, j in near:
        matches[i].append(j)
    if node.kind in ("semi", "anti"):
        return [row for i, row in enumerate(left) if bool(matches[i]) == (node.kind == "semi")]
    if node.kind == "single" and any(len(found) > 1 for found in matches.values()):
        raise MoreThanOneRow
    rows = [left[i] + right[j] for i, j in near]
    if node.kind in ("left", "full", "single"):
        nothing = (None,) * len(node.right.schema.types)
        rows += [row + nothing for i, row in enumerate(left) if not matches[i]]
    if node.kind == "full":
        matched = {j for _, j in near}
        nothing = (None,) * len(node.left.schema.types)
        rows += [nothing + row for j, row in enumerate(right) if j not in matched]
    return rows


def _marked(
    node: Join, left: list[Row], right: list[Row], near: list[tuple[int, int]], types: Sequence[SqlType]
) -> list[Row]:
    pairs = [left[i] + right[j] for i, j in near]
    tests = [evaluate(m, types, pairs) for m in node.marks]
    marks: list[Any] = [False] * len(left)
    for position, (i, _) in enumerate(near):
        found = [test[position] for test in tests]
        value = False if False in found else None if None in found else True
        if marks[i] is not True and value is not False:
            marks[i] = value
    return [(*row, mark) for row, mark in zip(left, marks, strict=True)]


def _aggregate(node: Aggregate, rows: list[Row], tables: Tables) -> list[Row]:
    groups: dict[Row, list[int]] = {} if node.keys else {(): []}
    for i, row in enumerate(rows):
        groups.setdefault(tuple(_hashable(row[k]) for k in node.keys), []).append(i)
    types = node.input.schema.types
    columns = [_arguments(agg, types, rows) for agg in node.aggs]
    result = []
    for members in groups.values():
        keys = tuple(rows[members[0]][k] for k in node.keys)
        values = []
        for agg, (args, keep) in zip(node.aggs, columns, strict=True):
            values.append(_folded(agg, [args[i] for i in members if keep[i]]))
        result.append(keys + tuple(values))
    return result


def _arguments(agg: Agg, types: Sequence[SqlType], rows: list[Row]) -> tuple[list[Any], list[bool]]:
    args = [None] * len(rows) if agg.arg is None else evaluate(agg.arg, types, rows)
    keep = [True] * len(rows) if agg.filter is None else [bool(v) for v in evaluate(agg.filter, types, rows)]
    return args, keep


def _folded(agg: Agg, values: list[Any]) -> Any:
    if agg.name == "count_star":
        return len(values)
    if agg.name == "first":
        return values[0] if values else None
    known = [v for v in values if v is not None]
    if agg.distinct:
        known = list({_hashable(v): v for v in known}.values())
    if agg.name == "count":
        return len(known)
    return _FOLDS[agg.name](known) if known else None


def _variance(values: list[Any], population: bool) -> float | None:
    count = len(values)
    if not population and count < 2:
        return None
    exact = [Fraction(v) for v in values]
    mean = sum(exact) / count
    return float(sum((v - mean) ** 2 for v in exact) / (count if population else count - 1))


def _root(value: float | None) -> float | None:
    return None if value is None else math.sqrt(value)


_FOLDS: dict[str, Callable[[list[Any]], Any]] = {
    "sum": sum,
    "avg": lambda values: float(sum(map(Fraction, values)) / len(values)),
    "min": min,
    "max": max,
    "bool_and": all,
    "bool_or": any,
    "any_value": lambda values: values[0],
    "var_samp": lambda values: _variance(values, False),
    "var_pop": lambda values: _variance(values, True),
    "stddev_samp": lambda values: _root(_variance(values, False)),
    "stddev_pop": lambda values: _root(_variance(values, True)),
}


def _hashable(value: Any) -> Any:
    if isinstance(value, float) and value != value:
        return "NaN"
    return tuple(map(_hashable, value)) if isinstance(value, list) else value


def _distinct(node: Distinct, rows: list[Row], tables: Tables) -> list[Row]:
    return list(dict.fromkeys(rows))


def _union(node: Union, *inputs: Any) -> list[Row]:
    return [row for part in inputs[:-1] for row in part]


def _set_operation(node: SetOp, left: list[Row], right: list[Row], tables: Tables) -> list[Row]:
    a, b = Counter(left), Counter(right)
    if not node.all:
        rows = set(a) & set(b) if node.kind == "intersect" else set(a) - set(b)
        return list(rows)
    return list(((a & b) if node.kind == "intersect" else (a - b)).elements())


def _top(node: TopK, rows: list[Row], tables: Tables) -> list[Row]:
    rows = sorted(rows, key=lambda row: [(v is None, str(v)) for v in row])
    for key in reversed(node.order):
        rows = _sorted(rows, key)
    end = None if node.limit is None else node.offset + node.limit
    return rows[node.offset : end]


def _sorted(rows: list[Row], key: OrderKey) -> list[Row]:
    nulls = [row for row in rows if row[key.column] is None]
    known = [row for row in rows if row[key.column] is not None]
    known = sorted(known, key=lambda row: row[key.column], reverse=key.descending)
    return nulls + known if key.nulls_first else known + nulls


_RUNNERS: dict[type[Node], Callable[..., list[Row]]] = {
    Scan: _scan,
    Values: _values,
    Project: _project,
    Filter: _filter,
    Join: _join,
    MultiJoin: _multi_join,
    Aggregate: _aggregate,
    Distinct: _distinct,
    Union: _union,
    SetOp: _set_operation,
    TopK: _top,
}
