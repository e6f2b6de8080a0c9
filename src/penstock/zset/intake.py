"""Arrow columns of the usual types into columns of ours, all in one call of compiled code."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from penstock.native import kernels
from penstock.zset.column import Column
from penstock.zset.made_text import made
from penstock.zset.types import SqlType

# How compiled code takes a column (the same numbers are in native/intake.c).
_COPY, _DECIMAL, _TEXT32, _TEXT64, _BITS = 1, 2, 3, 4, 5
_TEXTS = {
    (pa.string(), "VARCHAR"): _TEXT32, (pa.large_string(), "VARCHAR"): _TEXT64,
    (pa.binary(), "BLOB"): _TEXT32, (pa.large_binary(), "BLOB"): _TEXT64,
}  # fmt: skip


Step = tuple[
    int, int, np.dtype, int
]  # the place of a column, how it is taken, what it becomes, a bound of its values


class Intake:
    """Some of the columns of deltas that have one Arrow schema.

    >>> from penstock.zset.types import BIGINT, VARCHAR
    >>> data = pa.table({"a": [1, None], "b": ["x", "yz"]})
    >>> intake = Intake(data.schema, [(1, VARCHAR), (0, BIGINT)])
    >>> intake.take(data) if intake.knows == {0, 1} else "not compiled"
    {1: Column(VARCHAR, ['x', 'yz']), 0: Column(BIGINT, [1, None])}
    """

    def __init__(self, given: pa.Schema, columns: Sequence[tuple[int, SqlType]]) -> None:
        steps = [(type, step(place, given.field(place).type, type)) for place, type in columns]
        self._types = [type for type, found in steps if found is not None]
        self._steps = tuple([found for _, found in steps if found is not None])
        self.knows = frozenset(found[0] for found in self._steps)

    def take(self, data: pa.Table | pa.RecordBatch) -> dict[int, Column]:
        """The columns that are known, by their places, in memory of their own; none if a value does not fit."""
        found = kernels.intake(data.__arrow_c_stream__(), self._steps) if self._steps else None
        if found is None:
            return {}
        count = data.num_rows
        each = zip(self._steps, self._types, found, strict=True)
        return {step[0]: made(type, count, parts) for step, type, parts in each}


def step(place: int, given: pa.DataType, type: SqlType) -> Step | None:
    """How to take an Arrow column as one of the SQL type; None where only Arrow's casts know.

    >>> from penstock.zset.types import BIGINT
    >>> step(0, pa.int32(), BIGINT) is None
    True
    """
    if kernels is None:
        return None
    text = _TEXTS.get((given, type.id))
    if text is not None:
        return place, text, type.numpy, 0
    if pa.types.is_decimal128(given) and type.id == "DECIMAL" and given.scale == type.scale:
        narrows = given.precision > type.width and type.width <= 18
        return place, _DECIMAL, type.numpy, 10**type.width if narrows else 0
    if given != type.arrow or type.kind != "fixed" or type.id == "DECIMAL":
        return None
    return place, _BITS if type.id == "BOOLEAN" else _COPY, type.numpy, 0
