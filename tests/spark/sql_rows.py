"""Random rows for the comparison with Spark SQL: every type, NULLs, negative and repeated values."""

from __future__ import annotations

import random
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any

import pyarrow as pa

# Column, its type in Spark SQL, its type in Arrow. The rows are made for these.
T = (
    ("id", "INT", pa.int32()), ("i", "INT", pa.int32()), ("i_nz", "INT", pa.int32()), ("b", "BIGINT", pa.int64()),
    ("sm", "SMALLINT", pa.int16()), ("sm_nz", "SMALLINT", pa.int16()), ("ti", "TINYINT", pa.int8()),
    ("d", "DOUBLE", pa.float64()), ("f", "FLOAT", pa.float32()), ("dec", "DECIMAL(10,2)", pa.decimal128(10, 2)),
    ("dec_nz", "DECIMAL(6,2)", pa.decimal128(6, 2)), ("dec2", "DECIMAL(18,6)", pa.decimal128(18, 6)),
    ("s", "STRING", pa.string()), ("num", "STRING", pa.string()), ("day", "STRING", pa.string()),
    ("pad", "STRING", pa.string()), ("bo", "BOOLEAN", pa.bool_()), ("dt", "DATE", pa.date32()),
    ("ts", "TIMESTAMP", pa.timestamp("us", tz="UTC")), ("arr", "ARRAY<INT>", pa.list_(pa.int32())),
    ("st", "STRUCT<a: INT, b: STRING>", pa.struct([("a", pa.int32()), ("b", pa.string())])),
)  # fmt: skip
U = (
    ("id", "INT", pa.int32()), ("k", "BIGINT", pa.int64()), ("name", "STRING", pa.string()),
    ("v", "DECIMAL(8,3)", pa.decimal128(8, 3)), ("w", "DOUBLE", pa.float64()),
)  # fmt: skip
TABLES = {"t": T, "u": U}
ROWS = {"t": 40, "u": 25}
TEXTS = ("abc", "", "b", "a_c", "ABC", "cab%", "x1y22", "été", "a b", "aab")


def create(name: str) -> str:
    """The table in Spark's words."""
    return f"CREATE TABLE {name} ({', '.join(f'{column} {type}' for column, type, _ in TABLES[name])})"


def make_tables(seed: int) -> dict[str, pa.Table]:
    """Both tables, full of what the seed gives."""
    chance = random.Random(seed)
    return {
        name: pa.table(
            [
                pa.array([_value(chance, column, n) for n in range(ROWS[name])], type)
                for column, _, type in columns
            ],
            [column for column, _, _ in columns],
        )
        for name, columns in TABLES.items()
    }


def _value(chance: random.Random, column: str, n: int) -> Any:
    if column == "id":
        return n
    if column.endswith("_nz"):
        return _MAKERS[column](chance) or 1
    return None if chance.random() < 0.15 else _MAKERS[column](chance)


def _decimal(chance: random.Random, whole: int, scale: int) -> Decimal:
    return Decimal(chance.randint(-whole * 10**scale, whole * 10**scale)).scaleb(-scale)


def _struct(chance: random.Random) -> dict[str, Any]:
    return {"a": chance.choice([None, 1, 2]), "b": chance.choice(TEXTS)}


_START = datetime(2023, 11, 28, 22, 5, 7, tzinfo=UTC)
_MAKERS = {
    "i": lambda c: c.randint(-9, 12), "i_nz": lambda c: c.randint(1, 9), "b": lambda c: c.randint(-(10**6), 10**6),
    "sm": lambda c: c.randint(-100, 100), "sm_nz": lambda c: c.randint(1, 50), "ti": lambda c: c.randint(-20, 20),
    "d": lambda c: c.choice([2.675, -2.5, 0.5, 1.005, 0.0, 1e-7, 123456.789, c.uniform(-50, 50)]),
    "f": lambda c: c.choice([0.5, -1.25, 3.0]), "dec": lambda c: _decimal(c, 200, 2),
    "dec_nz": lambda c: _decimal(c, 30, 2), "dec2": lambda c: _decimal(c, 90, 6), "s": lambda c: c.choice(TEXTS),
    "num": lambda c: c.choice([" 12 ", "-7", "0", "+33"]), "day": lambda c: c.choice(["2024-02-29", "2023-12-31"]),
    "pad": lambda c: c.choice(["  x ", "\ty ", "z"]), "bo": lambda c: c.choice([True, False]),
    "dt": lambda c: date(2023, 12, 20) + timedelta(days=c.randint(0, 400)),
    "ts": lambda c: _START + timedelta(microseconds=c.randint(0, 4 * 10**13), days=c.choice([0, 1])),
    "arr": lambda c: c.choice([[1, 2, 3], [1, None], [7]]), "st": _struct,
    "k": lambda c: c.randint(-3, 12), "name": lambda c: c.choice(TEXTS), "v": lambda c: _decimal(c, 40, 3),
    "w": lambda c: c.choice([0.25, -4.0, 8.5, 1.125]),
}  # fmt: skip
