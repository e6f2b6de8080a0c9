"""Messages and hints: they name what the user wrote, and recommend what is possible."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from penstock import Flow, PenstockError
from penstock.base.errors import NotMaintainable, UniqueViolation


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


# -- what cannot be maintained ---------------------------------------------------------------------

NESTED = "a correlated subquery over columns of type LIST, MAP or STRUCT"


@pytest.mark.parametrize(
    ("query", "what"),
    [
        ("SELECT mode(a) FROM t", "the aggregate mode"),
        ("SELECT mode() WITHIN GROUP (ORDER BY a) FROM t", "the aggregate mode"),
        ("SELECT b, sum(a), histogram(a) FROM t GROUP BY b", "the aggregate histogram"),
        ("SELECT percentile_cont(0.5) WITHIN GROUP (ORDER BY a) FROM t", "the aggregate percentile_cont"),
        ("SELECT arg_max(a, id) FROM t", "the aggregate arg_max"),
        ("SELECT m FROM modes", "the aggregate mode"),
        ("SELECT any_value(a) FROM t", "the aggregate any_value"),
        ("SELECT i, count(*) FROM nested GROUP BY i", "lists of INTERVAL as keys (of GROUP BY, DISTINCT or a join)"),
        ("SELECT list_transform(l, lambda x: x + 1) FROM nested", "lambda functions (list_transform)"),
        ("SELECT (SELECT count(*) FROM nested y WHERE y.l = x.l) FROM nested x", NESTED),
        ("SELECT (SELECT count(*) FROM nested y WHERE y.m = x.m) FROM nested x", NESTED),
        ("SELECT lag(a) OVER (ORDER BY id) FROM t", "window functions"),
        ("SELECT (SELECT y.id FROM t y WHERE y.id > x.id ORDER BY y.id LIMIT 1) FROM t x", "LIMIT in a correlated subquery"),
        ("SELECT DISTINCT ON (b) * FROM t", "DISTINCT ON"),
        ("SELECT unnest([1, 2])", "UNNEST"),
        ("SELECT * FROM range(3)", "the table function range"),
        ("SELECT a FROM t GROUP BY ROLLUP (a)", "grouping sets (GROUPING SETS, ROLLUP, CUBE)"),
    ],
)  # fmt: skip
def test_refusals_name_what_was_written_and_say_what_to_do(flow: Flow, query: str, what: str) -> None:
    flow.sql(
        "CREATE TABLE nested (id INTEGER PRIMARY KEY, i INTERVAL[], l INTEGER[], m MAP(INTEGER, INTEGER))"
    )
    flow.sql("CREATE VIEW modes AS SELECT mode(a) AS m FROM t")
    error = refusal(flow, f"CREATE MATERIALIZED VIEW v AS {query}")
    assert isinstance(error, NotMaintainable)
    assert error.message.startswith(f"{what} cannot be maintained")
    assert str(error).startswith(f"{what} cannot be maintained")
    assert error.hint
    assert "CREATE VIEW" in error.hint or "min or max" in error.hint
    flow.sql(f"CREATE VIEW p AS {query}; SELECT * FROM p")  # the hint can be followed


# -- every other message has a hint ----------------------------------------------------------------


@pytest.mark.parametrize(
    "statement",
    [
        "INSERT INTO t VALUES ('zz', 1, '')",
        "SELECT 'zz'::BIGINT",
        "SELECT 'zz'::DATE",
        "SELECT DATE '2024-01-01'::INTEGER",
        "INSERT INTO t VALUES (1, 100, '')",
        "EXPLAIN INCREMENTAL t",
        "SELEC 1",
        "SELECT 1 +",
        "SELECT * FORM t",
        "SELECT (1",
        "SELECT 1)",
        "INSERT t VALUES (1)",
        "CREATE TABLE",
        "CREATE INDEX i ON t (a)",
        "DROP t",
        "UPDATE t WHERE id = 1",
        "COMMIT COMMIT",
    ],
)
def test_there_is_a_hint(flow: Flow, statement: str) -> None:
    assert refusal(flow, statement).hint
