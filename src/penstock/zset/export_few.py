"""Tuples to Arrow: what `interchange.export` gives for the columns of a few rows, without making columns first."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from penstock.zset.few import Few, column_of
from penstock.zset.interchange import export, export_type
from penstock.zset.types import SqlType

_OTHERWISE = frozenset(("BOOLEAN", "DECIMAL"))  # fixed, but not held as in Arrow


def export_few(rows: Few) -> list[pa.Array]:
    """The columns as users get them.

    >>> from penstock.zset.types import BIGINT, VARCHAR
    >>> [array.to_pylist() for array in export_few(Few((BIGINT, VARCHAR), [(1, "a"), (None, "b")], [1, 1]))]
    [[1, None], ['a', 'b']]
    """
    if not rows.rows:
        return [export(column) for column in rows.columns]
    columns = zip(*rows.rows, strict=True)
    return [_array(type, values) for type, values in zip(rows.types, columns, strict=True)]


def _array(type: SqlType, values: Sequence[Any]) -> pa.Array:
    if type.kind == "arrow":
        return pa.array(values, export_type(type))
    if type.kind == "fixed" and type.id not in _OTHERWISE and None not in values:
        held = pa.py_buffer(np.array(values, type.numpy))
        return pa.Array.from_buffers(type.arrow, len(values), [None, held], 0)
    return export(column_of(type, values))
