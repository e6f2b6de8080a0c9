"""(a AND p) OR (a AND q) becomes a AND (p OR q): an equality common to all arms can then be a join key."""

from __future__ import annotations

from dataclasses import replace

from penstock.plan import tree
from penstock.plan.expr import Call, Expr, conjuncts
from penstock.plan.nodes import Filter, Join, Node
from penstock.zset.types import BOOLEAN


def factor_disjunctions(root: Node) -> Node:
    """Predicates with what all arms of an OR share taken out of it."""
    return tree.transform_up(root, _factor)


def _factor(node: Node) -> Node:
    if isinstance(node, Filter):
        return Filter(node.input, factored(node.predicate))
    if isinstance(node, Join) and node.residual is not None:
        return replace(node, residual=factored(node.residual))
    return node


def factored(predicate: Expr) -> Expr:
    """The predicate with common factors outside."""
    return tree.all_of([part for term in conjuncts(predicate) for part in _parts(term)])


def _parts(term: Expr) -> list[Expr]:
    if not isinstance(term, Call) or term.name != "or":
        return [term]
    arms = [conjuncts(arm) for arm in disjuncts(term)]
    common = [part for part in dict.fromkeys(arms[0]) if all(part in arm for arm in arms[1:])]
    if not common:
        return [term]
    rests = [[part for part in arm if part not in common] for arm in arms]
    if not all(rests):  # one arm is nothing but the common part: a OR (a AND q) is a
        return common
    return [*common, Call(BOOLEAN, "or", tuple(map(tree.all_of, rests)))]


def disjuncts(expr: Expr) -> list[Expr]:
    """The arms of a disjunction: `a OR (b OR c)` is [a, b, c]."""
    if isinstance(expr, Call) and expr.name == "or":
        return [arm for arg in expr.args for arm in disjuncts(arg)]
    return [expr]
