"""The index of a pandas frame: rows' labels, which are no columns unless the table has them.

A frame comes as Arrow, with its index among the columns; the metadata says which they are. So pandas itself is not
needed here.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa


def without_index(table: pa.Table, wanted: Sequence[str]) -> pa.Table:
    """The frame's columns, and those levels of its index that `wanted` names and no column does.

    >>> about = {"index_columns": [{"kind": "range", "name": "id", "start": 5, "stop": 9, "step": 2}]}
    >>> rows = pa.table({"n": [1, 2]}).replace_schema_metadata({"pandas": json.dumps(about)})
    >>> without_index(rows, ["n"]).to_pylist(), without_index(rows, ["ID", "n"]).to_pylist()
    ([{'n': 1}, {'n': 2}], [{'n': 1, 'id': 5}, {'n': 2, 'id': 7}])
    """
    levels = _levels(table.schema.metadata)
    if not levels:
        return table
    fields = {level for level in levels if isinstance(level, str)}
    own = {name.lower() for name in table.column_names if name not in fields}
    missing = {name.lower() for name in wanted} - own
    kept = table.select([n for n in table.column_names if n not in fields or n.lower() in missing])
    for level in levels:  # an index that counts is not stored, only its bounds
        name = level["name"] if isinstance(level, dict) else None
        if isinstance(name, str) and name.lower() in missing:
            numbers = np.arange(level["start"], level["stop"], level["step"], dtype=np.int64)
            kept = kept.append_column(name, pa.array(numbers))
    return kept


def _levels(metadata: dict[bytes, bytes] | None) -> list[Any]:
    """The names of the columns that are the index, or its bounds if it counts; none if it is no frame of pandas."""
    about = (metadata or {}).get(b"pandas")
    return list(json.loads(about).get("index_columns", ())) if about else []
