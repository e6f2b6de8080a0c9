"""Casts between all types equal DuckDB's, errors included."""

from __future__ import annotations

import datetime as dt

import pytest

from evaluate.agreement import check, type_of
from evaluate.values import NUMBERS, chosen, numbers, texts

TARGETS = (*NUMBERS, "BOOLEAN", "VARCHAR")
DATES = (
    dt.date(1970, 1, 1),
    dt.date(1969, 12, 31),
    dt.date(2024, 2, 29),
    dt.date(1, 1, 1),
    dt.date(9999, 12, 31),
)
TIMES = tuple(
    dt.datetime(*parts)
    for parts in (
        (1970, 1, 1),
        (1969, 12, 31, 23, 59, 59, 999999),
        (2024, 2, 29, 13, 5, 7, 8),
        (1900, 3, 1, 0, 0, 1),
    )
)


@pytest.mark.parametrize("source", NUMBERS)
@pytest.mark.parametrize("target", TARGETS)
def test_between_numbers(source: str, target: str) -> None:
    column = numbers(type_of(source), 40, seed=7)
    check(f"a {source}", [column], f"CAST(a AS {target})")
    check(f"a {source}", [column], f"TRY_CAST(a AS {target})")


@pytest.mark.parametrize("target", TARGETS)
def test_from_boolean(target: str) -> None:
    check("a BOOLEAN", [chosen(type_of("BOOLEAN"), 12, 1, (True, False))], f"CAST(a AS {target})")


@pytest.mark.parametrize("target", ["TIMESTAMP", "TIMESTAMP WITH TIME ZONE", "DATE", "VARCHAR"])
def test_temporal(target: str) -> None:
    check("a DATE", [chosen(type_of("DATE"), 20, 1, DATES)], f"CAST(a AS {target})")
    check("a TIMESTAMP", [chosen(type_of("TIMESTAMP"), 20, 1, TIMES)], f"CAST(a AS {target})")


@pytest.mark.parametrize(
    "target", ["INTEGER", "DECIMAL(9,2)", "DOUBLE", "DATE", "BOOLEAN", "VARCHAR", "HUGEINT"]
)
def test_from_text(target: str) -> None:
    among = ("1", "-2.5", " 12 ", "1e3", "x", "", "2024-02-29", "true", "1.005", "99999999999999999999")
    column = texts(type_of("VARCHAR"), 30, 1, among)
    check("a VARCHAR", [column], f"TRY_CAST(a AS {target})")
    check("a VARCHAR", [column], f"CAST(a AS {target})")
