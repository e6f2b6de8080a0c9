"""map: each row becomes one row of expressions over it.

d map(A) = map(dA)        linear, no state
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from operator import itemgetter

from penstock.circuit.operator import Delta, Result, Stateless
from penstock.evaluate.compile import compile_expr
from penstock.plan.expr import Col, Expr
from penstock.state.arrangement import Arrangement
from penstock.zset.few import Few, Row
from penstock.zset.zset import ZSet


class Map(Stateless):
    """Expressions over the columns of each row.

    >>> import numpy as np
    >>> from penstock.plan.expr import Call
    >>> from penstock.zset.column import from_pylist
    >>> from penstock.zset.types import BIGINT
    >>> square = Call(BIGINT, "*", (Col(BIGINT, 0), Col(BIGINT, 0)))
    >>> delta = ZSet((from_pylist(BIGINT, [3, 4]),), np.array([1, -1]))
    >>> Map([square, Col(BIGINT, 0)], ["a"]).step([delta], [])[0]
    ZSet([((9, 3), 1), ((16, 4), -1)])
    """

    name = "map"

    def __init__(self, exprs: Sequence[Expr], names: Sequence[str]) -> None:
        columns = [e.index for e in exprs if isinstance(e, Col)]
        self._positions = columns if len(columns) == len(exprs) else None
        self._is_prefix = self._positions == list(range(len(exprs)))
        self._types = tuple([e.type for e in exprs])
        self._pick = _picker(columns)
        self._compute = None if self._positions is not None else [compile_expr(e, names=names) for e in exprs]

    def passes_on(self, width: int) -> bool:
        return self._is_prefix and width == len(self._types)  # all columns as they are: under other names

    def step(self, deltas: Sequence[Delta], state: Sequence[Arrangement]) -> Result:
        delta = deltas[0]
        if self._compute is None:
            if delta.__class__ is Few and len(delta.rows) == 1:
                return Few(self._types, [self._pick(delta.rows[0])], delta.counts), ()
            assert isinstance(delta, ZSet)
            positions = self._positions or ()
            if self.passes_on(delta.width):
                return delta, ()
            chosen = delta.select(positions)
            return (chosen if len(chosen) == 1 else chosen.without_pairs()), ()
        assert isinstance(delta, ZSet)
        columns, count = delta.columns, len(delta)
        return ZSet(tuple([f(columns, count) for f in self._compute]), delta.weights), ()


def _picker(positions: Sequence[int]) -> Callable[[Row], Row]:
    """These values of a row, as a row."""
    if len(positions) > 1:
        return itemgetter(*positions)
    if not positions:
        return lambda row: ()
    only = positions[0]
    return lambda row: (row[only],)
