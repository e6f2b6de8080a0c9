"""Texts that users hand to tick(): whether they are what their column's type says."""

from __future__ import annotations

import json
import uuid

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.base.limits import FEW_ROWS_MAX
from penstock.evaluate.compile import compile_expr
from penstock.plan.expr import Call, Col
from penstock.zset.column import Column
from penstock.zset.types import BOOLEAN, VARCHAR

_UUID = "^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$"
_COPIED_BYTES_MAX = 1 << 16  # up to here Python's own test is faster, copy and all
_IS_JSON = compile_expr(Call(BOOLEAN, "json_valid", (Col(VARCHAR, 0),)))


def text_of_type(column: Column) -> Column:
    """UUIDs and JSON are held as text, but not every text is one. Raises ValueError if one is none.

    >>> from penstock.zset.column import from_pylist
    >>> from penstock.zset.types import UUID
    >>> text_of_type(from_pylist(UUID, ["{00000000-0000-0000-0000-00000000000A}", None]))
    Column(UUID, ['00000000-0000-0000-0000-00000000000a', None])
    """
    if column.type.id == "UUID":
        return _written_alike(column)
    if column.type.id == "JSON":
        _check_json(column)
    return column


def _written_alike(column: Column) -> Column:
    """UUIDs as DuckDB writes them: equal ones are the same text."""
    if pc.all(pc.match_substring_regex(column.values, _UUID)).as_py() is not False:
        return column
    texts = [None if v is None else str(uuid.UUID(v)) for v in column.values.to_pylist()]
    return Column(column.type, pa.array(texts, column.type.arrow))


def _check_json(column: Column) -> None:
    if len(column) <= FEW_ROWS_MAX and all(map(_is_plain_json, column.values.to_pylist())):
        return  # asking DuckDB takes longer than the tick
    found = _IS_JSON([Column(VARCHAR, column.values)], len(column))
    if not (found.values | found.is_null()).all():
        raise ValueError("malformed JSON")


def _is_plain_json(text: str | None) -> bool:
    """Whether Python takes it for JSON; then DuckDB does too, unless it escapes half of a surrogate pair."""
    if text is None:
        return True
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        return False
    return "\\u" not in text


def check_unicode(column: Column) -> None:
    """Raise ArrowInvalid if a text is none: Arrow does not look, and whoever reads the row later could not."""
    if column.type.id == "BLOB":
        return
    if column.type.is_text and (
        _is_ascii(column.values) if column.parts is None else column.parts[1].isascii()
    ):
        return
    column.values.validate(full=True)


def _is_ascii(texts: pa.Array) -> bool:
    """Whether all bytes are ASCII, as they mostly are: a fraction of what it takes to look at each text."""
    _, offsets, data = texts.buffers()
    if not len(texts) or not data:
        return True
    if data.size <= _COPIED_BYTES_MAX:
        return bool(data.to_pybytes().isascii())
    ends = np.frombuffer(offsets, np.int64, texts.offset + len(texts) + 1)
    return bool(np.frombuffer(data, np.int8)[ends[texts.offset] : ends[-1]].min(initial=0) >= 0)
