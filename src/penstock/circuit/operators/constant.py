"""constant: rows that never change (VALUES, SELECT 1).

d constant = 0, and the rows themselves when the view is made
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from penstock.circuit.operator import Delta, Result, Stateless
from penstock.state.arrangement import Arrangement
from penstock.zset.column import concat, constant, empty
from penstock.zset.types import SqlType
from penstock.zset.zeros import places_of_zeros, unsigned_rows
from penstock.zset.zset import ZSet


class Constant(Stateless):
    """Rows that are there from the beginning.

    >>> from penstock.zset.types import BIGINT
    >>> Constant([BIGINT], [(1,), (None,)]).seed()
    ZSet([((1,), 1), ((None,), 1)])
    """

    name = "constant"

    def __init__(self, types: Sequence[SqlType], rows: Sequence[tuple[Any, ...]]) -> None:
        columns = tuple(
            concat([constant(t, row[i], 1) for row in rows]) if rows else empty(t)
            for i, t in enumerate(types)
        )
        self._rows = unsigned_rows(ZSet(columns, np.ones(len(rows), np.int64)), places_of_zeros(types))

    def seed(self) -> ZSet | None:
        return self._rows

    def step(self, deltas: Sequence[Delta], state: Sequence[Arrangement]) -> Result:
        return None, ()
