"""arrange: rows indexed by a key, for joins to read.

The output is the delta itself, sorted by the hash of its key; the state is the sum of all deltas.
Several operators, and several views, read one arrangement. Rows with a NULL in a key column that
compares with `=` can match nothing and are left out.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from penstock.circuit.operator import Delta, Recorded, Result
from penstock.state.arrangement import Arrangement
from penstock.state.batch import Layout, build
from penstock.state.laws import WEIGHT_SUM
from penstock.zset.types import SqlType
from penstock.zset.zset import ZSet


class Arrange(Recorded):
    """The delta as a batch, sorted by the hash of the key.

    >>> from penstock.zset.column import from_pylist
    >>> from penstock.zset.types import BIGINT
    >>> arrange = Arrange([BIGINT, BIGINT], key=[0], not_null=[0])
    >>> delta = ZSet((from_pylist(BIGINT, [1, None]), from_pylist(BIGINT, [10, 20])), np.array([1, 1]))
    >>> batch, appended = arrange.step([delta], [])
    >>> batch.zset(), appended[0] is batch
    (ZSet([((1, 10), 1)]), True)
    """

    name = "arrange"

    def __init__(
        self,
        types: Sequence[SqlType],
        key: Sequence[int],
        not_null: Sequence[int],
        columns: Sequence[int] | None = None,  # of the input, where not all in their order
        one_row: bool = False,  # the key is a primary key
    ) -> None:
        self.key = tuple(key)
        self.not_null = tuple(not_null)
        self._columns = None if columns is None else list(columns)
        self.layouts = (Layout(tuple(types), tuple(key), one_row=one_row),)
        self.routes = (self.key if columns is None else tuple(columns[k] for k in key),)

    def step(self, deltas: Sequence[Delta], state: Sequence[Arrangement]) -> Result:
        delta = deltas[0]
        assert isinstance(delta, ZSet)
        if self._columns is not None:
            delta = delta.select(self._columns).without_pairs()
            if not len(delta):
                return None, (None,)
        delta = without_nulls(delta, self.not_null)
        if not len(delta):
            return None, (None,)
        batch = build(self.layouts[0], delta.columns, (delta.weights,), cancel=False)
        return batch, (batch,)

    def seed(self) -> ZSet | None:
        return None

    def law(self) -> str:
        return WEIGHT_SUM.title


def without_nulls(delta: ZSet, positions: Sequence[int]) -> ZSet:
    """The rows with a value in all of these columns."""
    mask = null_free(delta, positions)
    return delta if mask is None else delta.filter(mask)


def null_free(delta: ZSet, positions: Sequence[int]) -> np.ndarray | None:
    """True for the rows with a value in all of these columns; None if that is every row."""
    mask = None
    for position in positions:
        valid = delta.columns[position].validity()
        if valid is not None:
            mask = valid if mask is None else mask & valid
    return None if mask is None or mask.all() else mask
