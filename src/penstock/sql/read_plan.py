"""A serialised DuckDB plan as our own plan: the only file that knows its operators.

The format is DuckDB's own and no promise of theirs: its version is pinned, and the goldens of
tests/plan show what it gave. References are positions in the inputs' columns, side by side.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from penstock.base.errors import NotMaintainable
from penstock.kernels.order import OrderKey
from penstock.plan import tree
from penstock.plan.expr import Call, Const, Expr
from penstock.plan.joins import join
from penstock.plan.nodes import (
    Distinct,
    Node,
    Project,
    Scan,
    SetOp,
    TopK,
    Union,
    Values,
    identity,
)
from penstock.sql.read_aggregate import read_aggregate
from penstock.sql.read_expr import read_expr, read_filter
from penstock.sql.read_join import read_any_join, read_comparison_join
from penstock.sql.read_types import Json, Unreadable, read_type, read_value
from penstock.zset.types import BIGINT, INTEGER

VIRTUAL = 2**63  # column numbers from here on are the row id and the like
ROWID = Call(BIGINT, "rowid", ())  # stands where a plan has one; after pruning none may be left

_REFUSED = {
    "LOGICAL_WINDOW": "window functions (or LIMIT in a correlated subquery)",
    "LOGICAL_RECURSIVE_CTE": "recursive CTEs",
    "LOGICAL_ASOF_JOIN": "ASOF joins",
    "LOGICAL_POSITIONAL_JOIN": "positional joins",
    "LOGICAL_UNNEST": "UNNEST",
    "LOGICAL_SAMPLE": "TABLESAMPLE",
    "LOGICAL_PIVOT": "PIVOT",
    "LOGICAL_DEPENDENT_JOIN": "this correlated subquery",
}


def read_plan(item: Json) -> Node:
    """The plan of a serialised query. Raises NotMaintainable, or Unreadable where the reader is lost."""
    return _Reader().read(item)


class _Reader:
    def __init__(self) -> None:
        self.ctes: dict[int, Node] = {}

    def read(self, item: Json) -> Node:
        kind = item["type"]
        if kind in _REFUSED:
            raise NotMaintainable(f"{_REFUSED[kind]} cannot be maintained yet")
        reader = _READERS.get(kind)
        if reader is None:
            words = kind.removeprefix("LOGICAL_").lower().replace("_", " ")
            raise NotMaintainable(f"the operator {words} cannot be maintained")
        return reader(self, item)

    def child(self, item: Json) -> Node:
        return self.read(item["children"][0])

    def get(self, item: Json) -> Node:
        name = item["qname"]["path"][-1]
        data = item.get("function_data") or {}
        if "table" not in data or item["children"]:
            raise NotMaintainable(f"the table function {name} cannot be maintained")
        if (item.get("extra_info") or {}).get("sample_options"):
            raise NotMaintainable("TABLESAMPLE cannot be maintained yet")
        indexes = [_column_index(c) for c in item["column_indexes"]]
        real = sorted({i for i in indexes if i < VIRTUAL})
        types = [read_type(item["returned_types"][i]) for i in real]
        scan = Scan(data["table"], tuple(real), tuple(item["names"][i] for i in real), tuple(types))
        columns = [ROWID if i >= VIRTUAL else tree.column(scan, real.index(i)) for i in indexes]
        node = tree.filtered(scan, _table_filters(item, columns))
        keep = item.get("projection_ids") or range(len(columns))
        return tree.project(node, [columns[i] for i in keep])

    def projection(self, item: Json) -> Node:
        node = self.child(item)
        exprs = tuple(read_expr(e, identity(node)) for e in item["expressions"])
        return Project(node, exprs, tree.neutral_names(len(exprs)))

    def filter(self, item: Json) -> Node:
        node = self.child(item)
        node = tree.filtered(node, [read_expr(e, identity(node)) for e in item["expressions"]])
        keep = item.get("projection_map")
        return tree.select(node, keep) if keep else node

    def comparison_join(self, item: Json) -> Node:
        if item.get("duplicate_eliminated_columns"):
            raise Unreadable("a join with duplicate eliminated columns")
        left, right = (self.read(child) for child in item["children"])
        return read_comparison_join(item, left, right)

    def any_join(self, item: Json) -> Node:
        left, right = (self.read(child) for child in item["children"])
        return read_any_join(item, left, right)

    def cross_product(self, item: Json) -> Node:
        left, right = (self.read(child) for child in item["children"])
        return join("inner", left, right, ())

    def aggregate(self, item: Json) -> Node:
        return read_aggregate(item, self.child(item))

    def distinct(self, item: Json) -> Node:
        if item["distinct_type"] != "DISTINCT":
            raise NotMaintainable("DISTINCT ON cannot be maintained yet")
        return Distinct(self.child(item))

    def union(self, item: Json) -> Node:
        parts = tuple(self.read(child) for child in item["children"])
        return Union(parts) if item["setop_all"] else Distinct(Union(parts))

    def set_operation(self, item: Json) -> Node:
        kind = item["type"].removeprefix("LOGICAL_").lower()
        left, right = (self.read(child) for child in item["children"])
        return SetOp(kind, item["setop_all"], left, right)

    def order_by(self, item: Json) -> Node:
        node = self.child(item)  # rows of a view have no order
        keep = item.get("projection_map")
        return tree.select(node, keep) if keep else node

    def limit(self, item: Json) -> Node:
        """LIMIT over ORDER BY, with projections that change no order between them, is one TopK."""
        limit, offset = _count(item["limit_val"]), _count(item["offset_val"]) or 0
        between: list[Json] = []
        below = item["children"][0]
        while below["type"] == "LOGICAL_PROJECTION":
            between.append(below)
            below = below["children"][0]
        if below["type"] != "LOGICAL_ORDER_BY":
            return TopK(self.child(item), (), limit, offset)
        node = self.top(below, limit, offset)
        for projection in reversed(between):
            exprs = tuple(read_expr(e, identity(node)) for e in projection["expressions"])
            node = Project(node, exprs, tree.neutral_names(len(exprs)))
        return node

    def top_n(self, item: Json) -> Node:
        return self.top(item, item["limit"], item.get("offset") or 0)

    def top(self, item: Json, limit: int | None, offset: int) -> Node:
        node = self.child(item)
        before = tree.width(node)
        orders = item["orders"]
        node, places = tree.with_columns(node, [read_expr(o["expression"], identity(node)) for o in orders])
        keys = [
            OrderKey(place, order["type"] == "DESCENDING", order["null_order"].endswith("FIRST"))
            for place, order in zip(places, orders, strict=True)
        ]
        node = TopK(node, tuple(keys), limit, offset)
        return tree.select(node, item.get("projection_map") or range(before))

    def expression_get(self, item: Json) -> Node:
        node = self.child(item)
        types = tuple(read_type(t) for t in item["expr_types"])
        rows = [tuple(read_expr(e, identity(node)) for e in row) for row in item["expressions"]]
        one_row = isinstance(node, Values) and len(node.rows) == 1
        if one_row and all(isinstance(e, Const) for row in rows for e in row):
            values = tuple(tuple(e.value for e in row) for row in rows)  # type: ignore[attr-defined]
            return Values(tree.neutral_names(len(types)), types, values)
        names = tree.neutral_names(len(types))
        return Union(tuple(Project(node, row, names) for row in rows))

    def dummy_scan(self, item: Json) -> Node:
        return Values(("c0",), (INTEGER,), ((None,),))  # DuckDB counts one column here; nothing reads it

    def empty_result(self, item: Json) -> Node:
        return tree.empty([read_type(t) for t in item["return_types"]])

    def chunk_get(self, item: Json) -> Node:
        types = tuple(read_type(t) for t in item["chunk_types"])
        columns = [[read_value(v)[1] for v in values] for values in item["collection"]["values"]]
        return Values(tree.neutral_names(len(types)), types, tuple(zip(*columns, strict=True)))

    def materialized_cte(self, item: Json) -> Node:
        self.ctes[item["table_index"]] = self.child(item)
        return self.read(item["children"][1])

    def cte_ref(self, item: Json) -> Node:
        if item["cte_index"] not in self.ctes:
            raise NotMaintainable("recursive CTEs cannot be maintained yet")
        return self.ctes[item["cte_index"]]


_READERS: dict[str, Callable[[_Reader, Json], Node]] = {
    "LOGICAL_GET": _Reader.get,
    "LOGICAL_PROJECTION": _Reader.projection,
    "LOGICAL_FILTER": _Reader.filter,
    "LOGICAL_COMPARISON_JOIN": _Reader.comparison_join,
    "LOGICAL_ANY_JOIN": _Reader.any_join,
    "LOGICAL_CROSS_PRODUCT": _Reader.cross_product,
    "LOGICAL_AGGREGATE_AND_GROUP_BY": _Reader.aggregate,
    "LOGICAL_DISTINCT": _Reader.distinct,
    "LOGICAL_UNION": _Reader.union,
    "LOGICAL_INTERSECT": _Reader.set_operation,
    "LOGICAL_EXCEPT": _Reader.set_operation,
    "LOGICAL_ORDER_BY": _Reader.order_by,
    "LOGICAL_LIMIT": _Reader.limit,
    "LOGICAL_TOP_N": _Reader.top_n,
    "LOGICAL_EXPRESSION_GET": _Reader.expression_get,
    "LOGICAL_DUMMY_SCAN": _Reader.dummy_scan,
    "LOGICAL_EMPTY_RESULT": _Reader.empty_result,
    "LOGICAL_CHUNK_GET": _Reader.chunk_get,
    "LOGICAL_MATERIALIZED_CTE": _Reader.materialized_cte,
    "LOGICAL_CTE_REF": _Reader.cte_ref,
}


def _column_index(item: Json) -> int:
    if item.get("child_indexes") or item.get("index_type", "FULL_READ") != "FULL_READ":
        raise Unreadable("a scan of parts of a struct")
    return int(item["index"])


def _table_filters(item: Json, columns: list[Any]) -> list[Expr]:
    filters = item.get("table_filters") or {}
    if filters and not item.get("table_filters_by_projection"):
        raise Unreadable("table filters by column number")
    terms = [read_filter(f["value"], [columns[f["key"]]]) for f in filters.get("filters") or []]
    terms += [
        read_filter(several, [columns[i] for i in several["column_indexes"]])
        for several in filters.get("multi_column_filters") or []
    ]
    return [term for term in terms if term is not None]


def _count(item: Json) -> int | None:
    kind = item["type"]
    if kind == "UNSET":
        return None
    if kind == "CONSTANT_VALUE":
        return int(item["constant_integer"])
    words = "LIMIT as a percentage" if "PERCENTAGE" in kind else "LIMIT or OFFSET that is not a constant"
    raise NotMaintainable(f"{words} cannot be maintained")
