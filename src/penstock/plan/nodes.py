"""Plan nodes: typed relational algebra, bound to positions. Bags, not sets, unless a node says so.

Each node's `schema` is what it gives. A plan is a DAG: a node may be the input of several others
(a shared CTE), and equal nodes are the same node to the circuit builder.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

from penstock.kernels.order import OrderKey
from penstock.plan.expr import Col, Expr
from penstock.zset.types import BOOLEAN, Schema, SqlType


@dataclass(frozen=True)
class Node:
    @property
    def inputs(self) -> tuple[Node, ...]:
        return ()

    @property
    def schema(self) -> Schema:
        raise TypeError(f"{type(self).__name__} has no schema")


@dataclass(frozen=True)
class Scan(Node):
    """Columns of a table or a materialized view, by position in its schema."""

    table: str
    columns: tuple[int, ...]
    names: tuple[str, ...]
    types: tuple[SqlType, ...]

    @property
    def schema(self) -> Schema:
        return Schema(self.names, self.types)


@dataclass(frozen=True)
class Values(Node):
    """Constant rows: each a tuple of values in the form that `expr.Const` holds."""

    names: tuple[str, ...]
    types: tuple[SqlType, ...]
    rows: tuple[tuple[Any, ...], ...]

    @property
    def schema(self) -> Schema:
        return Schema(self.names, self.types)


@dataclass(frozen=True)
class Project(Node):
    input: Node
    exprs: tuple[Expr, ...]
    names: tuple[str, ...]

    @property
    def inputs(self) -> tuple[Node, ...]:
        return (self.input,)

    @cached_property
    def schema(self) -> Schema:
        return Schema(self.names, tuple(e.type for e in self.exprs))


@dataclass(frozen=True)
class Filter(Node):
    """The rows where the predicate is true (not NULL)."""

    input: Node
    predicate: Expr

    @property
    def inputs(self) -> tuple[Node, ...]:
        return (self.input,)

    @property
    def schema(self) -> Schema:
        return self.input.schema


@dataclass(frozen=True)
class JoinKey:
    """An equality between a column of the left and one of the right input.

    With null_safe, NULL matches NULL (IS NOT DISTINCT FROM)."""

    left: int
    right: int
    null_safe: bool = False


@dataclass(frozen=True)
class Join(Node):
    """Two inputs. `residual` is over the left's columns followed by the right's.

    kinds: inner, left, right, full: left columns, then right columns;
           semi, anti: the left's rows with, or without, a match;
           single: left, but more than one match for a row is an error (scalar subqueries);
           mark: the left's columns, then a BOOLEAN: is the left row among the right's rows?
                 TRUE if any right row matches, NULL if none does but some comparison with a right
                 row (of the same null-safe key) is NULL, FALSE otherwise. For mark joins the
                 equalities that are three-valued stand in `marks`, and only null-safe ones in keys.
    """

    kind: str
    left: Node
    right: Node
    keys: tuple[JoinKey, ...]
    residual: Expr | None = None
    marks: tuple[Expr, ...] = ()

    @property
    def inputs(self) -> tuple[Node, ...]:
        return (self.left, self.right)

    @cached_property
    def schema(self) -> Schema:
        left, right = self.left.schema, self.right.schema
        if self.kind in ("semi", "anti"):
            return left
        if self.kind == "mark":
            return Schema((*left.names, "mark"), (*left.types, BOOLEAN))
        return Schema(left.names + right.names, left.types + right.types)


@dataclass(frozen=True)
class MultiJoin(Node):
    """An inner join of n inputs: all columns side by side, where all equalities and the filter hold.

    `equalities` pairs positions in the concatenated columns of different inputs.
    """

    parts: tuple[Node, ...]
    equalities: tuple[tuple[int, int, bool], ...]  # position, position, null_safe
    filters: tuple[Expr, ...] = ()

    @property
    def inputs(self) -> tuple[Node, ...]:
        return self.parts

    @cached_property
    def schema(self) -> Schema:
        names = tuple(n for p in self.parts for n in p.schema.names)
        return Schema(names, tuple(t for p in self.parts for t in p.schema.types))


@dataclass(frozen=True)
class Agg:
    """One aggregate: count_star, count, sum, avg, min, max, first, bool_and, bool_or, var_samp, ...

    `arg` is None for count_star. `filter` keeps the rows where it is true.
    """

    name: str
    arg: Expr | None
    type: SqlType
    distinct: bool = False
    filter: Expr | None = None


@dataclass(frozen=True)
class Aggregate(Node):
    """Grouped by columns of the input: the keys, then the aggregates. No keys: always one row."""

    input: Node
    keys: tuple[int, ...]
    aggs: tuple[Agg, ...]
    names: tuple[str, ...]

    @property
    def inputs(self) -> tuple[Node, ...]:
        return (self.input,)

    @cached_property
    def schema(self) -> Schema:
        keys = tuple(self.input.schema.types[k] for k in self.keys)
        return Schema(self.names, keys + tuple(a.type for a in self.aggs))


@dataclass(frozen=True)
class Distinct(Node):
    """Each row once."""

    input: Node

    @property
    def inputs(self) -> tuple[Node, ...]:
        return (self.input,)

    @property
    def schema(self) -> Schema:
        return self.input.schema


@dataclass(frozen=True)
class Union(Node):
    """UNION ALL. All parts have the same types."""

    parts: tuple[Node, ...]

    @property
    def inputs(self) -> tuple[Node, ...]:
        return self.parts

    @property
    def schema(self) -> Schema:
        return self.parts[0].schema


@dataclass(frozen=True)
class SetOp(Node):
    """INTERSECT [ALL] and EXCEPT [ALL]."""

    kind: str  # "intersect" or "except"
    all: bool
    left: Node
    right: Node

    @property
    def inputs(self) -> tuple[Node, ...]:
        return (self.left, self.right)

    @property
    def schema(self) -> Schema:
        return self.left.schema


@dataclass(frozen=True)
class TopK(Node):
    """The rows at positions offset to offset + limit in the order given; ties by the whole row."""

    input: Node
    order: tuple[OrderKey, ...]
    limit: int | None
    offset: int = 0

    @property
    def inputs(self) -> tuple[Node, ...]:
        return (self.input,)

    @property
    def schema(self) -> Schema:
        return self.input.schema


def identity(node: Node) -> tuple[Expr, ...]:
    """The node's columns as expressions, in order."""
    return tuple(Col(t, i) for i, t in enumerate(node.schema.types))
