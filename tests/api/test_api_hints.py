"""Messages and hints: they name what the user wrote, and recommend what is possible."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from penstock import Flow, PenstockError
from penstock.base.errors import UniqueViolation


@pytest.fixture
def flow() -> Iterator[Flow]:
    with Flow() as flow:
        flow.sql("CREATE TABLE t (id INTEGER PRIMARY KEY, a INTEGER, b TEXT, CHECK (a < 100))")
        yield flow


def refusal(flow: Flow, sql: str) -> PenstockError:
    with pytest.raises(PenstockError) as caught:
        flow.sql(sql)
    return caught.value


# -- replacing and dropping ------------------------------------------------------------------------


def test_what_stands_in_the_way_of_a_replacement(flow: Flow) -> None:
    flow.sql("CREATE VIEW v AS SELECT * FROM t; CREATE MATERIALIZED VIEW w AS SELECT sum(a) AS s FROM v")
    error = refusal(flow, "CREATE OR REPLACE TABLE t (id INTEGER)")
    assert error.message == 'cannot replace table "t": materialized view "w", view "v" depend on it'
    assert error.hint == 'Drop what depends on it first: DROP MATERIALIZED VIEW "w"; DROP VIEW "v".'
    flow.sql(error.hint.partition(": ")[2].rstrip("."))  # it can be done as it is said
    flow.sql("CREATE OR REPLACE TABLE t (id INTEGER)")


def test_what_stands_in_the_way_of_a_drop(flow: Flow) -> None:
    flow.sql("CREATE VIEW v AS SELECT * FROM t")
    error = refusal(flow, "DROP TABLE t")
    assert (error.message, error.hint) == ('cannot drop table "t": view "v" depends on it', "Add CASCADE.")


# -- similar names ---------------------------------------------------------------------------------


@pytest.mark.parametrize("own", [True, False])
@pytest.mark.parametrize(
    ("wanted", "offered"),
    [
        ("tt", 'Did you mean "t"?'),
        ("pg_sequenc", "SHOW TABLES and SHOW VIEWS say what there is."),
        ("duckdb_table", "SHOW TABLES and SHOW VIEWS say what there is."),
        ("penstock.session", 'Did you mean "penstock.sessions"?'),
    ],
)
def test_relations_that_may_be_meant(flow: Flow, own: bool, wanted: str, offered: str) -> None:
    session = flow if own else flow.session()
    assert refusal(session, f"SELECT * FROM {wanted}").hint == offered  # type: ignore[arg-type]


def test_functions_that_may_be_meant(flow: Flow) -> None:
    assert refusal(flow, "SELECT summ(a) FROM t").hint == 'Did you mean "sum"?'


# -- GROUP BY --------------------------------------------------------------------------------------


def test_a_view_is_not_recommended_what_it_cannot_have(flow: Flow) -> None:
    query = "SELECT a, sum(id) FROM t GROUP BY b"
    assert "ANY_VALUE" in str(refusal(flow, query).hint)
    view = refusal(flow, f"CREATE MATERIALIZED VIEW v AS {query}")
    assert view.hint == "Add it to the GROUP BY list, or take an aggregate of it, such as min or max."
    assert refusal(flow, f"EXPLAIN INCREMENTAL {query}").hint == view.hint


# -- keys ------------------------------------------------------------------------------------------

THERE = 'table "t" already has a row with the key (id = {})'
TWICE = 'two rows that the change gives to table "t" have the same key (id = {})'


@pytest.mark.parametrize(
    ("statement", "message"),
    [
        ("UPDATE t SET id = 1", TWICE.format(1)),
        ("UPDATE t SET id = 9", TWICE.format(9)),
        ("UPDATE t SET id = 1 WHERE id = 2", THERE.format(1)),
        ("UPDATE t SET id = 3 WHERE id <> 3", THERE.format(3)),
        ("INSERT INTO t VALUES (1, 0, '')", THERE.format(1)),
        ("INSERT INTO t VALUES (5, 0, ''), (5, 1, '')", TWICE.format(5)),
    ],
)
@pytest.mark.parametrize("pending", [True, False])
def test_a_key_that_is_there_and_a_key_that_comes_twice(
    flow: Flow, statement: str, message: str, pending: bool
) -> None:
    flow.sql("BEGIN; INSERT INTO t VALUES (1, 7, 'x'), (2, 3, 'x'), (3, 1, 'y')")
    if not pending:
        flow.sql("COMMIT")
    error = refusal(flow, statement)
    assert isinstance(error, UniqueViolation)
    assert error.message == message
    assert error.hint


# -- names that nobody has written -----------------------------------------------------------------


@pytest.mark.parametrize(
    ("query", "expression", "divisor"),
    [
        ("SELECT b, 100 / (sum(a) - 7) FROM t GROUP BY b", "100 / (sum(a) - 7)", "sum(a) - 7"),
        ("SELECT b, 100 / (max(a) - 7) FROM t GROUP BY b", "100 / (max(a) - 7)", "max(a) - 7"),
        ("SELECT 5 % (sum(DISTINCT a + 1) - 8) FROM t", "5 % (sum(DISTINCT a + 1) - 8)", "sum(DISTINCT a + 1) - 8"),
        ("SELECT b FROM t GROUP BY b HAVING 1 / (sum(a) - 7) > 0", "1 / (sum(a) - 7)", "sum(a) - 7"),
        ("SELECT 1 // (s - n) FROM (SELECT sum(a) AS s, count(*) * 7 AS n FROM t)", "1 / (sum(a) - (count(*) * 7))",
         "sum(a) - (count(*) * 7)"),
        ("SELECT sum(9 // (a - 7)) FROM t", "9 / (a - 7)", "a - 7"),
        ("SELECT x.id FROM t x JOIN (SELECT b, sum(a) AS s FROM t GROUP BY b) y ON x.b = y.b AND 1 // (y.s - x.a) > 0",
         "1 / (sum(a) - a)", "sum(a) - a"),
    ],
)  # fmt: skip
def test_an_error_shows_what_was_written(flow: Flow, query: str, expression: str, divisor: str) -> None:
    flow.sql("INSERT INTO t VALUES (1, 6, 'x')" if "GROUP BY b)" not in query else "DELETE FROM t")
    flow.sql(f"CREATE MATERIALIZED VIEW v AS {query.replace(' / ', ' // ')}")
    error = refusal(
        flow, "UPDATE t SET a = 7" if "GROUP BY b)" not in query else "INSERT INTO t VALUES (1, 7, 'x')"
    )
    assert error.message.startswith(f"division by zero in {expression}")
    assert error.hint == f"Guard it with NULLIF({divisor}, 0) or CASE."
