"""A semi join that only lets through what a join further up asks for is not needed.

DuckDB narrows a correlated subquery by the values that the outer query has. Kept up to date that
is state for nothing: the join above finds no other groups than those it looks for.
"""

from __future__ import annotations

from penstock.plan import tree
from penstock.plan.domains import comes_from, domain
from penstock.plan.expr import Call, Col, Expr
from penstock.plan.failing import can_fail
from penstock.plan.nodes import Aggregate, Distinct, Filter, Join, Node, Project
from penstock.zset.types import BOOLEAN

Asked = dict[int, int]  # a column of the node -> the column of the asking side that it must equal


def drop_semi_joins(root: Node) -> Node:
    """Semi joins with the very values that a join above joins with, taken away."""
    root = tree.intern(root)

    def change(node: Node) -> Node:
        if not isinstance(node, Join) or node.kind == "full":
            return node
        right = _freed(node.right, {k.right: k.left for k in node.keys}, node.left)
        left = node.left
        if node.kind == "inner":
            left = _freed(node.left, {k.left: k.right for k in node.keys}, right)
        return tree.with_inputs(node, [left, right])

    done: dict[int, tuple[Node, Node]] = {}

    def visit(node: Node) -> Node:  # from the root down: the sources are compared by identity
        found = done.get(id(node))
        if found is None:
            changed = change(node)
            result = tree.with_inputs(changed, [visit(i) for i in changed.inputs])
            found = done[id(node)] = (node, result)
        return found[1]

    return visit(root)


def _freed(node: Node, asked: Asked, asker: Node) -> Node:
    """The node, where rows may come in addition that the asker's rows do not ask for."""
    if not asked or any(can_fail(e) for e in tree.expressions(node)):
        return node
    if isinstance(node, Project):
        below = {e.index: asked[c] for c, e in enumerate(node.exprs) if c in asked and isinstance(e, Col)}
        return tree.with_inputs(node, [_freed(node.input, below, asker)])
    if isinstance(node, Filter | Distinct):
        return tree.with_inputs(node, [_freed(node.inputs[0], asked, asker)])
    if isinstance(node, Aggregate):
        below = {key: asked[c] for c, key in enumerate(node.keys) if c in asked}
        return tree.with_inputs(node, [_freed(node.input, below, asker)])
    if isinstance(node, Join):
        return _freed_join(node, asked, asker)
    return node


def _freed_join(node: Join, asked: Asked, asker: Node) -> Node:
    if node.kind == "full":
        return node
    if _is_needless(node, asked, asker):
        known: list[Expr] = [
            Call(BOOLEAN, "is_not_null", (tree.column(node.left, k.left),))
            for k in node.keys
            if not k.null_safe
        ]
        return tree.filtered(_freed(node.left, asked, asker), known)
    count = tree.width(node.left)
    left = _freed(node.left, {c: a for c, a in asked.items() if c < count}, asker)
    right = node.right
    if node.kind == "inner":
        right = _freed(right, {c - count: a for c, a in asked.items() if c >= count}, asker)
    return tree.with_inputs(node, [left, right])


def _is_needless(node: Join, asked: Asked, asker: Node) -> bool:
    if node.kind != "semi" or node.residual is not None or not all(k.left in asked for k in node.keys):
        return False
    found = domain(node.right)
    if found is None:
        return False
    source, columns = found
    return comes_from(
        asker, [asked[k.left] for k in node.keys], source, [columns[k.right] for k in node.keys]
    )
