"""Errors: one clear message, a class of ours, nothing half applied, and the flow goes on."""

from __future__ import annotations

import contextlib
import re
from typing import Any

import pytest

import penstock
from penstock.base import errors
from rows import rows_of

# What belongs to a library below, to Python or to a machine, and not into a message for a user.
FOREIGN = re.compile(
    r"Traceback|duckdb|Binder Error|Parser Error|Catalog Error|Conversion Error|Invalid Input Error|pyarrow|"
    r"Arrow(Invalid|TypeError)|\.py\b|numpy|INTERNAL|site-packages|LINE \d+:|TRY\(|SET error_on",
    re.IGNORECASE,
)

STATEMENTS: list[tuple[str, str, bool]] = [  # statement, class of the error, whether it must have a hint
    ("SELEC 1", "SqlSyntaxError", False),
    ("SELECT FROM WHERE", "SqlSyntaxError", False),
    ("CREATE TABLE", "SqlSyntaxError", False),
    ("CREATE MATERIALIZED VIEW v AS", "SqlSyntaxError", False),
    ("INSERT INTO t VALUES (1, 'a'", "SqlSyntaxError", False),
    ("", "SqlSyntaxError", False),
    ("SELECT * FROM nowhere", "UndefinedTable", False),
    ("INSERT INTO nowhere VALUES (1)", "UndefinedTable", False),
    ("DROP TABLE nowhere", "UndefinedTable", False),
    ("SELECT nam FROM t", "UndefinedColumn", True),
    ("CREATE MATERIALIZED VIEW v AS SELECT nam FROM t", "UndefinedColumn", True),
    ("CREATE MATERIALIZED VIEW v AS SELECT t.nam FROM t", "UndefinedColumn", True),
    ("UPDATE t SET nam = 1", "UndefinedColumn", False),
    ("SELECT foo(id) FROM t", "UndefinedFunction", False),
    ("CREATE MATERIALIZED VIEW v AS SELECT foo(id) FROM t", "UndefinedFunction", False),
    ("CREATE TABLE t (x INTEGER)", "DuplicateObject", False),
    ("CREATE MATERIALIZED VIEW n AS SELECT 1 AS one", "DuplicateObject", False),
    ("CREATE MATERIALIZED VIEW v AS SELECT name + 1 AS x FROM t", "PenstockError", False),
    ("CREATE MATERIALIZED VIEW v AS SELECT id FROM t GROUP BY name", "PenstockError", False),
    ("INSERT INTO t VALUES ('x', 'a', 1)", "PenstockError", False),
    ("INSERT INTO t VALUES (1, 'a', 1)", "UniqueViolation", True),
    ("INSERT INTO t VALUES (NULL, 'a', 1)", "NotNullViolation", False),
    ("INSERT INTO t VALUES (99999999999999999999, 'a', 1)", "PenstockError", False),
    ("INSERT INTO t SELECT 10, 'a', 1 / 0", "DivisionByZero", True),
    ("SELECT 1 / 0", "DivisionByZero", True),
    ("INSERT INTO n VALUES (1)", "WrongObjectType", False),
    ("DELETE FROM n", "WrongObjectType", False),
    ("DROP TABLE n", "WrongObjectType", True),
    ("DROP TABLE t", "DependentObjects", True),
    ("COMMIT", "TransactionError", False),
    ("ROLLBACK", "TransactionError", False),
]


@pytest.fixture
def flow() -> Any:
    with penstock.Flow() as flow:
        flow.sql("CREATE TABLE t (id INTEGER PRIMARY KEY, name TEXT, x INTEGER)")
        flow.sql("INSERT INTO t VALUES (1, 'a', 5)")
        flow.sql("CREATE MATERIALIZED VIEW n AS SELECT count(*) AS n, sum(x) AS s FROM t")
        yield flow


def clean(error: penstock.PenstockError) -> None:
    text = str(error)
    assert text.strip()
    assert not FOREIGN.search(text), text
    assert re.fullmatch(r"[0-9A-Z]{5}", error.sqlstate)
    assert isinstance(error.retry, bool)
    assert (
        error.__cause__ is None
        or error.__suppress_context__
        or isinstance(error.__cause__, penstock.PenstockError)
    )


@pytest.mark.parametrize(("statement", "kind", "hinted"), STATEMENTS, ids=[s for s, _, _ in STATEMENTS])
def test_a_wrong_statement_is_refused_and_the_flow_goes_on(
    flow: penstock.Flow, statement: str, kind: str, hinted: bool
) -> None:
    with pytest.raises(getattr(errors, kind)) as caught:
        flow.sql(statement)
    clean(caught.value)
    assert caught.value.hint or not hinted, str(caught.value)
    assert rows_of(flow.snapshot("t")) == [(1, "a", 5)]
    assert rows_of(flow.snapshot("n")) == [(1, 5)]
    flow.sql("INSERT INTO t VALUES (2, 'b', 6)")
    assert rows_of(flow.snapshot("n")) == [(2, 11)]


@pytest.mark.parametrize("call", ["snapshot", "watch", "explain"])
def test_an_unknown_name(flow: penstock.Flow, call: str) -> None:
    with pytest.raises(errors.UndefinedTable) as caught:
        getattr(flow, call)("nowhere")
    clean(caught.value)


def test_an_undefined_column_says_where_it_stands(flow: penstock.Flow) -> None:
    statement = "CREATE MATERIALIZED VIEW v AS SELECT id, nam FROM t"
    with pytest.raises(errors.UndefinedColumn) as caught:
        flow.sql(statement)
    assert caught.value.position is not None
    assert statement[caught.value.position :].startswith("nam")
    assert "name" in (caught.value.hint or "")


@pytest.mark.parametrize(
    ("query", "operator"),
    [
        ("SELECT id, row_number() OVER (ORDER BY x) AS r FROM t", "window"),
        ("SELECT id, sum(x) OVER (PARTITION BY name) AS r FROM t", "window"),
        ("SELECT name, string_agg(name, ',') AS s FROM t GROUP BY name", "string_agg"),
        ("SELECT name, median(x) AS m FROM t GROUP BY name", "median"),
        (
            "WITH RECURSIVE r(i) AS (SELECT 1 UNION SELECT i + 1 FROM r WHERE i < 3) SELECT i FROM r",
            "recursive",
        ),
        ("SELECT name, x, count(*) AS n FROM t GROUP BY ROLLUP (name, x)", "grouping|rollup"),
        ("SELECT random() AS r FROM t", "random"),
        ("SELECT id, now() AS n FROM t", "now|current_timestamp"),
        ("SELECT * FROM t USING SAMPLE 10%", "sample"),
        ("SELECT * FROM range(10)", "range"),
    ],
)
def test_what_cannot_be_maintained_is_refused_with_the_name(
    flow: penstock.Flow, query: str, operator: str
) -> None:
    with pytest.raises(errors.NotMaintainable) as caught:
        flow.sql(f"CREATE MATERIALIZED VIEW v AS {query}")
    clean(caught.value)
    assert re.search(operator, str(caught.value), re.IGNORECASE), str(caught.value)
    with pytest.raises(errors.UndefinedTable):
        flow.snapshot("v")
    flow.sql("CREATE MATERIALIZED VIEW v AS SELECT 1 AS one")


def test_a_view_that_fails_over_the_rows_there_are_is_not_created(flow: penstock.Flow) -> None:
    flow.sql("INSERT INTO t VALUES (2, 'b', 0)")
    with pytest.raises(errors.DivisionByZero) as caught:
        flow.sql("CREATE MATERIALIZED VIEW v AS SELECT id, 10 / x AS q FROM t")
    clean(caught.value)
    with pytest.raises(errors.UndefinedTable):
        flow.snapshot("v")
    flow.sql("UPDATE t SET x = 1")
    flow.sql("CREATE MATERIALIZED VIEW v AS SELECT id, 10 / x AS q FROM t")
    assert sorted(rows_of(flow.snapshot("v"))) == [(1, 10), (2, 10)]


def test_a_failed_statement_in_a_transaction(flow: penstock.Flow) -> None:
    """The statement that fails leaves no trace; what the transaction did before it can still be undone."""
    flow.sql("BEGIN")
    flow.sql("INSERT INTO t VALUES (2, 'b', 1)")
    with pytest.raises(errors.UniqueViolation):
        flow.sql("INSERT INTO t VALUES (3, 'c', 1), (2, 'd', 1)")
    flow.sql("ROLLBACK")
    assert rows_of(flow.snapshot("t")) == [(1, "a", 5)]
    assert rows_of(flow.snapshot("n")) == [(1, 5)]
    flow.sql("INSERT INTO t VALUES (2, 'b', 1)")
    assert rows_of(flow.snapshot("n")) == [(2, 6)]


def test_a_commit_that_a_view_refuses_applies_nothing(flow: penstock.Flow) -> None:
    flow.sql("CREATE MATERIALIZED VIEW q AS SELECT id, 10 / x AS q FROM t")
    flow.sql("BEGIN")
    flow.sql("INSERT INTO t VALUES (2, 'b', 1)")
    with pytest.raises(errors.DivisionByZero):
        flow.sql("INSERT INTO t VALUES (3, 'c', 0)")
        flow.sql("COMMIT")
    with contextlib.suppress(errors.TransactionError):  # the COMMIT has ended it
        flow.sql("ROLLBACK")
    assert rows_of(flow.snapshot("t")) == [(1, "a", 5)]
    flow.sql("INSERT INTO t VALUES (2, 'b', 1)")
    assert sorted(rows_of(flow.snapshot("q"))) == [(1, 2), (2, 10)]


def test_sql_text_reads_no_files(flow: penstock.Flow, tmp_path: Any) -> None:
    secret = tmp_path / "secret.csv"
    secret.write_text("a\n1\n")
    for statement in (
        f"SELECT * FROM '{secret}'",
        f"SELECT * FROM read_csv('{secret}')",
        f"COPY t TO '{secret}'",
    ):
        with pytest.raises(penstock.PenstockError):
            flow.sql(statement)
    frame = {"x": 1}  # a Python variable is not a table
    with pytest.raises(errors.UndefinedTable):
        flow.sql("SELECT * FROM frame")
    assert frame
