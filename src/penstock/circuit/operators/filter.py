"""filter: the rows for which a predicate is true.

d filter(A) = filter(dA)        linear, no state
"""

from __future__ import annotations

from collections.abc import Sequence

from penstock.circuit.operator import Delta, Result, Stateless
from penstock.evaluate.compile import compile_predicate
from penstock.plan.expr import Expr
from penstock.state.arrangement import Arrangement
from penstock.zset.zset import ZSet


class Filter(Stateless):
    """The delta's rows for which the predicate is true (not NULL).

    >>> import numpy as np
    >>> from penstock.plan.expr import Call, Col, Const
    >>> from penstock.zset.column import from_pylist
    >>> from penstock.zset.types import BIGINT, BOOLEAN
    >>> large = Call(BOOLEAN, ">", (Col(BIGINT, 0), Const(BIGINT, 2)))
    >>> delta = ZSet((from_pylist(BIGINT, [1, 3, None]),), np.array([1, -1, 1]))
    >>> Filter(large, ["a"]).step([delta], [])[0]
    ZSet([((3,), -1)])
    """

    name = "filter"

    def __init__(self, predicate: Expr, names: Sequence[str]) -> None:
        self._passes = compile_predicate(predicate, names=names)

    def step(self, deltas: Sequence[Delta], state: Sequence[Arrangement]) -> Result:
        delta = deltas[0]
        assert isinstance(delta, ZSet)
        mask = self._passes(delta.columns, len(delta))
        if mask.all():
            return delta, ()
        return delta.filter(mask), ()
