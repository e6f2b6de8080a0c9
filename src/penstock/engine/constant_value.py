"""The value of a constant expression, as a plan holds it."""

from __future__ import annotations

from typing import Any

from penstock.zset.column import Column, from_pylist
from penstock.zset.types import SqlType


def constant_value(column: Column) -> Any:
    """The first value of a column, in the form of Const.value."""
    if column.is_null()[0]:
        return None
    if column.type.kind != "arrow":
        return column.values[0].item() if hasattr(column.values[0], "item") else column.values[0]
    return _held(column.type, column.values[0].as_py())


def _held(type: SqlType, value: Any) -> Any:
    """What Const.value holds for a value as pyarrow gives it: also inside nested ones."""
    if value is None:
        return None
    if type.id == "INTERVAL":
        return (value.months, value.days, value.nanoseconds // 1000)
    if type.id in ("LIST", "ARRAY"):
        return tuple(_held(type.children[0][1], v) for v in value)
    if type.id == "STRUCT":
        return tuple(_held(t, value[name]) for name, t in type.children)
    if type.id == "MAP":
        (_, key), (_, item) = type.children
        return tuple((_held(key, k), _held(item, v)) for k, v in value)
    return value if type.kind == "arrow" else constant_value(from_pylist(type, [value]))
