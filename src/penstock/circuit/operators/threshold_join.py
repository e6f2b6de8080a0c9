"""threshold_join: the rows of A that compare with the one row of B, as in x > (SELECT avg(x) FROM ...).

    d threshold(A, B) = dA compared with B_new
                      + A_old between B_old and B_new, of which the comparison came out differently

A is kept in the order of the compared value, so a new bound reads only the rows between it and the
old one. State: A's rows in that order, and B's bound, as bags whose weights add.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Sequence

import numpy as np

from penstock.circuit.operator import Delta, Recorded, Result
from penstock.circuit.operators.arrange import without_nulls
from penstock.evaluate.compile import compile_expr, compile_predicate
from penstock.kernels.order import OrderKey
from penstock.plan.expr import Call, Col, Expr
from penstock.state.arrangement import Arrangement
from penstock.state.batch import Batch, Layout, build, merge
from penstock.state.laws import WEIGHT_SUM
from penstock.state.walk import SortKey, sort_key
from penstock.zset.column import Column
from penstock.zset.types import BOOLEAN, SqlType
from penstock.zset.zset import ZSet, union

_FIRST_NULL: SortKey = ((1, 0),)  # NULLs stand last, and match nothing


class ThresholdJoin(Recorded):
    """Inputs: A's delta, B's delta. B never has more than one row.

    >>> from penstock.zset.column import from_pylist
    >>> from penstock.zset.types import BIGINT
    >>> above = ThresholdJoin([BIGINT], Col(BIGINT, 0), ">", Col(BIGINT, 0), ["a"], ["b"])
    >>> state = [Arrangement("", layout) for layout in above.layouts]
    >>> a = ZSet((from_pylist(BIGINT, [1, 5, 9]),), np.array([1, 1, 1]))
    >>> out, appended = above.step([a, ZSet((from_pylist(BIGINT, [4]),), np.array([1]))], state)
    >>> for arrangement, batch in zip(state, appended):
    ...     arrangement.append(batch)
    >>> out, above.step([None, ZSet((from_pylist(BIGINT, [4, 6]),), np.array([-1, 1]))], state)[0]
    (ZSet([((5,), 1), ((9,), 1)]), ZSet([((5,), -1)]))
    """

    name = "threshold_join"

    def __init__(
        self,
        types: Sequence[SqlType],  # of A
        value: Expr,  # over A's columns
        comparison: str,  # <, <=, >, >=
        bound: Expr,  # over B's columns
        left_names: Sequence[str],
        right_names: Sequence[str],
    ) -> None:
        self._width = len(types)
        self._value = compile_expr(value, names=left_names)
        self._bound = compile_expr(bound, names=right_names)
        compared = Call(BOOLEAN, comparison, (Col(value.type, 0), Col(value.type, 1)))
        self._holds = compile_predicate(compared)
        self._upwards = comparison in (">", ">=")
        rows = Layout((*types, value.type), (), (OrderKey(self._width),))
        self.layouts = (rows, Layout((value.type,), (), unique=True))
        self.routes = ((), ())

    def step(self, deltas: Sequence[Delta], state: Sequence[Arrangement]) -> Result:
        left, right = deltas
        rows_state, bound_state = state
        old = _only_row(merge(self.layouts[1], bound_state.batches)) if bound_state.batches else None
        new, change = old, None
        if right is not None:
            assert isinstance(right, ZSet)
            bounds = self._bound(right.columns, len(right))
            change = build(self.layouts[1], (bounds,), (right.weights,))
            new = _only_row(merge(self.layouts[1], [*bound_state.batches, change]))
        parts: list[ZSet] = []
        if change is not None and len(change):
            parts += [self._moved(batch, old, new) for batch in rows_state.batches]
        batch = None
        if left is not None:
            assert isinstance(left, ZSet)
            rows = ZSet((*left.columns, self._value(left.columns, len(left))), left.weights)
            rows = without_nulls(rows, (self._width,))
            parts.append(rows.filter(self._compared(rows.columns[self._width], new)))
            batch = build(self.layouts[0], rows.columns, (rows.weights,), cancel=False)
        parts = [part for part in parts if len(part)]
        out = union(parts).select(range(self._width)) if parts else None
        return out, (batch, change)

    def _moved(self, batch: Batch, old: Column | None, new: Column | None) -> ZSet:
        """The rows of a batch for which the comparison comes out differently with the new bound."""
        start, stop = self._between(batch, old, new)
        rows = batch.slice(start, stop).zset()
        values = rows.columns[self._width]
        now, before = (self._compared(values, b).astype(np.int64) for b in (new, old))
        changed = np.flatnonzero(now != before)
        return ZSet(rows.columns, rows.weights * (now - before)).take(changed)

    def _between(self, batch: Batch, old: Column | None, new: Column | None) -> tuple[int, int]:
        """The rows that only one of the two bounds can let through. No bound lets nothing through."""
        bounds = [_sort_key(b)(0) for b in (old, new) if b is not None and not b.is_null()[0]]
        key, count = _sort_key(batch.columns[self._width]), len(batch)
        start, stop = 0, 0
        if bounds:
            both = len(bounds) == 2
            if both or self._upwards:
                start = bisect_left(range(count), min(bounds), key=key)
            if both or not self._upwards:
                stop = bisect_right(range(count), max(bounds), key=key)
            else:
                stop = bisect_left(range(count), _FIRST_NULL, key=key)
        return start, stop

    def _compared(self, values: Column, bound: Column | None) -> np.ndarray:
        count = len(values)
        if bound is None or not count:
            return np.zeros(count, np.bool_)
        return self._holds((values, bound.take(np.zeros(count, np.int64))), count)

    def seed(self) -> ZSet | None:
        return None

    def law(self) -> str:
        return WEIGHT_SUM.title


def _sort_key(column: Column) -> Callable[[int], SortKey]:
    return sort_key([column], [OrderKey(0)])


def _only_row(bounds: Batch) -> Column | None:
    """The bound; None where B is empty."""
    if not len(bounds):
        return None
    assert bounds.weights.tolist() == [1], "a global aggregate has one row"
    return bounds.columns[0]
