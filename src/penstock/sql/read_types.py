"""Types and constants as DuckDB writes them in a serialised plan."""

from __future__ import annotations

import math
import re
import uuid
from typing import Any

from penstock.base.errors import NotMaintainable
from penstock.zset import types as t
from penstock.zset.types import SqlType

Json = dict[str, Any]


class Unreadable(Exception):
    """A plan that is not as this reader expects it: another optimizer setting may give a better one."""


def read_type(item: Json) -> SqlType:
    """The type that a plan names.

    >>> read_type({"id": "LIST", "type_info": {"child_type": {"id": "BIGINT", "type_info": None}}}).duck
    'BIGINT[]'
    """
    name, info = item["id"], item.get("type_info") or {}
    if info.get("collation"):
        raise NotMaintainable(f"the collation {info['collation']}", hint="Compare lower(x) instead.")
    if name == "VARCHAR" and info.get("alias") == "JSON":
        return t.JSON
    if info.get("alias") and name not in _NESTED:
        raise NotMaintainable(f"the type {info['alias']}", hint="Cast it to a plain type.")
    if name == "DECIMAL":
        return t.decimal(info["width"], info["scale"])
    if name in _NESTED:
        return _nested(name, info)
    if name in _LITERALS:
        return _LITERALS[name]
    found = t.by_name(name)
    if found is None:
        raise NotMaintainable(f"the type {name}", hint="Cast it to a type that tables can have.")
    return found


_NESTED = ("LIST", "ARRAY", "MAP", "STRUCT", "TUPLE")
_LITERALS = {"STRING_LITERAL": t.VARCHAR, "INTEGER_LITERAL": t.INTEGER, '"NULL"': t.NULL, "SQLNULL": t.NULL}


def _nested(name: str, info: Json) -> SqlType:
    if name == "LIST":
        return t.list_of(read_type(info["child_type"]))
    if name == "ARRAY":
        return SqlType("ARRAY", width=info["size"], children=(("", read_type(info["child_type"])),))
    if name == "MAP":
        key, value = info["child_type"]["type_info"]["child_types"]
        return t.map_of(read_type(key["second"]), read_type(value["second"]))
    fields = [(f["first"], read_type(f["second"])) for f in info["child_types"]]
    if name == "TUPLE":  # ROW(a, b): a struct whose fields have no names
        fields = [(f"v{i}", type) for i, (_, type) in enumerate(fields, 1)]
    return t.struct_of(tuple(fields))


def read_value(item: Json) -> tuple[SqlType, Any]:
    """A constant: its type, and its value in the form that `plan.expr.Const` holds."""
    type = read_type(item["type"])
    value = _value(type, item)
    if item["type"]["id"] == "INTEGER_LITERAL" and not -(2**31) <= value < 2**31:
        type = t.BIGINT
    return type, value


def _value(type: SqlType, item: Json) -> Any:
    if item.get("is_null") or "value" not in item:
        return None
    value = item["value"]
    if type.id == "INTERVAL":
        return value["months"], value["days"], value["micros"]
    if type.id == "UUID":
        return str(uuid.UUID(int=(_wide(value) ^ (1 << 127)) & ((1 << 128) - 1)))
    if type.id == "BLOB":
        return _blob(value)
    if type.is_float:
        return _float(value)
    if type.id in ("LIST", "ARRAY"):
        return tuple(_value(type.children[0][1], child) for child in value["children"])
    if type.id == "STRUCT":
        pairs = zip(type.children, value["children"], strict=True)
        return tuple(_value(child_type, child) for (_, child_type), child in pairs)
    if type.id == "MAP":
        entry = t.struct_of(type.children)
        return tuple(_value(entry, child) for child in value["children"])
    return _wide(value) if isinstance(value, dict) else value


def _wide(value: Json) -> int:
    """A 128-bit integer from its halves."""
    return (int(value["upper"]) << 64) | int(value["lower"])


def _float(value: Any) -> float:
    return math.nan if value is None else float(value)


def _blob(text: str) -> bytes:
    r"""Bytes from DuckDB's text for them.

    >>> _blob(r"a\x00\x5C")
    b'a\x00\\'
    """
    parts = re.findall(r"\\x[0-9A-Fa-f]{2}|[^\\]", text, re.DOTALL)
    return b"".join(bytes([int(p[2:], 16)]) if len(p) == 4 else p.encode() for p in parts)
