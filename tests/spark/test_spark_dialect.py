"""What flow.spark_sql refuses, with the place in the text; and its statements, without Spark."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import penstock

REFUSED = (
    ("SELECT rand() AS r FROM t", "the function rand is not translated", "rand"),
    ("SELECT current_timestamp() AS r FROM t", "the function current_timestamp is not translated", None),
    ("SELECT a FROM t GROUP BY a WITH ROLLUP", "ROLLUP is not translated", "a"),
    ("SELECT first(a) AS x FROM t", "the function first is not translated", "first"),
    ("SELECT approx_count_distinct(a) AS x FROM t", "approx_count_distinct is not translated", None),
    ("SELECT CAST(d AS STRING) AS x FROM t", "a cast from DOUBLE to VARCHAR", "d"),
    ("SELECT s RLIKE '(?=a)' AS x FROM t", "in a regular expression is not translated", None),
    ("SELECT s RLIKE s AS x FROM t", "a regular expression that is no literal", "s AS x"),
    ("SELECT split(s, '[ab]') AS x FROM t", "split by a regular expression", None),
    ("SELECT date_format(dt, 'G') AS x FROM t", "the letters G in a date format", None),
    ("SELECT dt - dt AS x FROM t", "- on DATE is not translated", "dt"),
    ("SELECT a FROM t TABLESAMPLE (10 PERCENT)", "SAMPLE is not translated", "t"),
    ("SELECT * FROM t PIVOT (sum(a) FOR s IN ('x'))", "PIVOTS is not translated", None),
    ("SELECT a FROM other.t", "a flow has no schemas or catalogs", "other"),
    ("SELECT a FROM t SORT BY a", "SORT is not translated", None),
    ("SELECT a FROM t ORDER BY a LIMIT a", "LIMIT that is no literal", None),
    ("INSERT OVERWRITE t SELECT * FROM t", "OVERWRITE is not translated", None),
    ("CREATE TABLE x (a INT) USING delta", "USING DELTA is not translated", None),
    ("CREATE TABLE x (a VARIANT)", "the type VARIANT is not translated", None),
    ("CREATE STREAMING TABLE x AS SELECT * FROM t", "CREATE STREAMING TABLE is not translated", None),
    ("DELETE FROM t WHERE a = 1", "DELETE is not translated from Spark SQL", None),
    ("SELECT a LIKE 'x' FROM t", "column 1 of the query has no name", None),
    ("SELECT transform(l, x -> x + 1) AS y FROM t", "is not translated", None),
    ("SELECT CASE WHEN a THEN 1 END AS y FROM t", "a condition of type INTEGER", "a THEN"),
    ("SELECT coalesce(a, dt) AS y FROM t", "has no common type", "dt"),
    ("SELECT a + s2 AS y FROM t", 'column "s2" does not exist', "s2"),
    ("SELECT t.nope FROM t", 'column "t.nope" does not exist', "t.nope"),
    ("SELECT a FROM nowhere", 'table or view "nowhere" does not exist', "nowhere"),
    ("SELECT a FROM t JOIN t ON true", '"t" stands for two things', None),
    ("SELECT x.a, a FROM t x, t y", 'column "a" is ambiguous', "a FROM"),
    ("SELECT a AS x, a AS X FROM t", "named twice", None),
    ("SELECT FROM WHERE", "Spark SQL: ", None),
    ("SELECT (a FROM t", "Spark SQL: expecting )", None),
)


@pytest.fixture
def flow() -> Iterator[penstock.Flow]:
    flow = penstock.Flow()
    flow.spark_sql("CREATE TABLE t (a INT, s STRING, d DOUBLE, dt DATE, l ARRAY<INT>)")
    yield flow
    flow.close()


@pytest.mark.parametrize(("query", "message", "at"), REFUSED)
def test_what_is_refused_is_named_with_its_place(
    flow: penstock.Flow, query: str, message: str, at: str | None
) -> None:
    text = f"CREATE MATERIALIZED VIEW v AS {query}" if query.startswith("SELECT") else query
    with pytest.raises(penstock.PenstockError) as caught:
        flow.spark_sql(text)
    assert message in caught.value.message
    if at is not None:
        assert caught.value.position is not None
        assert text[caught.value.position :].startswith(at)


def test_statements_run_one_after_the_other(flow: penstock.Flow) -> None:
    answer = flow.spark_sql("""
        CREATE TABLE orders (id INT NOT NULL PRIMARY KEY, customer STRING, amount DECIMAL(10,2) DEFAULT 0);
        INSERT INTO orders VALUES (1, 'ann', 10), (2, 'bob', 2.5);
        INSERT INTO orders (customer, id) SELECT concat(customer, '!'), id + 10 FROM orders WHERE amount > 5;
        CREATE OR REPLACE TEMPORARY VIEW big AS SELECT * FROM orders WHERE amount >= 1;
        CREATE MATERIALIZED VIEW per (who, share) AS SELECT customer, avg(amount) / 3 FROM big GROUP BY customer;
        SELECT who, share FROM per ORDER BY who
    """)
    assert [tuple(str(each) for each in row.values()) for row in answer.to_pylist()] == [
        ("ann", "3.33333333"),
        ("bob", "0.83333333"),
    ]
    flow.spark_sql("INSERT INTO orders VALUES (3, 'ann', 5)")
    assert str(flow.sql("SELECT share FROM per WHERE who = 'ann'").to_pylist()[0]["share"]) == "2.50000000"
    flow.spark_sql("DROP MATERIALIZED VIEW per; DROP VIEW IF EXISTS big")


def test_values_keep_the_rules_of_assignment(flow: penstock.Flow) -> None:
    flow.spark_sql("INSERT INTO t (a, s) VALUES (CAST(2.9 AS INT), 'x')")
    assert flow.sql("SELECT a FROM t").to_pylist() == [{"a": 2}]
    with pytest.raises(penstock.BindError, match="2 values for 1 columns"):
        flow.spark_sql("INSERT INTO t (a) VALUES (1, 2)")


@pytest.mark.parametrize(
    "expression", ["l[3]", "l[-1]", "a / 0", "CAST(s AS INT)", "a % 0", "CAST('1.5' AS INT)"]
)
def test_what_is_an_error_in_ansi_mode_is_one_here(flow: penstock.Flow, expression: str) -> None:
    flow.spark_sql("INSERT INTO t (a, s, l) VALUES (1, '1e3', array(1, 2))")
    with pytest.raises(penstock.PenstockError):
        flow.spark_sql(f"CREATE MATERIALIZED VIEW v AS SELECT {expression} AS x FROM t")
