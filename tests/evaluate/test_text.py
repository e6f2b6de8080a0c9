"""Functions of text equal DuckDB's: with NUL, quotes, letters outside of ASCII, and empty texts."""

from __future__ import annotations

import pytest

from evaluate.agreement import check, type_of
from evaluate.values import chosen, texts

EXPRESSIONS = [
    "a || b", "a || 'x'", "concat(a, b)", "concat(a, '-', b, n)", "lower(a)", "upper(a)", "length(a)",
    "substring(a, 1, 2)", "substr(a, 2)", "substring(a, n, 2)", "substring(a, 2, n)", "substring(a, 0, 2)",
    "substring(a, -3, 2)", "left(a, 2)", "left(a, n)", "right(a, 2)", "right(a, n)", "trim(a)", "ltrim(a)", "rtrim(a)",
    "trim(a, 'a ')", "ltrim(a, 'a')", "rtrim(a, b)", "replace(a, 'a', 'xy')", "replace(a, b, '')", "strpos(a, 'b')",
    "position('b' IN a)", "instr(a, b)", "starts_with(a, 'a')", "starts_with(a, b)", "ends_with(a, 'c')",
    "contains(a, 'b')", "contains(a, b)", "prefix(a, 'st')", "suffix(a, '')", "char_length(a)", "strlen(a)",
    "a LIKE 'a%'", "a LIKE '%c'", "a LIKE '%b%'", "a LIKE 'a_b%'", "a LIKE '_'", "a LIKE '%'", "a LIKE ''",
    "a NOT LIKE 'a%c'", "a LIKE b", "a NOT LIKE b", "a ILIKE 'ab%'", "a ILIKE '%SS%'", "a ILIKE b", "a NOT ILIKE 'A%'",
    "a LIKE 'a!_b%' ESCAPE '!'", "a NOT LIKE '%!%' ESCAPE '!'", "a LIKE 'x_y'", "a LIKE 'a\\b'", "a LIKE 'ÀÉ__'",
    "a LIKE '%a%b%'", "a LIKE '.*'", "a LIKE '%''%\"%'", "a ILIKE 'straSSE'", "a ^@ 'a'", "a LIKE '%!' ESCAPE '!'",
]  # fmt: skip


@pytest.mark.parametrize("sql", EXPRESSIONS)
def test_function(sql: str) -> None:
    varchar = type_of("VARCHAR")
    columns = [
        texts(varchar, 60, 1),
        texts(varchar, 60, 2),
        chosen(type_of("BIGINT"), 60, 3, (-3, -1, 0, 1, 2, 9)),
    ]
    check("a VARCHAR, b VARCHAR, n BIGINT", columns, sql)


@pytest.mark.parametrize("sql", EXPRESSIONS)
def test_ascii_only(sql: str) -> None:
    varchar = type_of("VARCHAR")
    among = ("", "abc", "Ab", "aXb", "a b ", "b")
    columns = [texts(varchar, 30, s, among) for s in (1, 2)] + [chosen(type_of("BIGINT"), 30, 3, (0, 1, 2))]
    check("a VARCHAR, b VARCHAR, n BIGINT", columns, sql)
