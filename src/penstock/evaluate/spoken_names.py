"""What messages call the columns of a plan: inside a plan they have numbers, which nobody has written."""

from __future__ import annotations

import re

from penstock.base.limits import ERROR_VALUE_LENGTH_MAX
from penstock.evaluate.render import spoken
from penstock.plan.expr import Col, Expr
from penstock.plan.nodes import Agg, Aggregate, Distinct, Filter, Join, MultiJoin, Node, Project, TopK, Union

_NEUTRAL = re.compile(r"c\d+")


class SpokenNames:
    """The names of the columns of plans, each worked out once: parts of a plan may stand in it several times.

    >>> from penstock.plan.nodes import Scan
    >>> from penstock.zset.types import BIGINT, VARCHAR
    >>> scan = Scan("t", (0, 1), ("b", "a"), (VARCHAR, BIGINT))
    >>> total = Aggregate(scan, (0,), (Agg("sum", Col(BIGINT, 1), BIGINT),), ("c0", "c1"))
    >>> SpokenNames().of(total)
    ('b', 'sum(a)')
    """

    def __init__(self) -> None:
        self._known: dict[
            int, tuple[Node, tuple[str, ...]]
        ] = {}  # with the node, so that its id stays its own

    def of(self, node: Node) -> tuple[str, ...]:
        known = self._known.get(id(node))
        if known is None:
            known = self._known[id(node)] = node, self._work_out(node)
        return known[1]

    def _work_out(self, node: Node) -> tuple[str, ...]:
        if isinstance(node, (Filter, Distinct, TopK)):
            return self.of(node.input)
        if isinstance(node, Project):
            below = self.of(node.input)
            return tuple(_column(e, n, below) for e, n in zip(node.exprs, node.names, strict=True))
        if isinstance(node, Aggregate):
            below = self.of(node.input)
            return (*(below[k] for k in node.keys), *(_aggregate(a, below) for a in node.aggs))
        if isinstance(node, Join):
            left = self.of(node.left)
            if node.kind in ("semi", "anti", "mark"):
                return (*left, *node.schema.names[len(left) :])
            return left + self.of(node.right)
        if isinstance(node, MultiJoin):
            return tuple(name for part in node.parts for name in self.of(part))
        if isinstance(node, Union):
            return self.of(node.parts[0])
        return node.schema.names


def _column(expr: Expr, name: str, below: tuple[str, ...]) -> str:
    if isinstance(expr, Col):
        return below[expr.index]
    return _short(spoken(expr, below, nested=True), name) if _NEUTRAL.fullmatch(name) else name


def _aggregate(agg: Agg, below: tuple[str, ...]) -> str:
    if agg.arg is None:
        inside = "*"
    else:
        inside = ("DISTINCT " if agg.distinct else "") + spoken(agg.arg, below)
    condition = "" if agg.filter is None else f" FILTER (WHERE {spoken(agg.filter, below)})"
    name = "count" if agg.name == "count_star" else agg.name
    return _short(f"{name}({inside}){condition}", f"{name}(...)")


def _short(text: str, otherwise: str) -> str:
    """What is put together of long expressions would only grow."""
    return text if len(text) <= ERROR_VALUE_LENGTH_MAX else otherwise
