"""SQL types and Postgres's: one table, which says the number (OID) that is announced for each of ours."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache

from penstock.base.errors import TypeMismatch


@dataclass(frozen=True, eq=False)  # there is one of each, and tables by type are asked for every value
class PgType:
    """A type of Postgres: its name, its number, that of arrays of it, the bytes of a value (-1: they vary)."""

    name: str
    oid: int
    array_oid: int
    size: int
    duck: str  # what a parameter of this type is in DuckDB


BOOL = PgType("bool", 16, 1000, 1, "BOOLEAN")
INT2 = PgType("int2", 21, 1005, 2, "SMALLINT")
INT4 = PgType("int4", 23, 1007, 4, "INTEGER")
INT8 = PgType("int8", 20, 1016, 8, "BIGINT")
FLOAT4 = PgType("float4", 700, 1021, 4, "FLOAT")
FLOAT8 = PgType("float8", 701, 1022, 8, "DOUBLE")
NUMERIC = PgType("numeric", 1700, 1231, -1, "DECIMAL")
TEXT = PgType("text", 25, 1009, -1, "VARCHAR")
BYTEA = PgType("bytea", 17, 1001, -1, "BLOB")
DATE = PgType("date", 1082, 1182, 4, "DATE")
TIME = PgType("time", 1083, 1183, 8, "TIME")
TIMESTAMP = PgType("timestamp", 1114, 1115, 8, "TIMESTAMP")
TIMESTAMPTZ = PgType("timestamptz", 1184, 1185, 8, "TIMESTAMP WITH TIME ZONE")
INTERVAL = PgType("interval", 1186, 1187, 16, "INTERVAL")
UUID = PgType("uuid", 2950, 2951, 16, "UUID")
JSON = PgType("json", 114, 199, -1, "JSON")

# Types that clients send and we never announce.
JSONB = PgType("jsonb", 3802, 3807, -1, "JSON")
VARCHAR = PgType("varchar", 1043, 1015, -1, "VARCHAR")
BPCHAR = PgType("bpchar", 1042, 1014, -1, "VARCHAR")
NAME = PgType("name", 19, 1003, 64, "VARCHAR")

TYPES = (
    BOOL, INT2, INT4, INT8, FLOAT4, FLOAT8, NUMERIC, TEXT, BYTEA, DATE, TIME, TIMESTAMP, TIMESTAMPTZ, INTERVAL, UUID,
    JSON, JSONB, VARCHAR, BPCHAR, NAME,
)  # fmt: skip
_BY_OID = {t.oid: t for t in TYPES}
_BY_ARRAY_OID = {t.array_oid: t for t in TYPES}

# DuckDB's names. Unsigned types and HUGEINT have none of their own in Postgres: the next that holds them all.
_BY_DUCK = {
    "BOOLEAN": BOOL, "TINYINT": INT2, "SMALLINT": INT2, "INTEGER": INT4, "BIGINT": INT8, "UTINYINT": INT2,
    "USMALLINT": INT4, "UINTEGER": INT8, "UBIGINT": NUMERIC, "HUGEINT": NUMERIC, "UHUGEINT": NUMERIC,
    "FLOAT": FLOAT4, "DOUBLE": FLOAT8, "VARCHAR": TEXT, "BLOB": BYTEA, "DATE": DATE, "TIME": TIME,
    "TIMESTAMP": TIMESTAMP, "TIMESTAMP_S": TIMESTAMP, "TIMESTAMP_MS": TIMESTAMP, "TIMESTAMP_NS": TIMESTAMP,
    "TIMESTAMP WITH TIME ZONE": TIMESTAMPTZ, "INTERVAL": INTERVAL, "UUID": UUID, "JSON": JSON, '"NULL"': TEXT,
    "NULL": TEXT,
}  # fmt: skip
_NESTED = ("STRUCT(", "MAP(")
_DECIMAL = re.compile(r"DECIMAL\((\d+),\s*(\d+)\)")
_BRACKETS = re.compile(r"(.*)\[\d*\]", re.DOTALL)


@dataclass(frozen=True)
class ColumnType:
    """The type of a column: `depth` 0 for a value, 1 for a list of values, 2 for a list of lists."""

    pg: PgType
    depth: int = 0
    modifier: int = -1

    @property
    def oid(self) -> int:
        return self.pg.array_oid if self.depth else self.pg.oid

    @property
    def size(self) -> int:
        return -1 if self.depth else self.pg.size


@lru_cache(1_024)  # each new text of a query asks for its columns
def column_type(duck: str) -> ColumnType:
    """The Postgres type for one of DuckDB's names.

    >>> column_type("DECIMAL(12,2)[]").oid, column_type("HUGEINT").pg.name, column_type("STRUCT(a INT)").pg.name
    (1231, 'numeric', 'json')
    """
    depth = 0
    while brackets := _BRACKETS.fullmatch(duck):
        duck, depth = brackets[1], depth + 1
    if duck.startswith(_NESTED):
        return ColumnType(JSON, depth)
    if duck.startswith("ENUM("):
        return ColumnType(TEXT, depth)
    decimal = _DECIMAL.fullmatch(duck)
    if decimal:
        return ColumnType(NUMERIC, depth, ((int(decimal[1]) << 16) | int(decimal[2])) + 4)
    if duck not in _BY_DUCK:
        raise TypeMismatch(f"values of the type {duck} cannot be sent", hint="Cast the column to TEXT.")
    return ColumnType(_BY_DUCK[duck], depth)


def parameter_type(oid: int) -> ColumnType | None:
    """The type that a client means by a number; None for 0, and for those that are not here."""
    if oid in _BY_OID:
        return ColumnType(_BY_OID[oid])
    if oid in _BY_ARRAY_OID:
        return ColumnType(_BY_ARRAY_OID[oid], 1)
    return None
