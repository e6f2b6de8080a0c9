"""SQL types: one table that maps each to its Arrow type, its numpy type and its name in DuckDB.

A type is a small frozen value; `kind` decides how a column of it is held:

* "fixed": a numpy array, NULLs in a mask. Dates are days, times and timestamps microseconds,
  decimals of at most 18 digits are scaled int64.
* "wide": HUGEINT and decimals of more than 18 digits: a numpy array of int64 while every value
  fits, of Python integers otherwise. Exact either way.
* "arrow": text, binary, json, uuid, intervals and nested values: a pyarrow array.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa


@dataclass(frozen=True)
class SqlType:
    """A type such as BIGINT or DECIMAL(12,2).

    >>> decimal(12, 2).duck
    'DECIMAL(12,2)'
    >>> BIGINT.numpy.name, BIGINT.kind
    ('int64', 'fixed')
    """

    id: str
    width: int = 0
    scale: int = 0
    children: tuple[tuple[str, SqlType], ...] = ()  # LIST: one; MAP: key and value; STRUCT: fields
    # Derived once, because every operator asks for them on every tick.
    kind: str = field(init=False, compare=False, repr=False)
    numpy: np.dtype = field(init=False, compare=False, repr=False)
    arrow: pa.DataType = field(init=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        kind, dtype, arrow = _representation(self)
        object.__setattr__(self, "kind", kind)
        object.__setattr__(self, "numpy", np.dtype(dtype))
        object.__setattr__(self, "arrow", arrow)

    @property
    def duck(self) -> str:
        """The type's name as DuckDB reads it."""
        if self.id == "DECIMAL":
            return f"DECIMAL({self.width},{self.scale})"
        if self.id == "LIST":
            return f"{self.children[0][1].duck}[]"
        if self.id == "ARRAY":
            return f"{self.children[0][1].duck}[{self.width}]"
        if self.id == "MAP":
            return f"MAP({self.children[0][1].duck}, {self.children[1][1].duck})"
        if self.id == "STRUCT":
            fields = ", ".join(f'"{n.replace(chr(34), chr(34) * 2)}" {t.duck}' for n, t in self.children)
            return f"STRUCT({fields})"
        return self.id

    def __str__(self) -> str:
        return self.duck

    @property
    def is_integer(self) -> bool:
        return self.id in _INTEGERS or self.id == "HUGEINT"

    @property
    def is_float(self) -> bool:
        return self.id in ("FLOAT", "DOUBLE")

    @property
    def is_numeric(self) -> bool:
        return self.is_integer or self.is_float or self.id == "DECIMAL"

    @property
    def is_text(self) -> bool:
        return self.id in ("VARCHAR", "JSON", "UUID")


_INTEGERS = {
    "TINYINT": np.int8, "SMALLINT": np.int16, "INTEGER": np.int32, "BIGINT": np.int64,
    "UTINYINT": np.uint8, "USMALLINT": np.uint16, "UINTEGER": np.uint32, "UBIGINT": np.uint64,
}  # fmt: skip
_OTHER_FIXED = {
    "BOOLEAN": (np.bool_, pa.bool_()),
    "FLOAT": (np.float32, pa.float32()),
    "DOUBLE": (np.float64, pa.float64()),
    "DATE": (np.int32, pa.date32()),
    "TIME": (np.int64, pa.time64("us")),
    "TIMESTAMP": (np.int64, pa.timestamp("us")),
    "TIMESTAMP WITH TIME ZONE": (np.int64, pa.timestamp("us", tz="UTC")),
}
_ARROW = {
    "VARCHAR": pa.large_string(),
    "JSON": pa.large_string(),
    "UUID": pa.large_string(),
    "BLOB": pa.large_binary(),
    "INTERVAL": pa.month_day_nano_interval(),
    "NULL": pa.null(),
}


def _representation(t: SqlType) -> tuple[str, type[Any], pa.DataType]:
    if t.id in _INTEGERS:
        return "fixed", _INTEGERS[t.id], pa.from_numpy_dtype(_INTEGERS[t.id])
    if t.id in _OTHER_FIXED:
        dtype, arrow = _OTHER_FIXED[t.id]
        return "fixed", dtype, arrow
    if t.id == "DECIMAL":
        kind = "fixed" if t.width <= 18 else "wide"
        return kind, np.int64, pa.decimal128(t.width, t.scale)
    if t.id == "HUGEINT":
        return "wide", np.int64, pa.decimal128(38, 0)
    if t.id in _ARROW:
        return "arrow", object, _ARROW[t.id]
    if t.id in ("LIST", "ARRAY"):
        return "arrow", object, pa.large_list(t.children[0][1].arrow)
    if t.id == "MAP":
        return "arrow", object, pa.map_(t.children[0][1].arrow, t.children[1][1].arrow)
    if t.id == "STRUCT":
        return "arrow", object, pa.struct([pa.field(n, c.arrow) for n, c in t.children])
    raise ValueError(f"unknown type {t.id}")


BOOLEAN = SqlType("BOOLEAN")
TINYINT = SqlType("TINYINT")
SMALLINT = SqlType("SMALLINT")
INTEGER = SqlType("INTEGER")
BIGINT = SqlType("BIGINT")
UBIGINT = SqlType("UBIGINT")
HUGEINT = SqlType("HUGEINT")
FLOAT = SqlType("FLOAT")
DOUBLE = SqlType("DOUBLE")
DATE = SqlType("DATE")
TIME = SqlType("TIME")
TIMESTAMP = SqlType("TIMESTAMP")
TIMESTAMPTZ = SqlType("TIMESTAMP WITH TIME ZONE")
VARCHAR = SqlType("VARCHAR")
JSON = SqlType("JSON")
UUID = SqlType("UUID")
BLOB = SqlType("BLOB")
INTERVAL = SqlType("INTERVAL")
NULL = SqlType("NULL")

_BY_NAME = {
    t.id: t
    for t in (
        BOOLEAN, FLOAT, DOUBLE, DATE, TIME, TIMESTAMP, TIMESTAMPTZ, VARCHAR, JSON, UUID, BLOB,
        INTERVAL, HUGEINT, NULL, *(SqlType(name) for name in _INTEGERS),
    )
}  # fmt: skip


def by_name(name: str) -> SqlType | None:
    """The type without parameters of that name, or None."""
    return _BY_NAME.get(name)


def decimal(width: int, scale: int) -> SqlType:
    return SqlType("DECIMAL", width, scale)


def list_of(child: SqlType) -> SqlType:
    return SqlType("LIST", children=(("", child),))


def map_of(key: SqlType, value: SqlType) -> SqlType:
    return SqlType("MAP", children=(("key", key), ("value", value)))


def struct_of(fields: tuple[tuple[str, SqlType], ...]) -> SqlType:
    return SqlType("STRUCT", children=fields)


@dataclass(frozen=True)
class Schema:
    """Column names and types, in order."""

    names: tuple[str, ...]
    types: tuple[SqlType, ...]

    def __len__(self) -> int:
        return len(self.names)

    def arrow(self) -> pa.Schema:
        return pa.schema([pa.field(n, t.arrow) for n, t in zip(self.names, self.types, strict=True)])
