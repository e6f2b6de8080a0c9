"""Parts, truncation and arithmetic of dates and timestamps equal DuckDB's."""

from __future__ import annotations

import datetime as dt
import random

import numpy as np
import pytest

from evaluate.agreement import check, type_of
from evaluate.values import chosen, numbers
from penstock.zset.column import Column

UNITS = ("year", "quarter", "month", "week", "day", "hour", "minute", "second", "millisecond", "decade", "century",
         "millennium", "dow", "doy", "isodow", "epoch", "dayofweek", "dayofyear", "microsecond", "era", "isoyear")  # fmt: skip
SHIFTS = ("1 day", "1 month", "-1 month", "13 months", "1 year", "1 month -1 day 2 hours", "90 minutes", "-1 hour",
          "1 week", "0 days", "25 hours", "1 month 1 day 1 microsecond", "1200 months")  # fmt: skip
DATE_EXTREMES = (
    2**31 - 1,
    -(2**31 - 1),
    0,
    -1,
    59,
    11016,
    19782,
    19783,
    -719528,
    -800000,
    100_000_000,
    -2_000_000,
)
TIME_EXTREMES = (
    2**63 - 1,
    -(2**63 - 1),
    0,
    -1,
    1,
    951782399999999,
    1709164800000000,
    -62135596800000001,
    9 * 10**18,
)


def dates(seed: int) -> Column:
    rng = random.Random(seed)
    days = [
        rng.choice(DATE_EXTREMES) if rng.random() < 0.3 else rng.randint(-30000, 40000) for _ in range(60)
    ]
    return Column(type_of("DATE"), np.array(days, np.int32))


def timestamps(seed: int) -> Column:
    rng = random.Random(seed)
    micros = [
        rng.choice(TIME_EXTREMES) if rng.random() < 0.3 else rng.randint(-(2**52), 2**52) for _ in range(60)
    ]
    return Column(type_of("TIMESTAMP"), np.array(micros, np.int64))


@pytest.mark.parametrize("unit", UNITS)
@pytest.mark.parametrize("type", ["DATE", "TIMESTAMP"])
def test_parts_and_truncation(type: str, unit: str) -> None:
    column = dates(1) if type == "DATE" else timestamps(1)
    for sql in (f"date_part('{unit}', a)", f"extract({unit} FROM a)"):
        check(f"a {type}", [column], sql)
    if unit not in ("dow", "doy", "isodow", "epoch", "dayofweek", "dayofyear", "era"):
        check(f"a {type}", [column], f"date_trunc('{unit}', a)")


@pytest.mark.parametrize(
    "function", ["year", "month", "day", "quarter", "dayofweek", "isodow", "week", "last_day"]
)
def test_part_functions(function: str) -> None:
    check("a DATE", [dates(2)], f"{function}(a)")
    check("a TIMESTAMP", [timestamps(2)], f"{function}(a)")


@pytest.mark.parametrize("by", SHIFTS)
def test_intervals(by: str) -> None:
    for sign in "+-":
        check("a DATE", [dates(3)], f"a {sign} INTERVAL '{by}'")
        check("a TIMESTAMP", [timestamps(3)], f"a {sign} INTERVAL '{by}'")


@pytest.mark.parametrize("sql", ["a + n", "a - n", "n + a", "a + 1", "a - 30"])
def test_days(sql: str) -> None:
    check("a DATE, n INTEGER", [dates(4), numbers(type_of("INTEGER"), 60, 1)], sql)


@pytest.mark.parametrize(
    "sql", ["a - b", "a - DATE '2024-01-01'", "a < b", "b - a", "greatest(a, b)::VARCHAR"]
)
def test_two_dates(sql: str) -> None:
    check("a DATE, b DATE", [dates(5), dates(6)], sql)


@pytest.mark.parametrize("sql", ["CAST(a AS DATE)", "a - b", "age(a, b)", "a < b", "strftime(a, '%Y-%m')"])
def test_two_timestamps(sql: str) -> None:
    check("a TIMESTAMP, b TIMESTAMP", [timestamps(5), timestamps(6)], sql)


def test_nulls() -> None:
    column = chosen(type_of("DATE"), 30, 1, (dt.date(2024, 2, 29), dt.date(1999, 12, 31)))
    for sql in (
        "year(a)",
        "date_trunc('month', a)",
        "a + INTERVAL 1 MONTH",
        "a + 3",
        "a - DATE '2000-01-01'",
    ):
        check("a DATE", [column], sql)
