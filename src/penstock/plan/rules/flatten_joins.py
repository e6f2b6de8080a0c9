"""Inner joins, cross products and the filters on them become one MultiJoin.

Equalities between two inputs join them; one between expressions is computed on its side first.
A filter on one input goes to that input. Nothing is derived from the equalities that are there:
a = b and b = c connect all three already.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from penstock.plan import tree
from penstock.plan.expr import Call, Col, Const, Expr, columns_of, conjuncts
from penstock.plan.failing import can_fail
from penstock.plan.joins import key_terms
from penstock.plan.nodes import Filter, Join, MultiJoin, Node, Project, identity


@dataclass
class _Region:
    """Inputs side by side, what comes out of them, and what must hold."""

    parts: list[Node] = field(default_factory=list)
    columns: list[Expr] = field(default_factory=list)
    terms: list[Expr] = field(default_factory=list)

    @property
    def width(self) -> int:
        return sum(tree.width(p) for p in self.parts)


def flatten_joins(root: Node) -> Node:
    """Each region of inner joins as one node."""
    return _Flattener(root).visit(root)


class _Flattener:
    def __init__(self, root: Node) -> None:
        self.parents = tree.parents(root)
        self.done: dict[int, tuple[Node, Node]] = {}

    def visit(self, node: Node) -> Node:
        found = self.done.get(id(node))
        if found is None:
            found = self.done[id(node)] = (node, self.flattened(node))
        return found[1]

    def flattened(self, node: Node) -> Node:
        if self.is_region(node):
            return _build(self.collect(node))
        return tree.with_inputs(node, [self.visit(i) for i in node.inputs])

    def is_region(self, node: Node) -> bool:
        """True for an inner join under filters and projections of columns that nobody else reads."""
        while _is_transparent(node):
            node = node.inputs[0]
            if self.parents[id(node)] > 1:
                return False
        return isinstance(node, Join) and node.kind == "inner"

    def collect(self, node: Node, top: bool = True) -> _Region:
        shared = not top and self.parents[id(node)] > 1
        if shared or not self.is_region(node):
            return _single(self.visit(node))
        if isinstance(node, Project):
            region = self.collect(node.input, False)
            return _Region(
                region.parts, [tree.substitute(e, region.columns) for e in node.exprs], region.terms
            )
        if isinstance(node, Filter):
            region = self.collect(node.input, False)
            terms = [tree.substitute(t, region.columns) for t in conjuncts(node.predicate)]
            return _Region(region.parts, region.columns, region.terms + terms)
        assert isinstance(node, Join)
        left, right = self.collect(node.left, False), self.collect(node.right, False)
        columns = left.columns + [tree.shift(c, left.width) for c in right.columns]
        terms = key_terms(node) + ([] if node.residual is None else conjuncts(node.residual))
        moved = [tree.shift(t, left.width) for t in right.terms]
        own = [tree.substitute(t, columns) for t in terms]
        return _Region(left.parts + right.parts, columns, left.terms + moved + own)


def _single(part: Node) -> _Region:
    """One input; what only picks its columns is left out, so that it stands in its own order."""
    columns: list[Expr] = list(identity(part))
    while isinstance(part, Project) and all(isinstance(e, Col) for e in part.exprs):
        columns = [tree.substitute(c, part.exprs) for c in columns]
        part = part.input
    return _Region([part], columns)


def _is_transparent(node: Node) -> bool:
    if isinstance(node, Project):
        return all(isinstance(e, Col | Const) for e in node.exprs)
    return isinstance(node, Filter)


def _build(region: _Region) -> Node:
    owner = [i for i, part in enumerate(region.parts) for _ in range(tree.width(part))]
    starts = [owner.index(i) if i in owner else 0 for i in range(len(region.parts))]
    local: list[list[Expr]] = [[] for _ in region.parts]
    keys: list[list[Expr]] = [[] for _ in region.parts]
    pairs: list[tuple[int, Expr, int, Expr, bool]] = []
    filters: list[Expr] = []
    for term in dict.fromkeys(region.terms):
        reads = {owner[c] for c in columns_of(term)}
        sides = _sides(term, owner)
        if sides is not None:
            (i, a), (j, b) = ((p, tree.shift(e, -starts[p])) for p, e in sides)
            keys[i].append(a)
            keys[j].append(b)
            pairs.append((i, a, j, b, isinstance(term, Call) and term.name == "is_not_distinct"))
        elif len(reads) == 1 and not can_fail(term):
            (i,) = reads
            local[i].append(tree.shift(term, -starts[i]))
        else:
            filters.append(term)
    parts: list[Node] = []
    places: list[dict[Expr, int]] = []
    moved: dict[int, int] = {}
    offset = 0
    for i, part in enumerate(region.parts):
        moved |= {starts[i] + c: offset + c for c in range(tree.width(part))}
        new, at = tree.with_columns(tree.filtered(part, local[i]), keys[i])
        parts.append(new)
        places.append({key: offset + place for key, place in zip(keys[i], at, strict=True)})
        offset += tree.width(new)
    equalities = dict.fromkeys((places[i][a], places[j][b], safe) for i, a, j, b, safe in pairs)
    node = MultiJoin(tuple(parts), tuple(equalities), tuple(tree.remap(f, moved) for f in filters))
    return tree.project(node, [tree.remap(c, moved) for c in region.columns])


def _sides(term: Expr, owner: list[int]) -> list[tuple[int, Expr]] | None:
    """The inputs and expressions that an equality of two inputs compares, the first input first."""
    if not isinstance(term, Call) or term.name not in ("=", "is_not_distinct"):
        return None
    sides = []
    for arg in term.args:
        reads = {owner[c] for c in columns_of(arg)}
        if len(reads) != 1:
            return None
        sides.append((reads.pop(), arg))
    if sides[0][0] == sides[1][0]:
        return None
    return sorted(sides, key=lambda side: side[0])
