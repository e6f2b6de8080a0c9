"""Arithmetic on every numeric type equals DuckDB's, errors included."""

from __future__ import annotations

import pytest

from evaluate.agreement import check, type_of
from evaluate.values import DECIMALS, FLOATS, INTEGERS, NUMBERS, numbers

ROWS = 28


def _check(type_a: str, type_b: str, sql: str, seed: int) -> None:
    columns = [numbers(type_of(type_a), ROWS, seed), numbers(type_of(type_b), ROWS, seed + 1000)]
    check(f"a {type_a}, b {type_b}", columns, sql)


@pytest.mark.parametrize("type", NUMBERS)
@pytest.mark.parametrize(
    "sql", ["a + b", "a - b", "a * b", "a / b", "a // b", "a % b", "-a", "a + 1", "3 * a"]
)
def test_operator(type: str, sql: str) -> None:
    _check(type, type, sql, seed=1)


@pytest.mark.parametrize("a", ["TINYINT", "INTEGER", "BIGINT", *DECIMALS, "DOUBLE"])
@pytest.mark.parametrize("b", ["SMALLINT", "DECIMAL(9,2)", "DECIMAL(25,3)", "FLOAT"])
@pytest.mark.parametrize("sql", ["a + b", "a - b", "a * b", "a / b", "a % b"])
def test_mixed_types(a: str, b: str, sql: str) -> None:
    _check(a, b, sql, seed=2)


@pytest.mark.parametrize(
    "sql", ["a * (1 - b) * (1 + b)", "a * b - a", "(a + b) * 2", "-(a - b)", "a / (b - b)"]
)
@pytest.mark.parametrize("type", ["DECIMAL(15,2)", "BIGINT", "DOUBLE", "INTEGER"])
def test_nested(type: str, sql: str) -> None:
    _check(type, type, sql, seed=3)


@pytest.mark.parametrize("type", NUMBERS)
@pytest.mark.parametrize("function", ["abs", "sign", "floor", "ceil", "round"])
def test_function(type: str, function: str) -> None:
    _check(type, type, f"{function}(a)", seed=4)


@pytest.mark.parametrize("type", [*DECIMALS, *FLOATS, "INTEGER"])
@pytest.mark.parametrize("digits", [-3, -1, 0, 1, 2, 5])
def test_round_to_digits(type: str, digits: int) -> None:
    _check(type, type, f"round(a, {digits})", seed=5)


@pytest.mark.parametrize("type", NUMBERS)
@pytest.mark.parametrize("sql", ["greatest(a, b)", "least(a, b)", "greatest(a, b, 5)", "nullif(a, b)"])
def test_extremes(type: str, sql: str) -> None:
    _check(type, type, sql, seed=6)


@pytest.mark.parametrize("type", INTEGERS)
def test_many_seeds(type: str) -> None:
    for seed in range(10, 14):
        _check(type, type, "a * b + a", seed)
