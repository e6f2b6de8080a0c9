"""An analysed plan of Spark as Spark SQL: every node a query of its own, every column named by its number.

Spark resolves names and adds its casts before we look, so that the text says exactly what Spark would do.
Nodes and expressions that are not listed here are refused by the name that Spark gives them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from penstock.base.errors import NotMaintainable

Java = Any  # a Scala object, through py4j


class ReadsStream(Exception):
    """The plan reads a stream that is not one of the flow's relations."""


class PlanText:
    """Turns plans into text; the flow's relations are the views that have these names."""

    def __init__(self, known: set[str]) -> None:
        self.known = known
        self.used: set[str] = set()
        self._common: dict[int, Java] = {}  # WITH, by Spark's number
        self._inheriting: dict[str, bool] = {}  # kinds of expressions: asking Java takes a while

    def text(self, plan: Java) -> str:
        """A query whose columns have the plan's own names."""
        columns = [f"{_column(each)} AS {quoted(each.name())}" for each in seq(plan.output())]
        return f"SELECT {', '.join(columns)} FROM ({self.node(plan)}) AS q"

    def node(self, plan: Java) -> str:
        kind = _kind(plan)
        if kind.startswith(("StreamingRelation", "StreamingDataSource")):
            raise ReadsStream
        make = _NODES.get(kind)
        if make is None:
            raise NotMaintainable(f"{kind} in a DataFrame cannot be maintained", hint=_HINTS.get(kind))
        return make(self, plan)

    # -- nodes -------------------------------------------------------------------------------

    def through(self, plan: Java) -> str:
        return self.node(plan.child())

    def view(self, plan: Java) -> str:
        name = plan.desc().identifier().table()
        if name not in self.known:
            return self.node(plan.child())
        self.used.add(name)
        columns = [f"{quoted(each.name())} AS {_column(each)}" for each in seq(plan.output())]
        return f"SELECT {', '.join(columns)} FROM {quoted(name)}"

    def project(self, plan: Java) -> str:
        return f"SELECT {self._list(plan.projectList())} {self._from(plan.child())}"

    def one_row(self, plan: Java) -> str:
        return "SELECT 1 AS one"

    def filter(self, plan: Java) -> str:
        return f"SELECT * {self._from(plan.child())} WHERE {self.expression(plan.condition())}"

    def join(self, plan: Java) -> str:
        word = plan.joinType().sql()
        left, right = self.node(plan.left()), self.node(plan.right())
        condition = plan.condition()
        on = f" ON {self.expression(condition.get())}" if condition.isDefined() else ""
        if not on and word == "INNER":
            word = "CROSS"
        columns = ", ".join(_column(each) for each in seq(plan.output()))
        return f"SELECT {columns} FROM ({left}) AS l {word} JOIN ({right}) AS r{on or ('' if word == 'CROSS' else ' ON true')}"

    def aggregate(self, plan: Java) -> str:
        keys = [self.expression(each) for each in seq(plan.groupingExpressions())]
        group = f" GROUP BY {', '.join(keys)}" if keys else ""
        return f"SELECT {self._list(plan.aggregateExpressions())} {self._from(plan.child())}{group}"

    def distinct(self, plan: Java) -> str:
        return f"SELECT DISTINCT * {self._from(plan.child())}"

    def deduplicate(self, plan: Java) -> str:
        if {_column(each) for each in seq(plan.keys())} != {_column(each) for each in seq(plan.output())}:
            raise NotMaintainable(
                "dropDuplicates with some of the columns cannot be maintained",
                hint="Which of the rows stays is not defined; use groupBy with min or max.",
            )
        return self.distinct(plan)

    def sort(self, plan: Java) -> str:
        return self.node(plan.child())  # the rows of a view have no order; with LIMIT see below

    def limit(self, plan: Java) -> str:
        count = plan.limitExpr().sql()
        inner = plan.child()
        while _kind(inner) in ("LocalLimit", "GlobalLimit") and inner.limitExpr().sql() == count:
            inner = inner.child()
        skipped = ""
        if _kind(inner) == "Offset":
            skipped, inner = f" OFFSET {inner.offsetExpr().sql()}", inner.child()
        order = ""
        if _kind(inner) == "Sort":
            terms = [self._sorted(each) for each in seq(inner.order())]
            order, inner = f" ORDER BY {', '.join(terms)}", inner.child()
        return f"SELECT * {self._from(inner)}{order} LIMIT {count}{skipped}"

    def union(self, plan: Java) -> str:
        return self._side_by_side(plan, seq(plan.children()), "UNION ALL")

    def intersect(self, plan: Java) -> str:
        word = "INTERSECT" + (" ALL" if plan.isAll() else "")
        return self._side_by_side(plan, [plan.left(), plan.right()], word)

    def except_(self, plan: Java) -> str:
        return self._side_by_side(
            plan, [plan.left(), plan.right()], "EXCEPT" + (" ALL" if plan.isAll() else "")
        )

    def _side_by_side(self, plan: Java, children: list[Java], word: str) -> str:
        names = [_column(each) for each in seq(plan.output())]
        parts = []
        for child in children:
            columns = [_column(each) for each in seq(child.output())]
            listed = ", ".join(f"{own} AS {name}" for own, name in zip(columns, names, strict=True))
            parts.append(f"SELECT {listed} {self._from(child)}")
        return f" {word} ".join(parts)

    def with_(self, plan: Java) -> str:
        for each in seq(plan.cteDefs()):
            self._common[each.id()] = each.child()
        return self.node(plan.plan())

    def reference(self, plan: Java) -> str:
        made = self._common[plan.cteId()]
        pairs = zip(seq(made.output()), seq(plan.output()), strict=True)
        listed = ", ".join(f"{_column(inner)} AS {_column(outer)}" for inner, outer in pairs)
        return f"SELECT {listed} {self._from(made)}"

    def _from(self, plan: Java) -> str:
        return f"FROM ({self.node(plan)}) AS q"

    def _list(self, expressions: Java) -> str:
        made = []
        for each in seq(expressions):
            inner = each.child() if _kind(each) == "Alias" else each
            made.append(f"{self.expression(inner)} AS {_column(each)}")
        return ", ".join(made)

    def _sorted(self, order: Java) -> str:
        return f"{self.expression(order.child())} {order.direction().sql()} {order.nullOrdering().sql()}"

    # -- expressions -------------------------------------------------------------------------

    def expression(self, e: Java) -> str:
        kind = _kind(e)
        make = _EXPRESSIONS.get(kind)
        if make is not None:
            return make(self, e)
        if kind in _OPERATORS:
            left, right = (self.expression(each) for each in seq(e.children()))
            return f"({left} {e.sqlOperator()} {right})"
        return self.function(e)

    def function(self, e: Java, inside: str = "") -> str:
        """f(x): Spark's own name of the function, and what it was given."""
        kind = _kind(e)
        if kind not in self._inheriting:
            self._inheriting[kind] = _inherits(e)
        children = seq(e.parameters()) if self._inheriting[kind] else seq(e.children())
        args = [self.expression(each) for each in children]
        name = str(e.prettyName()).lower()
        if args and (name, len(args), args[-1]) in _DEFAULTS:
            args = args[:-1]
        return f"{name}({inside}{', '.join(args)})"

    def attribute(self, e: Java) -> str:
        return _column(e)

    def outer(self, e: Java) -> str:
        return self.expression(e.e())

    def alias(self, e: Java) -> str:
        return self.expression(e.child())

    def literal(self, e: Java) -> str:
        return str(e.sql())

    def cast(self, e: Java) -> str:
        mode = str(e.evalMode().toString())
        if mode not in ("ANSI", "TRY"):
            raise NotMaintainable("a cast outside of ANSI mode cannot be maintained", hint=ANSI_HINT)
        word = "TRY_CAST" if mode == "TRY" else "CAST"
        return f"{word}({self.expression(e.child())} AS {e.dataType().sql()})"

    def not_(self, e: Java) -> str:
        return f"(NOT {self.expression(e.child())})"

    def negative(self, e: Java) -> str:
        return f"(-{self.expression(e.child())})"

    def is_null(self, e: Java) -> str:
        return f"({self.expression(e.child())} IS NULL)"

    def is_not_null(self, e: Java) -> str:
        return f"({self.expression(e.child())} IS NOT NULL)"

    def in_(self, e: Java) -> str:
        listed = ", ".join(self.expression(each) for each in seq(e.list()))
        return f"({self.expression(e.value())} IN ({listed}))"

    def between(self, e: Java) -> str:
        value, low, high = (self.expression(each) for each in seq(e.parameters()))
        return f"({value} BETWEEN {low} AND {high})"

    def like(self, e: Java) -> str:
        if str(e.escapeChar()) != "\\":
            raise NotMaintainable("LIKE with an escape of its own cannot be maintained")
        return f"({self.expression(e.left())} LIKE {self.expression(e.right())})"

    def rlike(self, e: Java) -> str:
        return f"({self.expression(e.left())} RLIKE {self.expression(e.right())})"

    def case(self, e: Java) -> str:
        branches = [(each._1(), each._2()) for each in seq(e.branches())]
        text = " ".join(f"WHEN {self.expression(a)} THEN {self.expression(b)}" for a, b in branches)
        other = e.elseValue()
        return f"CASE {text}{f' ELSE {self.expression(other.get())}' if other.isDefined() else ''} END"

    def if_(self, e: Java) -> str:
        return f"if({', '.join(self.expression(each) for each in seq(e.children()))})"

    def field(self, e: Java) -> str:
        name = e.child().dataType().fields()[e.ordinal()].name()
        return f"({self.expression(e.child())}).{quoted(name)}"

    def item(self, e: Java) -> str:
        value, index = (self.expression(each) for each in seq(e.children()))
        return f"({value})[{index}]"

    def aggregated(self, e: Java) -> str:
        text = self.function(e.aggregateFunction(), "DISTINCT " if e.isDistinct() else "")
        condition = e.filter()
        return f"{text} FILTER (WHERE {self.expression(condition.get())})" if condition.isDefined() else text

    def scalar(self, e: Java) -> str:
        return f"({self.node(e.plan())})"

    def exists(self, e: Java) -> str:
        return f"EXISTS ({self.node(e.plan())})"

    def in_query(self, e: Java) -> str:
        values = seq(e.values())
        if len(values) != 1:
            raise NotMaintainable("IN with a subquery of several columns cannot be maintained")
        return f"({self.expression(values[0])} IN ({self.node(e.query().plan())}))"


ANSI_HINT = "Leave spark.sql.ansi.enabled as it is by default: true."


def seq(items: Java) -> list[Java]:
    """A Scala sequence as a list."""
    return [items.apply(i) for i in range(items.size())]


def quoted(name: str) -> str:
    """A name as Spark reads it, whatever is in it.

    >>> quoted("a `b`")
    '`a ``b```'
    """
    return "`" + name.replace("`", "``") + "`"


def _kind(item: Java) -> str:
    return str(item.getClass().getSimpleName()).rstrip("$")


def _column(attribute: Java) -> str:
    return f"c{attribute.exprId().id()}"


def _inherits(e: Java) -> bool:
    """Whether Spark keeps what the function was given beside what it will be replaced by."""
    found = e.getClass()
    while found is not None:
        if any(str(each.getSimpleName()) == "InheritAnalysisRules" for each in found.getInterfaces()):
            return True
        found = found.getSuperclass()
    return False


# Last arguments that Spark adds by itself, and that mean nothing.
_DEFAULTS = {("regexp_replace", 4, "1"), ("locate", 3, "1"), ("split", 3, "-1")}
_OPERATORS = {
    "Add", "Subtract", "Multiply", "Divide", "Remainder", "IntegralDivide", "EqualTo", "EqualNullSafe", "LessThan",
    "LessThanOrEqual", "GreaterThan", "GreaterThanOrEqual", "And", "Or", "BitwiseAnd", "BitwiseOr", "BitwiseXor",
}  # fmt: skip
_HINTS = {
    "LocalRelation": "Rows made in Python are no table of the flow: INSERT them into one.",
    "LogicalRDD": "Rows made in Python are no table of the flow: INSERT them into one.",
    "Range": "Rows made in Python are no table of the flow: INSERT them into one.",
    "LogicalRelation": "Make a table in the flow and feed it, with flow.tick or @table and spark.readStream.",
    "DataSourceV2Relation": "Make a table in the flow and feed it, with flow.tick or @table and spark.readStream.",
}
_P = PlanText
_NODES: dict[str, Callable[[PlanText, Java], str]] = {
    "SubqueryAlias": _P.through, "View": _P.view, "Project": _P.project, "OneRowRelation": _P.one_row,
    "Filter": _P.filter, "Join": _P.join, "Aggregate": _P.aggregate, "Distinct": _P.distinct,
    "Deduplicate": _P.deduplicate, "Sort": _P.sort, "GlobalLimit": _P.limit, "Union": _P.union,
    "Intersect": _P.intersect, "Except": _P.except_, "WithCTE": _P.with_, "CTERelationRef": _P.reference,
    "CTERelationDef": _P.through, "UnresolvedHint": _P.through, "ResolvedHint": _P.through,
}  # fmt: skip
_EXPRESSIONS: dict[str, Callable[[PlanText, Java], str]] = {
    "AttributeReference": _P.attribute, "OuterReference": _P.outer, "Alias": _P.alias, "Literal": _P.literal,
    "Cast": _P.cast, "Not": _P.not_, "UnaryMinus": _P.negative, "IsNull": _P.is_null, "IsNotNull": _P.is_not_null,
    "In": _P.in_, "Between": _P.between, "Like": _P.like, "RLike": _P.rlike, "CaseWhen": _P.case, "If": _P.if_,
    "GetStructField": _P.field, "GetArrayItem": _P.item, "AggregateExpression": _P.aggregated,
    "ScalarSubquery": _P.scalar, "Exists": _P.exists, "InSubquery": _P.in_query,
}  # fmt: skip
