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
