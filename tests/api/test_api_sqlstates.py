"""Errors have PostgreSQL's own SQLSTATE: each statement is refused here and there, with the same code."""

from __future__ import annotations

from collections.abc import Iterator

import psycopg
import pytest

import penstock
from postgres import Postgres

TABLE = "CREATE TABLE one (x int, y int, s text)"
ROW = "INSERT INTO one VALUES (1, 2, '2020-13-01')"

STATEMENTS = [
    "CREATE TABLE b (y int, z nosuch)",
    "SELECT CAST('a' AS nosuch)",
    "SELECT x FROM one a, one b",
    "SELECT x, y FROM one GROUP BY x",
    "SELECT x, count(*) FROM one",
    "SELECT x FROM one HAVING y > 1",
    "SELECT sum(count(*)) FROM one",
    "SELECT sum(row_number() OVER ()) FROM one",
    "SELECT x FROM one WHERE count(*) > 1",
    "SELECT count(*) FROM one GROUP BY sum(x)",
    "CREATE MATERIALIZED VIEW v AS SELECT x, y FROM one GROUP BY x",
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


@pytest.fixture(scope="module")
def flow() -> Iterator[penstock.Flow]:
    with penstock.Flow() as flow:
        flow.sql(TABLE)
        flow.sql(ROW)
        yield flow


@pytest.fixture(scope="module")
def judge_server(postgres_server: Postgres) -> Postgres:
    postgres_server.reset()
    postgres_server.execute(TABLE)
    postgres_server.execute(ROW)
    return postgres_server


def refused_by_postgres(server: Postgres, statement: str) -> psycopg.Error:
    with pytest.raises(psycopg.Error) as caught:
        server.execute(statement)
    return caught.value


@pytest.mark.parametrize("statement", STATEMENTS)
def test_the_code_is_that_of_postgres(flow: penstock.Flow, judge_server: Postgres, statement: str) -> None:
    expected = refused_by_postgres(judge_server, statement)
    with pytest.raises(penstock.PenstockError) as caught:
        flow.sql(statement)
    assert caught.value.sqlstate == expected.sqlstate, (str(caught.value), str(expected))


def test_what_is_not_known_stays_a_coarser_error(flow: penstock.Flow) -> None:
    with pytest.raises(penstock.BindError) as caught:
        flow.sql("SELECT unnest([1]) FROM one WHERE unnest([true])")
    assert caught.value.sqlstate == "42000"
