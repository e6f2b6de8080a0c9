"""A plan as text: one line for each node, inputs indented below it."""

from __future__ import annotations

from penstock.plan.expr import Call, Col, Const, Expr
from penstock.plan.nodes import (
    Agg,
    Aggregate,
    Filter,
    Join,
    MultiJoin,
    Node,
    Project,
    Scan,
    SetOp,
    TopK,
    Union,
    Values,
)
from penstock.plan.tree import has_state

_VALUES_SHOWN_MAX = 3
_INFIX = {"=", "<>", "<", "<=", ">", ">=", "+", "-", "*", "/", "//", "%", "||", "and", "or", "~~", "!~~"}


def show(root: Node) -> str:
    """The plan's text.

    >>> from penstock.zset.types import BIGINT, BOOLEAN
    >>> scan = Scan("t", (0,), ("id",), (BIGINT,))
    >>> print(show(Filter(scan, Call(BOOLEAN, ">", (Col(BIGINT, 0), Const(BIGINT, 3))))))
    Filter (#0 > 3)
      Scan t (id)
    """
    lines: list[str] = []
    seen: dict[Node, int] = {}
    repeated = _repeated(root)

    def visit(node: Node, depth: int) -> None:
        if node in seen:
            lines.append(f"{'  ' * depth}see [{seen[node]}]")
            return
        label = ""
        if node in repeated:
            seen[node] = len(seen) + 1
            label = f"[{seen[node]}] "
        lines.append("  " * depth + label + describe(node))
        for below in node.inputs:
            visit(below, depth + 1)

    visit(root, 0)
    return "\n".join(lines)


def _repeated(root: Node) -> set[Node]:
    """The nodes with state that stand in more than one place."""
    seen: set[Node] = set()
    twice: set[Node] = set()

    def visit(node: Node) -> None:
        if node in seen:
            if has_state(node):
                twice.add(node)
            return
        seen.add(node)
        for below in node.inputs:
            visit(below)

    visit(root)
    return twice


def describe(node: Node) -> str:
    """One node in one line."""
    if isinstance(node, Scan):
        return f"Scan {node.table} ({', '.join(node.names)})"
    if isinstance(node, Values):
        shown = ", ".join(map(str, node.rows[:_VALUES_SHOWN_MAX]))
        return f"Values {len(node.rows)} rows {shown}".rstrip()
    if isinstance(node, Project):
        return f"Project {', '.join(map(_named, node.exprs, node.names))}"
    if isinstance(node, Filter):
        return f"Filter {text(node.predicate)}"
    if isinstance(node, Join | MultiJoin):
        return _join(node)
    if isinstance(node, Aggregate):
        return f"Aggregate by ({', '.join(f'#{k}' for k in node.keys)}): {', '.join(map(_agg, node.aggs))}".rstrip()
    if isinstance(node, SetOp):
        return f"{node.kind.capitalize()}{' all' if node.all else ''}"
    if isinstance(node, TopK):
        order = ", ".join(
            f"#{k.column}{' desc' if k.descending else ''}{' nulls first' if k.nulls_first else ''}"
            for k in node.order
        )
        return f"TopK by ({order}) limit {node.limit} offset {node.offset}"
    if isinstance(node, Union):
        return "Union all"
    return type(node).__name__


def _named(expr: Expr, name: str) -> str:
    return text(expr) if name.startswith("c") and name[1:].isdigit() else f"{text(expr)} as {name}"


def _join(node: Join | MultiJoin) -> str:
    if isinstance(node, MultiJoin):
        pairs = [f"#{a} {'is' if safe else '='} #{b}" for a, b, safe in node.equalities]
        filters = [f"where {text(f)}" for f in node.filters]
        return " ".join(["MultiJoin on", "(" + ", ".join(pairs) + ")", *filters])
    pairs = [f"#{k.left} {'is' if k.null_safe else '='} right #{k.right}" for k in node.keys]
    words = [f"Join {node.kind} on ({', '.join(pairs)})"]
    words += [f"mark {text(m)}" for m in node.marks]
    words += [] if node.residual is None else [f"where {text(node.residual)}"]
    return " ".join(words)


def _agg(agg: Agg) -> str:
    distinct = "distinct " if agg.distinct else ""
    arg = "*" if agg.arg is None else text(agg.arg)
    condition = "" if agg.filter is None else f" filter {text(agg.filter)}"
    return f"{agg.name}({distinct}{arg}){condition}"


def text(expr: Expr) -> str:
    """An expression, with #i for the input's column i."""
    if isinstance(expr, Col):
        return f"#{expr.index}"
    if isinstance(expr, Const):
        return repr(expr.value) if expr.value is None or expr.type.id != "DECIMAL" else _decimal(expr)
    assert isinstance(expr, Call)
    args = [text(a) for a in expr.args]
    if expr.name in _INFIX and len(args) > 1:
        return "(" + f" {expr.name} ".join(args) + ")"
    if expr.name in ("cast", "try_cast"):
        return f"{expr.name}({args[0]} as {expr.type})"
    return f"{expr.name}({', '.join(args)})"


def _decimal(expr: Const) -> str:
    return f"{expr.value}e-{expr.type.scale}" if expr.type.scale else str(expr.value)
