"""A few rows as users get them, without making columns first: what `interchange.export` gives, or dicts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from penstock.native import kernels
from penstock.zset.few import Few, column_of
from penstock.zset.interchange import export, export_type
from penstock.zset.types import SqlType

# Of these types a tuple has what Arrow gives as a Python value.
_AS_IN_PYTHON = frozenset(
    ("TINYINT", "SMALLINT", "INTEGER", "BIGINT", "UTINYINT", "USMALLINT", "UINTEGER", "UBIGINT",
     "BOOLEAN", "DOUBLE", "VARCHAR")
)  # fmt: skip
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


def dicts_of_few(rows: Few, names: tuple[str, ...], weight: str) -> list[dict[str, Any]] | None:
    """What `to_pylist` gives for the record batch of these rows; None if there is a type of which it gives others.

    >>> from penstock.zset.types import BIGINT, DATE
    >>> dicts_of_few(Few((BIGINT,), [(1,), (None,)], [1, -1]), ("a",), "_weight")
    [{'a': 1, '_weight': 1}, {'a': None, '_weight': -1}]
    >>> dicts_of_few(Few((DATE,), [(1,)], [1]), ("a",), "_weight")
    """
    for type in rows.types:
        if type.id not in _AS_IN_PYTHON:
            return None
    found: list[dict[str, Any]]
    if kernels is not None:
        found = kernels.dicts(rows.rows, rows.counts, names, weight)
        return found
    found = []
    for row, count in zip(rows.rows, rows.counts, strict=True):
        one = dict(zip(names, row, strict=True))
        one[weight] = count
        found.append(one)
    return found


def _array(type: SqlType, values: Sequence[Any]) -> pa.Array:
    if type.kind == "arrow":
        return pa.array(values, export_type(type))
    if type.kind == "fixed" and type.id not in _OTHERWISE and None not in values:
        held = pa.py_buffer(np.array(values, type.numpy))
        return pa.Array.from_buffers(type.arrow, len(values), [None, held], 0)
    return export(column_of(type, values))
