"""The schema penstock over the wire: types in both formats, prepared statements, cursors, COPY."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from datetime import UTC, datetime

import asyncpg
import psycopg
import pytest

from penstock import Flow
from penstock.engine.system import RELATIONS
from penstock.gateway.background import serving


@pytest.fixture
def flow() -> Iterator[Flow]:
    with Flow() as flow:
        flow.sql("CREATE TABLE orders (id BIGINT PRIMARY KEY, customer TEXT, amount BIGINT)")
        flow.sql(
            "CREATE MATERIALIZED VIEW totals WITH (freshness = '1s') AS "
            "SELECT customer, sum(amount) AS total FROM orders GROUP BY customer"
        )
        flow.sql("INSERT INTO orders VALUES (1, 'ann', 10), (2, 'bob', 3)")
        yield flow


@pytest.mark.parametrize("binary", [False, True])
def test_values_of_every_type(flow: Flow, binary: bool) -> None:
    with serving(flow) as url, psycopg.connect(url, autocommit=True) as connection:
        cursor = connection.cursor(binary=binary)
        found = cursor.execute("SELECT name, depends_on, freshness_target_s FROM penstock.views").fetchall()
        assert found == [("totals", ["orders"], 1.0)]
        found = cursor.execute("SELECT time, epoch, event, detail FROM penstock.audit_log LIMIT 2").fetchall()
        assert [(epoch, event) for _, epoch, event, _ in found] == [(0, "opened"), (0, "create")]
        assert found[1][3]["name"] == "orders"  # json is read as such
        assert abs((datetime.now(UTC) - found[1][0]).total_seconds()) < 3_600
        found = cursor.execute("SELECT durable FROM penstock.epochs WHERE epoch = %s", [1]).fetchall()
        assert found == [(None,)]
        for relation in RELATIONS:
            cursor.execute(f"SELECT * FROM penstock.{relation.name}")
            assert [c.name for c in cursor.description or ()] == [n for n, _ in relation.columns]


def test_statements_of_all_kinds(flow: Flow) -> None:
    with serving(flow) as url, psycopg.connect(url) as connection:
        joined = (
            "SELECT a.name FROM penstock.arrangements a JOIN penstock.laws l USING (node) WHERE l.view = %s"
        )
        assert len(connection.execute(joined, ["totals"]).fetchall()) == 1
        connection.execute(
            "INSERT INTO orders VALUES (3, 'cid', 1)"
        )  # in a transaction: they show what is committed
        epochs = connection.execute("SELECT max(epoch) FROM penstock.epochs").fetchone()
        assert epochs == (1,)
        connection.commit()
        assert connection.execute("SELECT max(epoch) FROM penstock.epochs").fetchone() == (2,)
        with connection.cursor("c") as cursor:
            cursor.execute("SELECT name FROM penstock.tables")
            assert cursor.fetchall() == [("orders",)]
        with connection.cursor() as cursor:
            with cursor.copy("COPY (SELECT view, degraded_reason FROM penstock.freshness) TO STDOUT") as copy:
                assert b"".join(copy) == b"totals\tHEALTHY\n"
        with pytest.raises(psycopg.errors.FeatureNotSupported, match="tells of the flow itself"):
            connection.execute("CREATE MATERIALIZED VIEW x AS SELECT * FROM penstock.views")


def test_definitions_have_their_author(flow: Flow) -> None:
    with serving(flow) as url, psycopg.connect(url, autocommit=True) as connection:
        connection.execute("ALTER MATERIALIZED VIEW totals SET (freshness = '5 s')")
        connection.execute("ALTER SYSTEM PAUSE")
        with pytest.raises(psycopg.errors.ObjectNotInPrerequisiteState, match="paused"):
            connection.execute("INSERT INTO orders VALUES (3, 'cid', 1)")
        reason = connection.execute("SELECT target_s, degraded_reason FROM penstock.freshness").fetchone()
        assert reason == (5.0, "PAUSED")
        connection.execute("ALTER SYSTEM RESUME")
        found = connection.execute(
            "SELECT event, actor, session FROM penstock.audit_log ORDER BY number DESC LIMIT 3"
        ).fetchall()
        number = found[0][2]
        assert found == [(event, "penstock", number) for event in ("resume", "pause", "alter")]


def test_asyncpg_reads_them_prepared(flow: Flow) -> None:
    async def work(url: str) -> list[tuple[object, ...]]:
        connection = await asyncpg.connect(url)
        try:
            rows = await connection.fetch(
                "SELECT view, compliance FROM penstock.freshness WHERE view = $1", "totals"
            )
            return [tuple(row.values()) for row in rows]
        finally:
            await connection.close()

    with serving(flow) as url:
        assert asyncio.run(work(url)) == [("totals", 1.0)]
