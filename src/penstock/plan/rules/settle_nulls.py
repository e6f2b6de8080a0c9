"""What NOT NULL columns make plain: tests for NULL go, null-safe keys and marks become ordinary ones.

Not in RULES: it needs to know which columns of the tables are NOT NULL. It runs before them (NOT IN
is an anti join then) and after them (joins that the other rules made).
"""

from __future__ import annotations

from dataclasses import replace

from penstock.plan import tree
from penstock.plan.expr import Call, Col, Expr, conjuncts
from penstock.plan.joins import equality, join, key_terms
from penstock.plan.never_null import NotNull, is_never_null
from penstock.plan.nodes import Filter, Join, JoinKey, MultiJoin, Node
from penstock.zset.types import BOOLEAN


def settle_marks(root: Node, not_null: NotNull) -> Node:
    """Equalities of mark joins that are never NULL as keys, and no filters that test for NULL in vain."""

    def change(node: Node) -> Node:
        if isinstance(node, Filter):
            return _filter(node, not_null)
        if isinstance(node, Join) and node.kind == "mark" and node.residual is None:
            terms = [_mark(mark, node, not_null) for mark in node.marks]
            if tuple(terms) != node.marks:
                return join("mark", node.left, node.right, [*key_terms(node), *terms])
        return node

    return tree.transform_up(root, change)


def settle_keys(root: Node, not_null: NotNull) -> Node:
    """Null-safe keys as plain ones where one side is never NULL, and no filters that test for NULL in vain."""

    def change(node: Node) -> Node:
        if isinstance(node, Filter):
            return _filter(node, not_null)
        if isinstance(node, Join) and node.kind != "mark":
            return replace(node, keys=tuple(_key(key, node, not_null) for key in node.keys))
        if isinstance(node, MultiJoin):
            return _multi_join(node, not_null)
        return node

    return tree.transform_up(root, change)


def _key(key: JoinKey, node: Join, not_null: NotNull) -> JoinKey:
    left, right = tree.column(node.left, key.left), tree.column(node.right, key.right)
    known = is_never_null(left, node.left, not_null) or is_never_null(right, node.right, not_null)
    return replace(key, null_safe=key.null_safe and not known)


def _multi_join(node: MultiJoin, not_null: NotNull) -> Node:
    at = [(part, c) for part in node.parts for c in range(tree.width(part))]

    def known(position: int) -> bool:
        part, c = at[position]
        return is_never_null(tree.column(part, c), part, not_null)

    pairs = [(a, b, safe and not known(a) and not known(b)) for a, b, safe in node.equalities]
    return replace(node, equalities=tuple(dict.fromkeys(pairs)))


def _filter(node: Filter, not_null: NotNull) -> Node:
    return tree.filtered(node.input, [_test(t, node.input, not_null) for t in conjuncts(node.predicate)])


def _test(term: Expr, node: Node, not_null: NotNull) -> Expr:
    if not isinstance(term, Call) or term.name != "is_not_null" or not isinstance(term.args[0], Col):
        return term
    return tree.TRUE if is_never_null(term.args[0], node, not_null) else term


def _mark(mark: Expr, node: Join, not_null: NotNull) -> Expr:
    pair = equality(mark, tree.width(node.left), ("=",))
    if pair is None or not isinstance(mark, Call):
        return mark
    left, right, _ = pair
    if is_never_null(left, node.left, not_null) and is_never_null(right, node.right, not_null):
        return Call(BOOLEAN, "is_not_distinct", mark.args, mark.position)
    return mark
