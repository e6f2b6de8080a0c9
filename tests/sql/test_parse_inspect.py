"""SHOW, DESCRIBE, EXPLAIN and EXPLAIN INCREMENTAL."""

from __future__ import annotations

import pytest

from penstock.sql import statements as s
from sql.parsed import one, text


@pytest.mark.parametrize(
    ("sql", "expected"),
    [
        ("SHOW TABLES", ("tables", None, None)),
        ("show views like 'a%'", ("views", None, "a%")),
        ("SHOW MATERIALIZED VIEWS", ("materialized views", None, None)),
        ("SHOW COLUMNS FROM public.t", ("columns", "t", None)),
        ("SHOW COLUMNS IN t LIKE $$x$$", ("columns", "t", "x")),
    ],
)
def test_show(sql: str, expected: tuple[str, str | None, str | None]) -> None:
    made = one(sql, s.Show)
    assert (made.what, made.name, made.like) == expected


def test_describe() -> None:
    assert one("DESCRIBE t", s.Describe).name == "t"
    assert one('desc main."T t"', s.Describe).name == "T t"
    made = one("DESCRIBE SELECT 1", s.Describe)
    assert (made.name, text(made.query)) == (None, "SELECT 1")


def test_explain() -> None:
    made = one("EXPLAIN SELECT 1", s.Explain)
    assert (made.query.text, made.options) == ("SELECT 1", {})
    assert one("EXPLAIN ANALYZE VERBOSE FROM t", s.Explain).options == {"analyze": True, "verbose": True}
    made = one("EXPLAIN (ANALYZE, FORMAT json) (SELECT 1)", s.Explain)
    assert (made.query.text, made.options) == ("(SELECT 1)", {"analyze": True, "format": "json"})
    assert one("EXPLAIN (SELECT 1)", s.Explain).query.text == "(SELECT 1)"


@pytest.mark.parametrize(
    ("sql", "name", "query"),
    [
        ("EXPLAIN INCREMENTAL v", "v", None),
        ("explain incremental view v", "v", None),
        ("EXPLAIN INCREMENTAL MATERIALIZED VIEW public.v", "v", None),
        ("EXPLAIN INCREMENTAL view", "view", None),
        ("EXPLAIN INCREMENTAL SELECT 1", None, "SELECT 1"),
        ("EXPLAIN INCREMENTAL (FROM t)", None, "(FROM t)"),
        ("EXPLAIN INCREMENTAL WITH a AS (SELECT 1) FROM a", None, "WITH a AS (SELECT 1) FROM a"),
    ],
)
def test_explain_incremental(sql: str, name: str | None, query: str | None) -> None:
    made = one(sql, s.ExplainIncremental)
    assert (made.name, text(made.query)) == (name, query)
