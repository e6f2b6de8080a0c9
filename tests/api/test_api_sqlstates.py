"""Errors have PostgreSQL's own SQLSTATE: each statement is refused here and there, with the same code."""

from __future__ import annotations

import pytest

import penstock
from api.refusals import refused, refused_by_postgres
from penstock.base.errors import BindError
from postgres import Postgres

STATEMENTS = [
    "CREATE TABLE b (y int, z nosuch)",
    "SELECT CAST('a' AS nosuch)",
    "SELECT x FROM one a, one b",
    "SELECT x, y FROM one GROUP BY y",
    "SELECT x, count(*) FROM one",
    "SELECT x FROM one HAVING y > 1",
    "SELECT sum(count(*)) FROM one",
    "SELECT sum(row_number() OVER ()) FROM one",
    "SELECT x FROM one WHERE count(*) > 1",
    "SELECT count(*) FROM one GROUP BY sum(x)",
    "CREATE MATERIALIZED VIEW v AS SELECT x, y FROM one GROUP BY y",
    "SELECT x FROM one WHERE row_number() OVER () > 1",
    "SELECT x FROM one ORDER BY 7",
    "SELECT count(*) FROM one GROUP BY 7",
    "CREATE TABLE b (x int, x int)",
    "CREATE TABLE b AS SELECT 1 AS x, 2 AS x",
    "CREATE VIEW v (a, a) AS SELECT x, y FROM one",
    "INSERT INTO one (x, x) VALUES (1, 2)",
    "UPDATE one SET x = 1, x = 2",
    "SELECT 1 UNION SELECT 1, 2",
    "SELECT (SELECT 1, 2)",
    "INSERT INTO one VALUES (1, 2, 'a', 4)",
    "INSERT INTO one VALUES (1, 2, 'a', DEFAULT)",
    "SELECT x FROM one LIMIT -1",
    "SELECT x FROM one LIMIT 1 OFFSET -1",
    "CREATE TABLE b (x int, PRIMARY KEY (z))",
    "CREATE TABLE b (x int CHECK (z > 1))",
    "SELECT a.nosuch FROM one AS a",
    "SELECT date '2020-13-01'",
    "SELECT date 'hello'",
    "SELECT timestamp '2020-01-01 25:00:00'",
    "SELECT timestamp 'hello'",
    "SELECT time '25:00:00'",
    "SELECT time 'hello'",
    "SELECT interval 'hello'",
    "SELECT CAST(s AS date) FROM one",
    "CREATE MATERIALIZED VIEW v AS SELECT CAST(s AS date) AS d FROM one",
    "SELECT x::date FROM one",
    "SELECT 'a'::int",
    "SELECT sqrt(-1)",
    "SELECT sqrt(x - 5) FROM one",
    "SELECT power(0, -1)",
    "SELECT ln(0)",
    "SELECT ln(-x) FROM one",
    "CREATE MATERIALIZED VIEW v AS SELECT ln(-x) AS l FROM one",
    "SELECT $1",
    "DELETE FROM one WHERE x = $1",
]


@pytest.mark.parametrize("statement", STATEMENTS)
def test_the_code_is_that_of_postgres(
    flow_with_one: penstock.Flow, postgres_with_one: Postgres, statement: str
) -> None:
    expected = refused_by_postgres(postgres_with_one, statement)
    error = refused(flow_with_one, statement)
    assert error.sqlstate == expected.sqlstate, (str(error), str(expected))


def test_what_is_not_known_stays_a_coarser_error(flow_with_one: penstock.Flow) -> None:
    error = refused(flow_with_one, "SELECT unnest([1]) FROM one WHERE unnest([true])")
    assert isinstance(error, BindError)
    assert error.sqlstate == "42000"
