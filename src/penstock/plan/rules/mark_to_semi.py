"""A mark join whose mark is only tested is a semi join, or an anti join where no mark can be NULL."""

from __future__ import annotations

from penstock.plan import tree
from penstock.plan.expr import Call, Col, Const, Expr, conjuncts
from penstock.plan.joins import join, key_terms
from penstock.plan.nodes import Filter, Join, Node, identity
from penstock.zset.types import BOOLEAN


def mark_to_semi(root: Node) -> Node:
    """Filter(mark) over a mark join becomes a semi join, Filter(NOT mark) an anti join where it may."""
    return tree.transform_up(root, _change)


def _change(node: Node) -> Node:
    if not isinstance(node, Filter) or not isinstance(node.input, Join) or node.input.kind != "mark":
        return node
    marked = node.input
    mark = Col(BOOLEAN, tree.width(marked.left))
    terms = conjuncts(node.predicate)
    if mark in terms:
        value, kind = True, "semi"
    elif Call(BOOLEAN, "not", (mark,)) in terms and not marked.marks and marked.residual is None:
        value, kind = False, "anti"
    else:
        return node
    conditions: list[Expr] = [*key_terms(marked), *marked.marks]
    if marked.residual is not None:
        conditions.append(marked.residual)
    kept = join(kind, marked.left, marked.right, conditions)
    columns = [*identity(kept), Const(BOOLEAN, value)]
    left = [term for term in terms if term not in (mark, Call(BOOLEAN, "not", (mark,)))]
    return tree.project(tree.filtered(kept, [tree.substitute(t, columns) for t in left]), columns)
