"""Comparisons, logic, CASE, COALESCE and IN equal DuckDB's, and evaluate only what they must."""

from __future__ import annotations

import datetime as dt

import pytest

from evaluate.agreement import check, type_of
from evaluate.values import NUMBERS, chosen, numbers, texts
from penstock.zset.column import Column

OPERATORS = ("=", "<>", "<", "<=", ">", ">=", "IS DISTINCT FROM", "IS NOT DISTINCT FROM")
DATES = tuple(dt.date(2024, 1, day) for day in range(1, 5))


@pytest.mark.parametrize("operator", OPERATORS)
@pytest.mark.parametrize("type", NUMBERS)
def test_numbers(type: str, operator: str) -> None:
    columns = [numbers(type_of(type), 50, seed=1), numbers(type_of(type), 50, seed=2)]
    check(f"a {type}, b {type}", columns, f"a {operator} b")
    check(f"a {type}, b {type}", columns, f"a {operator} 1")
    check(f"a {type}, b {type}", columns, f"a {operator} a")


@pytest.mark.parametrize("operator", OPERATORS)
def test_others(operator: str) -> None:
    varchar = type_of("VARCHAR")
    columns = [texts(varchar, 40, 1), texts(varchar, 40, 2), chosen(type_of("DATE"), 40, 1, DATES)]
    columns += [chosen(type_of("BOOLEAN"), 40, s, (True, False)) for s in (1, 2)]
    definition = "a VARCHAR, b VARCHAR, d DATE, p BOOLEAN, q BOOLEAN"
    for sql in (
        f"a {operator} b",
        f"a {operator} 'abc'",
        f"d {operator} DATE '2024-01-02'",
        f"p {operator} q",
    ):
        check(definition, columns, sql)


@pytest.mark.parametrize(
    "sql",
    [
        "p AND q", "p OR q", "NOT p", "p AND NOT q OR r", "p IS NULL", "p IS NOT NULL", "p AND q AND r", "p OR q OR r",
        "p IS TRUE", "p IS NOT FALSE", "(p OR NULL) AND q", "coalesce(p, q, r)", "p AND (n > 1 OR q)",
        "CASE WHEN p THEN n WHEN q THEN m ELSE 0 END", "CASE WHEN p THEN s WHEN q THEN 'x' END",
        "CASE n WHEN 1 THEN 'one' WHEN 2 THEN 'two' ELSE s END", "CASE WHEN p THEN NULL ELSE n END",
        "coalesce(n, m)", "coalesce(n, m, 7)", "coalesce(s, 'none')", "coalesce(n // m, m)",
        "n IN (1, 2, 3)", "n IN (1, NULL)", "n NOT IN (1, 2)", "n NOT IN (1, NULL)", "n IN (m, 2)", "n NOT IN (m, NULL)",
        "s IN ('a', 'abc')", "s NOT IN ('a', NULL)", "s IN ('a', 'b', 'c', 'd', 'e', 'abc', '', 'zz', '%')",
        "n IN (1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12)", "n BETWEEN m AND 2", "n NOT BETWEEN 1 AND 2",
        "CASE WHEN m <> 0 THEN n / m END",
        "CASE WHEN m = 0 THEN 0 WHEN n / m = 1 THEN 1 ELSE n / m END", "nullif(n, 1)", "n / nullif(m, 0)",
        "nullif(s, 'abc')", "CASE WHEN p THEN 1.5 ELSE n END", "CASE WHEN p THEN n ELSE 99999999999999999999 END",
        "coalesce(CASE WHEN p THEN md5(s) END, lower(s))", "p AND md5(s) > 'a'", "n / m = 1 OR p",
    ],
)  # fmt: skip
def test_logic(sql: str) -> None:
    check(DEFINITION, _columns(), sql)


@pytest.mark.parametrize(
    ("sql", "reference"),
    [
        ("m <> 0 AND n / m > 0", "CASE WHEN m = 0 THEN FALSE ELSE n / m > 0 END"),
        ("m = 0 OR n / m > 0", "CASE WHEN m = 0 THEN TRUE ELSE n / m > 0 END"),
        ("m IS NULL OR m = 0 OR n % m = 1", "CASE WHEN m IS NULL OR m = 0 THEN TRUE ELSE n % m = 1 END"),
    ],
)
def test_later_terms_run_only_where_they_matter(sql: str, reference: str) -> None:
    """DuckDB itself divides in every row here, and fails."""
    check(DEFINITION, _columns(), sql, reference)


DEFINITION = "p BOOLEAN, q BOOLEAN, r BOOLEAN, n INTEGER, m INTEGER, s VARCHAR"


def _columns() -> list[Column]:
    columns = [chosen(type_of("BOOLEAN"), 60, seed, (True, False)) for seed in (1, 2, 3)]
    columns += [chosen(type_of("INTEGER"), 60, seed, (0, 1, 2, 3, -1)) for seed in (4, 5)]
    return [*columns, texts(type_of("VARCHAR"), 60, 6)]
