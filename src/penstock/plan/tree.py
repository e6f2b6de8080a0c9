"""Walking and rebuilding plans: every function here knows all the kinds of node."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import fields, replace
from typing import Any

from penstock.plan.expr import Call, Col, Const, Expr, conjuncts, rewrite_columns
from penstock.plan.nodes import (
    Aggregate,
    Distinct,
    Filter,
    Join,
    MultiJoin,
    Node,
    Project,
    Scan,
    SetOp,
    Union,
    Values,
    identity,
)
from penstock.zset.types import BOOLEAN, SqlType

TRUE = Const(BOOLEAN, True)


def with_inputs(node: Node, inputs: Sequence[Node]) -> Node:
    """The node over other inputs."""
    if all(a is b for a, b in zip(node.inputs, inputs, strict=True)):
        return node
    if isinstance(node, MultiJoin | Union):
        return replace(node, parts=tuple(inputs))
    if isinstance(node, Join | SetOp):
        return replace(node, left=inputs[0], right=inputs[1])
    return replace(node, input=inputs[0])  # type: ignore[call-arg]


def transform_up(node: Node, change: Callable[[Node], Node]) -> Node:
    """Each node, from the leaves up, replaced by what `change` makes of it; shared nodes once."""
    done: dict[int, tuple[Node, Node]] = {}

    def visit(node: Node) -> Node:
        found = done.get(id(node))
        if found is None:
            result = change(with_inputs(node, [visit(i) for i in node.inputs]))
            found = done[id(node)] = (node, result)  # the node too: its id must stay its own
        return found[1]

    return visit(node)


def walk(node: Node) -> Iterator[Node]:
    """Every node once, inputs before the nodes above them."""
    seen: set[int] = set()

    def visit(node: Node) -> Iterator[Node]:
        if id(node) not in seen:
            seen.add(id(node))
            for below in node.inputs:
                yield from visit(below)
            yield node

    return visit(node)


def parents(root: Node) -> dict[int, int]:
    """How many nodes read each node, by id."""
    counts: dict[int, int] = {}
    for node in walk(root):
        for below in node.inputs:
            counts[id(below)] = counts.get(id(below), 0) + 1
    return counts


def intern(root: Node) -> Node:
    """The plan with equal nodes made one: after it, sharing shows in identity."""
    known: dict[Any, Node] = {}

    def change(node: Node) -> Node:
        below = {id(i) for i in node.inputs}
        key = (type(node).__name__, *(_key(getattr(node, f.name), below) for f in fields(node)))
        return known.setdefault(key, node)

    return transform_up(root, change)


def _key(value: Any, below: set[int]) -> Any:
    if isinstance(value, Node):
        return ("node", id(value))
    if isinstance(value, tuple) and value and isinstance(value[0], Node):
        return ("nodes", *(id(v) for v in value))
    if isinstance(value, tuple) and value and isinstance(value[0], tuple):  # the rows of Values:
        return ("rows", tuple(tuple((type(v).__name__, repr(v)) for v in row) for row in value))
    return value


def width(node: Node) -> int:
    return len(node.schema.types)


def column(node: Node, index: int) -> Col:
    return Col(node.schema.types[index], index)


def shift(expr: Expr, by: int) -> Expr:
    """The expression with all its columns moved."""
    return rewrite_columns(expr, lambda c: Col(c.type, c.index + by)) if by else expr


def substitute(expr: Expr, values: Sequence[Expr]) -> Expr:
    """The expression with column i replaced by values[i]."""
    return rewrite_columns(expr, lambda c: values[c.index])


def remap(expr: Expr, places: dict[int, int]) -> Expr:
    """The expression with columns moved to other places."""
    return rewrite_columns(expr, lambda c: Col(c.type, places[c.index]))


def project(node: Node, exprs: Sequence[Expr]) -> Node:
    """These expressions of the node, without a node where they are its columns as they stand."""
    if tuple(exprs) == identity(node):
        return node
    return Project(node, tuple(exprs), neutral_names(len(exprs)))


def select(node: Node, columns: Sequence[int]) -> Node:
    """These columns of the node."""
    return project(node, [column(node, c) for c in columns])


def neutral_names(count: int) -> tuple[str, ...]:
    """Names of inner columns: equal plans must not differ by what a query calls things."""
    return tuple(f"c{i}" for i in range(count))


def all_of(terms: Sequence[Expr]) -> Expr:
    """The conjunction of the terms, without doubles.

    >>> all_of([])
    Const(type=SqlType(id='BOOLEAN', width=0, scale=0, children=()), value=True)
    """
    kept = list(dict.fromkeys(c for term in terms for c in conjuncts(term) if c != TRUE))
    if len(kept) < 2:
        return kept[0] if kept else TRUE
    return Call(BOOLEAN, "and", tuple(kept))


def filtered(node: Node, terms: Sequence[Expr]) -> Node:
    """The node's rows where all the terms hold."""
    predicate = all_of(terms)
    if predicate == TRUE:
        return node
    if isinstance(node, Filter):
        return Filter(node.input, all_of([node.predicate, predicate]))
    return Filter(node, predicate)


def with_columns(node: Node, exprs: Sequence[Expr]) -> tuple[Node, list[int]]:
    """The node with these expressions as columns (added where they are not), and where they stand."""
    have: list[Expr] = list(identity(node))
    places = []
    for expr in exprs:
        if expr not in have:
            have.append(expr)
        places.append(have.index(expr))
    return project(node, have), places


def empty(types: Sequence[SqlType]) -> Values:
    """No rows."""
    return Values(neutral_names(len(types)), tuple(types), ())


def is_empty(node: Node) -> bool:
    return isinstance(node, Values) and not node.rows


def keeps_rows_distinct(node: Node) -> bool:
    """True where no row can stand twice."""
    return isinstance(node, Distinct) or (isinstance(node, SetOp) and not node.all)


def has_state(node: Node) -> bool:
    """False for the nodes that cost nothing to keep twice."""
    return not isinstance(node, Scan | Values | Project | Filter | Union)


def expressions(node: Node) -> list[Expr]:
    """The expressions that a node itself evaluates."""
    if isinstance(node, Project):
        return list(node.exprs)
    if isinstance(node, Filter):
        return [node.predicate]
    if isinstance(node, Join):
        return [*node.marks, *([] if node.residual is None else [node.residual])]
    if isinstance(node, MultiJoin):
        return list(node.filters)
    if isinstance(node, Aggregate):
        return [e for agg in node.aggs for e in (agg.arg, agg.filter) if e is not None]
    return []
