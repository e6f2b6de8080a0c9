"""Making joins: which conditions are keys, which are marks, which remain."""

from __future__ import annotations

from collections.abc import Sequence

from penstock.plan import tree
from penstock.plan.expr import Call, Col, Expr, columns_of, conjuncts
from penstock.plan.nodes import Join, JoinKey, Node
from penstock.zset.types import BOOLEAN


def join(kind: str, left: Node, right: Node, terms: Sequence[Expr]) -> Node:
    """A join of the kind on a conjunction of terms over the left's columns followed by the right's.

    Equalities between the sides become keys, on columns that are computed below the join where
    they are more than plain ones; the rest stays as the residual.
    """
    if kind in ("right", "right semi", "right anti"):
        return _flipped(kind, left, right, terms)
    count = tree.width(left)
    names = ("is_not_distinct",) if kind == "mark" else ("=", "is_not_distinct")
    pairs: list[tuple[Expr, Expr, bool]] = []
    rest: list[Expr] = []
    for term in (c for t in terms for c in conjuncts(t)):
        pair = equality(term, count, names)
        if pair is None:
            rest.append(term)
        else:
            pairs.append(pair)
    new_left, left_places = tree.with_columns(left, [a for a, _, _ in pairs])
    new_right, right_places = tree.with_columns(right, [b for _, b, _ in pairs])
    safe = [s for _, _, s in pairs]
    keys = tuple(map(JoinKey, left_places, right_places, safe))
    added = tree.width(new_left) - count
    places = {c: c if c < count else c + added for c in range(count + tree.width(right))}
    rest = [tree.remap(term, places) for term in rest]
    marks = tuple(rest) if kind == "mark" else ()
    residual = tree.all_of(rest) if rest and kind != "mark" else None
    node = Join(kind, new_left, new_right, tuple(dict.fromkeys(keys)), residual, marks)
    return tree.select(node, _visible(kind, count, tree.width(new_left), tree.width(right)))


def _visible(kind: str, left: int, new_left: int, right: int) -> list[int]:
    """The columns of the join that are not computed keys."""
    if kind in ("semi", "anti"):
        return list(range(left))
    if kind == "mark":
        return [*range(left), new_left]
    return [*range(left), *range(new_left, new_left + right)]


def _flipped(kind: str, left: Node, right: Node, terms: Sequence[Expr]) -> Node:
    a, b = tree.width(left), tree.width(right)
    places = {c: c + b if c < a else c - a for c in range(a + b)}
    other = {"right": "left", "right semi": "semi", "right anti": "anti"}[kind]
    node = join(other, right, left, [tree.remap(term, places) for term in terms])
    return tree.select(node, [places[c] for c in range(a + b)]) if kind == "right" else node


def equality(term: Expr, count: int, names: Sequence[str]) -> tuple[Expr, Expr, bool] | None:
    """What the left's first `count` columns and the right's are compared by, if the term is an equality of them."""
    if not isinstance(term, Call) or term.name not in names:
        return None
    a, b = term.args
    for x, y in ((a, b), (b, a)):
        low, high = columns_of(x), columns_of(y)
        if low and high and max(low) < count <= min(high):
            return x, tree.shift(y, -count), term.name == "is_not_distinct"
    return None


def key_terms(node: Join) -> list[Expr]:
    """The keys of a join as terms over the left's columns followed by the right's."""
    count = tree.width(node.left)
    terms: list[Expr] = []
    for key in node.keys:
        right = tree.column(node.right, key.right)
        pair = (tree.column(node.left, key.left), Col(right.type, right.index + count))
        terms.append(Call(BOOLEAN, "is_not_distinct" if key.null_safe else "=", pair))
    return terms
