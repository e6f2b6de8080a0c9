"""Splitting a text into statements, queries, transactions and parameters."""

from __future__ import annotations

import pytest

from penstock.base.errors import SqlSyntaxError
from penstock.sql import statements as s
from penstock.sql.parse import parse
from sql.parsed import one


def test_semicolons_split_only_outside_of_quotes_and_comments() -> None:
    sql = """SELECT ';', E'\\';', $$;$$, $x$;$x$, ";" FROM t -- ;
        /* ; /* ; */ ; */ ; ; DELETE FROM t;"""
    first, second = parse(sql)
    assert isinstance(first, s.Query)
    assert first.text.text.endswith('";" FROM t')
    assert isinstance(second, s.Delete)
    assert second.text.text == "DELETE FROM t"
    assert sql[second.text.offset :].startswith("DELETE")


@pytest.mark.parametrize("sql", ["", "  \n", ";", " ; ; ", "-- nothing", "/* ; */"])
def test_a_text_without_a_statement_is_refused(sql: str) -> None:
    with pytest.raises(SqlSyntaxError, match="no statement"):
        parse(sql)


def test_an_unknown_statement_is_named_and_the_known_ones_are_listed() -> None:
    with pytest.raises(SqlSyntaxError, match='"CLUSTER t USING" does not begin a statement') as caught:
        parse("SELECT 1; CLUSTER t USING i")
    assert caught.value.position == 10
    assert "CREATE MATERIALIZED VIEW" in (caught.value.hint or "")


@pytest.mark.parametrize(
    "sql", ["MERGE INTO t", "COPY t TO 'x'", "ATTACH 'x'", "PRAGMA x", "42", "'a'", "\u017felect 1"]
)
def test_other_statements_are_refused(sql: str) -> None:
    with pytest.raises(SqlSyntaxError, match="does not begin a statement"):
        parse(sql)


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT 1",
        "select distinct a from t where b is distinct from c order by 1 limit 3",
        "WITH a AS (SELECT 1) SELECT * FROM a",
        "WITH RECURSIVE a(n) AS NOT MATERIALIZED (SELECT 1), b AS MATERIALIZED (FROM a) (FROM a)",
        "WITH RECURSIVE a(k, v) USING KEY (k) AS (SELECT 1, 2 UNION SELECT * FROM a) FROM a",
        "WITH insert AS (SELECT 1) FROM insert",
        "VALUES (1), (2)",
        "FROM t",
        "TABLE t",
        "((SELECT 1) UNION (SELECT 2))",
        "SUMMARIZE t",
        "PIVOT t ON a USING sum(b)",
    ],
)
def test_queries_stay_text(sql: str) -> None:
    assert one(f"  {sql} ; -- end", s.Query).text == s.Slice(sql, 2)


@pytest.mark.parametrize(
    ("sql", "modes"),
    [
        ("BEGIN", ()),
        ("begin work", ()),
        ("BEGIN TRANSACTION", ()),
        ("START TRANSACTION READ ONLY", ("read only",)),
        (
            "BEGIN ISOLATION LEVEL REPEATABLE READ, READ WRITE NOT DEFERRABLE",
            ("isolation level repeatable read", "read write", "not deferrable"),
        ),
    ],
)
def test_begin(sql: str, modes: tuple[str, ...]) -> None:
    made = one(sql, s.Begin)
    assert made.modes == modes
    assert made.read_only == ("read only" in modes)


@pytest.mark.parametrize("sql", ["COMMIT", "commit work", "END", "END TRANSACTION"])
def test_commit(sql: str) -> None:
    one(sql, s.Commit)


@pytest.mark.parametrize("sql", ["ROLLBACK", "rollback work", "ABORT", "ABORT TRANSACTION"])
def test_rollback(sql: str) -> None:
    one(sql, s.Rollback)


def test_parameters_are_listed_and_stay_in_the_text() -> None:
    made = one("UPDATE t SET a = $2 || '$9' WHERE b = $1 AND c = $2 -- $3", s.Update)
    assert [(p.key, p.text) for p in made.parameters] == [(2, "$2"), (1, "$1"), (2, "$2")]
    assert made.parameter_count == 2
    assert made.where is not None
    assert [p.key for p in made.parameters_in(made.where)] == [1, 2]
    first, second = parse("SELECT ?, '?', ?; SELECT ?")
    assert [p.key for p in first.parameters] == [1, 2]
    assert [p.key for p in second.parameters] == [1]
    named = one("SELECT $a, $b, $a", s.Query)
    assert ([p.key for p in named.parameters], named.parameter_count) == (["a", "b", "a"], 2)
    assert one("SELECT $a$ $1 ? $a$", s.Query).parameters == ()


@pytest.mark.parametrize(
    "sql", ["SELECT $1, ?", "SELECT $a, $1", "SELECT $0", "SELECT $70000", "SELECT $" + "9" * 9000]
)
def test_wrong_parameters_are_refused(sql: str) -> None:
    with pytest.raises(SqlSyntaxError, match="parameter") as caught:
        parse(sql)
    assert caught.value.position is not None
