"""A subquery joined with the values that it is asked for, and joined back on them, is joined once.

    L join (X join distinct(values of L) on p) on those values   =   L join X on p

Each row of L finds exactly one row of the distinct values, so these can be L's own columns.
"""

from __future__ import annotations

from dataclasses import dataclass

from penstock.plan import tree
from penstock.plan.domains import comes_from, domain
from penstock.plan.expr import Col, Const, Expr, conjuncts
from penstock.plan.joins import join, key_terms
from penstock.plan.nodes import Filter, Join, Node, Project, identity
from penstock.plan.rules.prune_columns import Need, needed_columns


def drop_domains(root: Node) -> Node:
    """Joins back to the values that a correlated subquery was asked for, done directly."""
    root = tree.intern(root)
    need = needed_columns(root)

    done: dict[int, tuple[Node, Node]] = {}

    def visit(node: Node) -> Node:
        found = done.get(id(node))
        if found is None:
            dropped = _dropped(node, need.get(id(node), frozenset())) if isinstance(node, Join) else None
            result = node if dropped is None else dropped
            result = tree.with_inputs(result, [visit(i) for i in result.inputs])
            found = done[id(node)] = (node, result)
        return found[1]

    return visit(root)


@dataclass
class _Inner:
    """The right side of the outer join, taken apart: exprs of the filtered join of a domain and the rest."""

    exprs: tuple[Expr, ...]
    terms: list[Expr]
    join: Join


def _dropped(node: Join, need: Need) -> Node | None:
    inner = _taken_apart(node.right)
    if inner is None or node.kind not in ("inner", "left", "single", "semi", "anti"):
        return None
    for side in ("left", "right"):
        found = domain(inner.join.left if side == "left" else inner.join.right)
        if found is not None and (side == "left" or inner.join.kind == "inner"):
            result = _without(node, inner, side, found, need)
            if result is not None:
                return result
    return None


def _taken_apart(node: Node) -> _Inner | None:
    exprs = identity(node)
    if isinstance(node, Project):
        exprs, node = node.exprs, node.input
    terms: list[Expr] = []
    if isinstance(node, Filter):
        terms, node = conjuncts(node.predicate), node.input
    if isinstance(node, Join) and node.kind in ("inner", "left"):
        return _Inner(exprs, terms, node)
    return None


def _without(node: Join, inner: _Inner, side: str, found: tuple[Node, list[int]], need: Need) -> Node | None:
    left, below = node.left, inner.join
    other = below.right if side == "left" else below.left
    start = 0 if side == "left" else tree.width(below.left)  # where the domain's columns stand
    size = len(found[1])
    covered: dict[int, int] = {}
    for key in node.keys:
        expr = inner.exprs[key.right]
        if key.null_safe and isinstance(expr, Col) and start <= expr.index < start + size:
            covered.setdefault(expr.index - start, key.left)
    if len(covered) < size:
        return None
    if not comes_from(left, [covered[k] for k in range(size)], found[0], found[1]):
        return None
    count = tree.width(left)
    mine: list[Expr] = [tree.column(left, covered[k]) for k in range(size)]
    theirs: list[Expr] = [tree.shift(c, count) for c in identity(other)]
    columns = mine + theirs if side == "left" else theirs + mine
    exprs = [tree.substitute(e, columns) for e in inner.exprs]
    on = [tree.substitute(t, columns) for t in _conditions(below)]
    where = [tree.substitute(t, columns) for t in inner.terms]
    rest = [tree.substitute(t, [*identity(left), *exprs]) for t in _other_conditions(node, exprs)]
    if below.kind == "left":
        return _outer(node, other, on, where + rest, exprs)
    return _inner(node, other, on + where + rest, exprs, need)


def _conditions(node: Join) -> list[Expr]:
    return key_terms(node) + ([] if node.residual is None else conjuncts(node.residual))


def _other_conditions(node: Join, exprs: list[Expr]) -> list[Expr]:
    """The conditions that are not the way back to the domain, which now hold of themselves."""
    count = tree.width(node.left)
    terms = []
    for key, term in zip(node.keys, key_terms(node), strict=True):
        found = exprs[key.right]
        if not (key.null_safe and isinstance(found, Col) and found.index < count and found.index == key.left):
            terms.append(term)
    return terms + ([] if node.residual is None else conjuncts(node.residual))


def _outer(node: Join, other: Node, on: list[Expr], where: list[Expr], exprs: list[Expr]) -> Node | None:
    """The domain was the left side of a left join: it finds its row whatever the other side has."""
    if where or node.kind not in ("inner", "left", "single"):
        return None
    joined = join("single" if node.kind == "single" else "left", node.left, other, on)
    return tree.project(joined, [*identity(node.left), *exprs])


def _inner(node: Join, other: Node, terms: list[Expr], exprs: list[Expr], need: Need) -> Node | None:
    joined = join(node.kind, node.left, other, terms)
    if node.kind in ("semi", "anti"):
        return joined
    count = tree.width(node.left)
    if node.kind != "inner":  # NULL where nothing matches: only columns of the other side become that
        for i, expr in enumerate(exprs):
            if count + i not in need:
                exprs[i] = Const(expr.type, None)
            elif not (isinstance(expr, Col) and expr.index >= count):
                return None
    return tree.project(joined, [*identity(node.left), *exprs])
