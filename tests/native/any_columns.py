"""Columns of any type and any layout in memory, for tests of compiled code."""

from __future__ import annotations

import datetime
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
from hypothesis import strategies as st

from penstock.zset import types as t
from penstock.zset.column import Column, from_pylist
from penstock.zset.types import SqlType

NAN = float("nan")
TEXTS = (
    "",
    "a",
    "b",
    "é",
    "日本語",
    "\0",
    "12345678",
    "123456789",
    "x" * 63,
    "y" * 64,
    "z" * 65,
    "long" * 300,
)
_FLOATS = (0.0, -0.0, 1.5, -1.5, NAN, float("inf"), float("-inf"), 5e-324, 1e300)
_DAY = datetime.date(2024, 2, 29)


def _integers(name: str) -> tuple[SqlType, tuple[Any, ...]]:
    type = t.by_name(name)
    assert type is not None
    bounds = np.iinfo(type.numpy)
    return type, (0, 1, 2, int(bounds.min), int(bounds.max), int(bounds.max) - 1)


# SQL type -> some values of it, as pyarrow takes them
VALUES: dict[SqlType, tuple[Any, ...]] = dict(
    [
        *[_integers(n) for n in ("TINYINT", "SMALLINT", "INTEGER", "BIGINT")],
        *[_integers(n) for n in ("UTINYINT", "USMALLINT", "UINTEGER", "UBIGINT")],
        (t.BOOLEAN, (True, False)),
        (t.FLOAT, (0.0, -0.0, 1.5, NAN, float("inf"), float("-inf"))),
        (t.DOUBLE, _FLOATS),
        (t.DATE, (_DAY, datetime.date(1, 1, 1), datetime.date(9999, 12, 31))),
        (t.TIME, (datetime.time(0, 0), datetime.time(23, 59, 59, 999_999))),
        (t.TIMESTAMP, (datetime.datetime(1969, 12, 31, 23), datetime.datetime(2024, 1, 1, 1, 1, 1, 7))),
        (t.decimal(5, 2), (Decimal("0.00"), Decimal("-1.50"), Decimal("999.99"))),
        (t.decimal(18, 0), (Decimal(0), Decimal(10**18 - 1), Decimal(1 - 10**18))),
        (t.decimal(38, 4), (Decimal(0), Decimal("-0.0001"), Decimal(10**30), Decimal(-(10**30)), Decimal(7))),
        (t.decimal(20, 1), (Decimal(0), Decimal("1.5"), Decimal("-3.0"))),  # wide, but each fits 64 bits
        (t.HUGEINT, (0, 1, 2**63, -(2**63), 10**37)),
        (t.VARCHAR, TEXTS),
        (t.JSON, ("{}", "[1]", '""')),
        (t.BLOB, tuple([x.encode() for x in TEXTS] + [b"\xff\xfe", b"\x00\x00"])),
        (t.list_of(t.BIGINT), ([], [1], [1, None], [2, 3])),
        (t.INTERVAL, (pa.MonthDayNano([0, 0, 0]), pa.MonthDayNano([1, 2, 3000]))),
    ]
)
TYPES = tuple(VALUES)
FEW_TYPES = (t.BIGINT, t.VARCHAR, t.DOUBLE, t.decimal(5, 2), t.BOOLEAN, t.BLOB, t.TINYINT)
LAYOUTS = ("plain", "slice", "backwards", "gaps", "constant", "filled")

types_any = st.sampled_from(TYPES)
types_few = st.sampled_from(FEW_TYPES)


@st.composite
def a_column(draw: st.DrawFn, type: SqlType, count: int) -> Column:
    """So many rows; where NULLs are allowed, they are frequent."""
    layout = draw(st.sampled_from(LAYOUTS))
    nulls = draw(st.booleans())
    pool = [*VALUES[type], *([None] * (1 + len(VALUES[type]) // 3) if nulls else [])]
    numbers = np.random.default_rng(draw(st.integers(0, 2**32))).integers(0, len(pool), 2 * count + 5)
    values = [pool[i] for i in numbers.tolist()]
    return laid_out(type, values, layout, count)


def laid_out(type: SqlType, values: list[Any], layout: str, count: int) -> Column:
    """A column of `count` of the values (there are at least twice as many) that lies in memory in this way."""
    whole = from_pylist(type, values)
    if layout == "slice":
        return whole.slice(3, 3 + count)
    if type.kind == "arrow":
        if layout == "filled" and pa.types.is_large_string(type.arrow):
            return Column(type, _under_nulls(values[:count]))
        return from_pylist(type, values[:count])
    steps = {"backwards": slice(count - 1 if count else 0, None, -1), "gaps": slice(1, 2 * count, 2)}
    if layout == "constant" and values[0] is not None:
        return Column(type, np.broadcast_to(whole.values[:1], count))
    if layout in steps:
        step = steps[layout]
        parts = [None if x is None else x[step][:count] for x in (whole.values, whole.valid)]
        return Column(type, *parts)
    return from_pylist(type, values[:count])


def _under_nulls(values: list[str | None]) -> pa.Array:
    """Texts where bytes lie under the NULLs, too."""
    full = pa.array(["under a NULL" if v is None else v for v in values], pa.large_string())
    bits = np.packbits([v is not None for v in values] or [False], bitorder="little")
    _, offsets, data = full.buffers()
    return pa.Array.from_buffers(pa.large_string(), len(values), [pa.py_buffer(bits), offsets, data])


@st.composite
def columns(draw: st.DrawFn, count: int, first: SqlType) -> list[Column]:
    """One column of this type, and up to two more."""
    kinds = [first, *draw(st.lists(types_any, max_size=2))]
    return [draw(a_column(type, count)) for type in kinds]
