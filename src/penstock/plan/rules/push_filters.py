"""Filters move towards the tables, as far as they mean the same there.

A term that can fail stays where it is: further down it would see rows that another part of the
query throws away.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from penstock.plan import tree
from penstock.plan.expr import Expr, columns_of, conjuncts
from penstock.plan.failing import can_fail
from penstock.plan.nodes import Aggregate, Distinct, Filter, Join, Node, Project, SetOp, Union

Terms = Sequence[Expr]


def push_filters(root: Node) -> Node:
    """Each filter's terms as low as they can go; not into what several nodes share."""
    return _Pusher(root).push(root, ())


class _Pusher:
    def __init__(self, root: Node) -> None:
        self.parents = tree.parents(root)
        self.done: dict[int, tuple[Node, Node]] = {}

    def push(self, node: Node, terms: Terms) -> Node:
        if terms and self.parents.get(id(node), 0) > 1 and not _is_chain(node):
            return tree.filtered(self.push(node, ()), terms)
        if terms:
            return self.visit(node, terms)
        found = self.done.get(id(node))
        if found is None:
            found = self.done[id(node)] = (node, self.visit(node, ()))
        return found[1]

    def visit(self, node: Node, terms: Terms) -> Node:
        if isinstance(node, Filter):
            return self.push(node.input, [*conjuncts(node.predicate), *terms])
        if isinstance(node, Project):  # the same rows below it, so a term that can fail may go too
            below = [tree.substitute(term, node.exprs) for term in terms]
            return tree.with_inputs(node, [self.push(node.input, below)])
        safe = [term for term in terms if not can_fail(term)]
        risky = [term for term in terms if can_fail(term)]
        return tree.filtered(self.safely(node, safe), risky)

    def safely(self, node: Node, terms: Terms) -> Node:
        """The node with terms that cannot fail, as low as they mean the same."""
        if isinstance(node, Aggregate):
            count = len(node.keys)
            keys = [tree.column(node.input, k) for k in node.keys]
            below = [tree.substitute(t, keys) for t in terms if _within(t, range(count))]
            above = [t for t in terms if not _within(t, range(count))]
            return tree.filtered(tree.with_inputs(node, [self.push(node.input, below)]), above)
        if isinstance(node, Distinct | Union | SetOp):
            return tree.with_inputs(node, [self.push(i, terms) for i in node.inputs])
        if isinstance(node, Join):
            return self.join(node, terms)
        return tree.filtered(tree.with_inputs(node, [self.push(i, ()) for i in node.inputs]), terms)

    def join(self, node: Join, terms: Terms) -> Node:
        count = tree.width(node.left)
        left, right = range(count), range(count, count + tree.width(node.right))
        to_left = [t for t in terms if node.kind != "full" and _within(t, left)]
        to_right = [t for t in terms if node.kind == "inner" and _within(t, right)]
        above = [t for t in terms if t not in to_left and t not in to_right]
        residual = [] if node.residual is None else conjuncts(node.residual)
        for term in list(residual):
            if can_fail(term):
                continue
            if node.kind in ("inner", "semi") and _within(term, left):
                to_left.append(term)
                residual.remove(term)
            elif node.kind in ("inner", "semi", "left", "anti", "single") and _within(term, right):
                to_right.append(term)
                residual.remove(term)
        new_left = self.push(node.left, to_left)
        new_right = self.push(node.right, [tree.shift(t, -count) for t in to_right])
        rest = tree.all_of(residual) if residual else None
        return tree.filtered(replace(node, left=new_left, right=new_right, residual=rest), above)


def _within(term: Expr, columns: range) -> bool:
    """True where the term reads columns, and only these."""
    found = columns_of(term)
    return bool(found) and all(c in columns for c in found)


def _is_chain(node: Node) -> bool:
    """True for projections and filters of a table: sharing them saves nothing."""
    while isinstance(node, Project | Filter):
        node = node.input
    return not node.inputs
