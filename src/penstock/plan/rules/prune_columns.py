"""Columns that nobody reads go away, from the root down; how often a row stands does not change.

What several nodes read keeps the columns that any of them needs, so that it stays one node.
Tables, projections and filters cost nothing to keep twice: each reader gets its own.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from penstock.plan import tree
from penstock.plan.expr import Expr, columns_of
from penstock.plan.nodes import (
    Aggregate,
    Distinct,
    Filter,
    Join,
    JoinKey,
    MultiJoin,
    Node,
    Project,
    Scan,
    SetOp,
    TopK,
    Union,
    Values,
)

Need = frozenset[int]


def prune_columns(root: Node) -> Node:
    """The plan with only the columns that it needs."""
    root = tree.intern(root)
    return _Pruner(root).exactly(root, range(tree.width(root)))


class _Pruner:
    def __init__(self, root: Node) -> None:
        self.need = needed_columns(root)
        self.done: dict[tuple[int, Need], tuple[Node, dict[int, int]]] = {}

    def exactly(self, node: Node, columns: Sequence[int]) -> Node:
        """These columns of the node in this order."""
        pruned, places = self.prune(node, frozenset(columns))
        return tree.select(pruned, [places[c] for c in columns])

    def narrow(self, node: Node, columns: Iterable[int]) -> tuple[Node, dict[int, int]]:
        """At most these columns of the node, and where they are."""
        wanted = sorted(columns)
        return self.exactly(node, wanted), {c: i for i, c in enumerate(wanted)}

    def prune(self, node: Node, need: Need) -> tuple[Node, dict[int, int]]:
        """The node with at least these columns, and the place of each that is left."""
        if tree.has_state(node):
            need = self.need[id(node)]
        key = (id(node), need)
        if key not in self.done:
            self.done[key] = self.rebuilt(node, need)
        return self.done[key]

    def rebuilt(self, node: Node, need: Need) -> tuple[Node, dict[int, int]]:
        if isinstance(node, Scan | Values):
            return _leaf(node, sorted(need))
        needs = _input_needs(node, need)
        if isinstance(node, Project):
            below, places = self.prune(node.input, needs[0])
            kept = sorted(need)
            exprs = [tree.remap(node.exprs[c], places) for c in kept]
            return tree.project(below, exprs), {c: i for i, c in enumerate(kept)}
        if isinstance(node, Filter):
            below, places = self.prune(node.input, needs[0])
            return tree.filtered(below, [tree.remap(node.predicate, places)]), places
        if isinstance(node, Aggregate):
            return self.aggregate(node, need, needs[0])
        if isinstance(node, Join):
            return self.join(node, need, needs)
        if isinstance(node, MultiJoin):
            return self.multi_join(node, needs)
        if isinstance(node, TopK):
            below, places = self.narrow(node.input, needs[0])
            order = tuple(replace(k, column=places[k.column]) for k in node.order)
            return replace(node, input=below, order=order), places
        kept = sorted(needs[0])  # Distinct and SetOp: all columns; Union: the same of each part
        parts = [self.exactly(i, kept) for i in node.inputs]
        return tree.with_inputs(node, parts), {c: i for i, c in enumerate(kept)}

    def aggregate(self, node: Aggregate, need: Need, below_need: Need) -> tuple[Node, dict[int, int]]:
        below, places = self.prune(node.input, below_need)
        count = len(node.keys)
        kept = [*range(count), *(c for c in sorted(need) if c >= count)]
        aggs = [node.aggs[c - count] for c in kept[count:]]
        moved = tuple(replace(a, arg=_moved(a.arg, places), filter=_moved(a.filter, places)) for a in aggs)
        keys = tuple(places[k] for k in node.keys)
        return Aggregate(below, keys, moved, tree.neutral_names(len(kept))), {
            c: i for i, c in enumerate(kept)
        }

    def join(self, node: Join, need: Need, needs: list[Need]) -> tuple[Node, dict[int, int]]:
        count = tree.width(node.left)
        if node.kind == "mark" and count not in need:
            return self.prune(node.left, need)  # nobody asks for the mark: the left's rows as they are
        left, left_places = self.narrow(node.left, needs[0])
        right, right_places = self.narrow(node.right, needs[1])
        new_count = tree.width(left)
        places = left_places | {count + c: new_count + p for c, p in right_places.items()}
        keys = tuple(JoinKey(left_places[k.left], right_places[k.right], k.null_safe) for k in node.keys)
        marks = tuple(tree.remap(m, places) for m in node.marks)
        new = Join(node.kind, left, right, keys, _moved(node.residual, places), marks)
        if node.kind in ("semi", "anti"):
            return new, left_places
        return new, left_places | {count: new_count} if node.kind == "mark" else places

    def multi_join(self, node: MultiJoin, needs: list[Need]) -> tuple[Node, dict[int, int]]:
        parts: list[Node] = []
        places: dict[int, int] = {}
        start = offset = 0
        for part, need in zip(node.parts, needs, strict=True):
            new, at = self.narrow(part, need)
            places |= {start + c: offset + p for c, p in at.items()}
            parts.append(new)
            start += tree.width(part)
            offset += tree.width(new)
        equalities = tuple((places[a], places[b], safe) for a, b, safe in node.equalities)
        filters = tuple(tree.remap(f, places) for f in node.filters)
        return MultiJoin(tuple(parts), equalities, filters), places


def needed_columns(root: Node) -> dict[int, Need]:
    """The columns of each node, by id, that any node above it reads."""
    need: dict[int, Need] = {id(root): frozenset(range(tree.width(root)))}
    for node in reversed(list(tree.walk(root))):
        for below, columns in zip(node.inputs, _input_needs(node, need[id(node)]), strict=True):
            need[id(below)] = need.get(id(below), frozenset()) | columns
    return need


def _moved(expr: Expr | None, places: dict[int, int]) -> Expr | None:
    return None if expr is None else tree.remap(expr, places)


def _leaf(node: Scan | Values, kept: list[int]) -> tuple[Node, dict[int, int]]:
    names = tuple(node.names[c] for c in kept)
    types = tuple(node.types[c] for c in kept)
    places = {c: i for i, c in enumerate(kept)}
    if isinstance(node, Scan):
        return Scan(node.table, tuple(node.columns[c] for c in kept), names, types), places
    rows = tuple(tuple(row[c] for c in kept) for row in node.rows)
    return Values(tree.neutral_names(len(kept)), types, rows), places


def _reads(exprs: Iterable[Expr]) -> Need:
    return frozenset(c for e in exprs for c in columns_of(e))


def _input_needs(node: Node, need: Need) -> list[Need]:
    """The columns of each input that a node reads to give the columns that are needed of it."""
    if isinstance(node, Project):
        return [_reads(node.exprs[c] for c in need)]
    if isinstance(node, Filter):
        return [need | columns_of(node.predicate)]
    if isinstance(node, Aggregate):
        count = len(node.keys)
        aggs = [node.aggs[c - count] for c in need if c >= count]
        exprs = [e for a in aggs for e in (a.arg, a.filter) if e is not None]
        return [frozenset(node.keys) | _reads(exprs)]
    if isinstance(node, TopK):
        return [need | {k.column for k in node.order}]
    if isinstance(node, Union):
        return [need for _ in node.parts]
    if isinstance(node, Distinct | SetOp):
        return [frozenset(range(tree.width(i))) for i in node.inputs]
    if isinstance(node, Join):
        return _join_needs(node, need)
    if isinstance(node, MultiJoin):
        return _multi_join_needs(node, need)
    return []


def _join_needs(node: Join, need: Need) -> list[Need]:
    count = tree.width(node.left)
    if node.kind == "mark" and count not in need:
        return [need, frozenset()]
    if node.kind == "mark":
        need = need - {count}
    both = need | _reads(tree.expressions(node))
    left = frozenset(c for c in both if c < count) | {k.left for k in node.keys}
    right = frozenset(c - count for c in both if c >= count) | {k.right for k in node.keys}
    return [left, right]


def _multi_join_needs(node: MultiJoin, need: Need) -> list[Need]:
    both = need | _reads(node.filters) | {c for a, b, _ in node.equalities for c in (a, b)}
    needs, start = [], 0
    for part in node.parts:
        end = start + tree.width(part)
        needs.append(frozenset(c - start for c in both if start <= c < end))
        start = end
    return needs
