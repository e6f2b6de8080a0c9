"""Expressions compiled to closures, once, to be run on the rows of every delta."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from penstock.evaluate.fallback import compile_fallback
from penstock.evaluate.forms import Eval, spread
from penstock.evaluate.functions import FUNCTIONS
from penstock.evaluate.render import readable
from penstock.plan.expr import Call, Col, Const, Expr, walk
from penstock.zset.column import Column, constant
from penstock.zset.types import BOOLEAN
from penstock.zset.zeros import may_have_zeros, unsigned

Predicate = Callable[[Sequence[Column], int], np.ndarray]


def compile_expr(expr: Expr, names: Sequence[str] | None = None) -> Eval:
    """A function of the input columns and their row count that gives the expression's column.

    `names` are the columns' names as messages show them.

    >>> from penstock.zset.column import from_pylist
    >>> from penstock.zset.types import BIGINT
    >>> twice = compile_expr(Call(BIGINT, "*", (Col(BIGINT, 0), Const(BIGINT, 2))))
    >>> twice([from_pylist(BIGINT, [1, None, 3])], 3)
    Column(BIGINT, [2, None, 6])
    """
    compiled = Compilation(names).compile(expr)
    if isinstance(expr, Col):
        return compiled
    if may_have_zeros(expr.type):
        signed = compiled
        compiled = lambda columns, count: unsigned(signed(columns, count))  # noqa: E731
    if not any(e.type.is_float for e in walk(expr)):

        def run(columns: Sequence[Column], count: int) -> Column:
            result = compiled(columns, count)
            return result if len(result.values) == count else spread(result, count)

        return run

    def run_quietly(columns: Sequence[Column], count: int) -> Column:
        with np.errstate(all="ignore"):  # infinities and NaN are values like others
            result = compiled(columns, count)
        return result if len(result.values) == count else spread(result, count)

    return run_quietly


def compile_predicate(expr: Expr, names: Sequence[str] | None = None) -> Predicate:
    """A function that gives a mask: True where the expression is TRUE, not where it is NULL.

    >>> from penstock.zset.column import from_pylist
    >>> from penstock.zset.types import BIGINT
    >>> positive = compile_predicate(Call(BOOLEAN, ">", (Col(BIGINT, 0), Const(BIGINT, 0))))
    >>> positive([from_pylist(BIGINT, [1, None, -3])], 3)
    array([ True, False, False])
    """
    if expr.type != BOOLEAN:  # WHERE NULL
        expr = Call(BOOLEAN, "cast", (expr,))
    compiled = compile_expr(expr, names)
    return lambda columns, count: compiled(columns, count).values  # the value under a NULL is False


class Compilation:
    """One expression on its way to closures: the `forms.Compiler` that builders see."""

    def __init__(self, names: Sequence[str] | None = None) -> None:
        self.names = names

    def compile(self, expr: Expr) -> Eval:
        if isinstance(expr, Col):
            index = expr.index
            return lambda columns, count: columns[index]
        if isinstance(expr, Const):
            one = constant(expr.type, expr.value, 1)
            return lambda columns, count: one
        assert isinstance(expr, Call)
        function = FUNCTIONS.get(expr.name)
        compiled = function.build(expr, self) if function is not None else None
        return self.duck(expr) if compiled is None else compiled

    def duck(self, expr: Expr) -> Eval:
        return compile_fallback(expr, lambda: readable(expr, self.names))

    def total(self, expr: Expr) -> bool:
        if not isinstance(expr, Call):
            return True
        function = FUNCTIONS.get(expr.name)
        if function is None:
            return False
        total = function.total if isinstance(function.total, bool) else function.total(expr)
        return total and all(self.total(a) for a in expr.args)

    def text(self, expr: Expr) -> str:
        return readable(expr, self.names)
