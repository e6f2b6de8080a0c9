"""INSERT of plain constants is read without DuckDB: the same rows, and the same errors, as with it."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import duckdb
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as s

from penstock import Flow, PenstockError
from penstock.engine import dml, plain_values
from penstock.sql.binding import Typed

TABLE = (
    "CREATE TABLE t (a SMALLINT, b BIGINT DEFAULT 7, c TEXT, d DECIMAL(6,2), e BOOLEAN, f DOUBLE, g TEXT DEFAULT 'it''s',"
    " h INTEGER NOT NULL DEFAULT -1)"
)
items = s.one_of(
    s.integers(-(2**66), 2**66).map(str),
    s.integers(-40_000, 40_000).map(str),
    s.integers(-9, 9).map(lambda n: f"({n})"),
    s.sampled_from(["NULL", "true", "FALSE", "'x'", "'it''s'", "'5'", "' 5'", "1.5", "-2.25", "12345.67", "0.005", "1e3"]),
    s.sampled_from(["1 + 1", "upper('a')", "E'\\n'", "DATE '2020-01-01'", "'é'", "''", "0x10", "1_000", "-(3)", "$$q$$"]),
    s.sampled_from(["CAST('5' AS BIGINT)", "CAST('70000' AS INTEGER)", "CAST(NULL AS TEXT)", "CAST('a' AS VARCHAR)"]),
)  # fmt: skip
statements = s.builds(
    lambda columns, rows: (
        f"INSERT INTO t ({', '.join(columns)}) VALUES "
        + ", ".join(f"({', '.join(row[: len(columns)])})" for row in rows)
    ),
    s.lists(s.sampled_from("abcdefghA"), min_size=1, max_size=4),
    s.lists(s.lists(items, min_size=4, max_size=4), min_size=1, max_size=3),
)


@pytest.fixture(scope="module")
def both() -> Any:
    with Flow() as with_it, Flow() as without:
        for flow in (with_it, without):
            flow.sql(TABLE)
        yield with_it, without


def outcome(flow: Flow, sql: str, parameters: Any = None) -> object:
    flow.sql("TRUNCATE t")
    try:
        flow.sql(sql, parameters)
    except PenstockError as error:
        return type(error), error.message
    return sorted(map(repr, flow.sql("SELECT * FROM t").to_pylist()))


def without_it(flow: Flow, sql: str, parameters: Any = None) -> object:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(dml, "plain_rows", lambda table, statement: None)
        return outcome(flow, sql, parameters)


@settings(deadline=None, suppress_health_check=list(HealthCheck), max_examples=150)
@given(statements)
@example("INSERT INTO t (a) VALUES (0), (0), (CAST(NULL AS TEXT))")
@example("INSERT INTO t (a) VALUES (NULL), ('5'), (0)")
def test_the_same_as_with_duckdb(both: tuple[Flow, Flow], sql: str) -> None:
    assert outcome(both[0], sql) == without_it(both[1], sql)


@settings(deadline=None, suppress_health_check=list(HealthCheck), max_examples=60)
@given(
    s.one_of(
        s.integers(-(2**64), 2**64), s.text("a'\\\n", max_size=3), s.none(), s.decimals(-999, 999, places=2)
    ),
    s.sampled_from("abcdegh"),
)
def test_parameters(both: tuple[Flow, Flow], value: Any, column: str) -> None:
    sql = f"INSERT INTO t ({column}) VALUES ($1)"
    assert outcome(both[0], sql, [value]) == without_it(both[1], sql, [value])


def test_what_is_read_without_duckdb() -> None:
    with Flow() as flow:
        flow.sql(TABLE)
        read: list[bool] = []
        original = plain_values.plain_rows
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(
                dml, "plain_rows", lambda *a: (found := original(*a), read.append(found is not None))[0]
            )
            flow.sql("INSERT INTO t (a, c, d) VALUES (1, 'x', 1.50), (NULL, NULL, -3)")
            flow.sql("INSERT INTO t (b, c) VALUES ($1, $2)", [Typed("5", "SMALLINT"), "it's"])
            flow.sql("INSERT INTO t (a) SELECT 1")
            flow.sql("INSERT INTO t (f) VALUES (1.5)")
        assert read == [True, True, False, False]
        assert flow.sql("SELECT b, c, d, g, h FROM t WHERE c IS NOT NULL ORDER BY b").to_pylist() == [
            {"b": 5, "c": "it's", "d": None, "g": "it's", "h": -1},
            {"b": 7, "c": "x", "d": Decimal("1.50"), "g": "it's", "h": -1},
        ]


@pytest.mark.parametrize(
    ("rows", "found"),
    [
        ("('5'), (0)", [0, 5]),
        ("(NULL), ('5'), (1 + 1)", [2, 5, None]),
        ("('5'), (true), (1.5)", [1, 2, 5]),
        ("(DEFAULT), ('5'), (0)", [0, 5, None]),
    ],
)
def test_each_value_is_cast_by_itself(rows: str, found: list[int | None]) -> None:
    """As DuckDB's and Postgres's own INSERT does; in any other VALUES they would have to have a type in common."""
    with Flow() as flow:
        flow.sql("CREATE TABLE t (a SMALLINT)")
        flow.sql(f"INSERT INTO t VALUES {rows}")
        there = [row["a"] for row in flow.sql("SELECT a FROM t ORDER BY a NULLS LAST").to_pylist()]
        assert there == found
        with pytest.raises(PenstockError) as refused:
            flow.sql("SELECT * FROM (VALUES ('5'), (0)) AS v(a)")
        assert refused.value.sqlstate == "42804"
        with pytest.raises(PenstockError, match="nosuch") as refused:
            flow.sql("INSERT INTO t VALUES ('5'), (0), (nosuch)")
        assert refused.value.position == len("INSERT INTO t VALUES ('5'), (0), (")


@pytest.mark.parametrize(
    ("type", "rows", "found"),
    [
        ("FLOAT", "(.5), ('99.995')", [0.5, 99.99500274658203]),
        ("DECIMAL(5,2)", "(1 + 1), ('1.005')", [Decimal("2.00"), Decimal("1.01")]),
        ("TINYINT", "(1.5), ('1e2')", [2, 100]),
        ("VARCHAR", "(2147483648), (' 1 '), ('x'), (0.0), (1)", ["2147483648", " 1 ", "x", "0.0", "1"]),
        ("VARCHAR", "(1 -- one\n), (DEFAULT), (CAST('2' AS BIGINT))", ["1", None, "2"]),
    ],
)
def test_no_value_is_changed_by_those_of_other_rows(type: str, rows: str, found: list[Any]) -> None:
    """They were brought to a type that all rows have in common first, even if that is not the column's."""
    with Flow() as flow:
        flow.sql(f"CREATE TABLE t (a {type})")
        flow.sql(f"INSERT INTO t VALUES {rows}")
        there = flow.sql("SELECT a FROM t").column("a").to_pylist()
        assert sorted(map(str, there)) == sorted(map(str, found))
        with duckdb.connect(":memory:") as database:
            database.execute(f"CREATE TABLE t (a {type})")
            database.execute(f"INSERT INTO t VALUES {rows}")
            assert sorted(map(str, there)) == sorted(str(a) for (a,) in database.sql("FROM t").fetchall())
