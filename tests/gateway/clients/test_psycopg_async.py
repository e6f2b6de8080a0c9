"""psycopg, async: the checklist, in binary where it can be asked for."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from decimal import Decimal
from typing import Any

import psycopg
import pytest
from psycopg import errors

from gateway.clients.until import WAIT_S, until, until_it_runs
from gateway.clients.values import PYTHON, SLOW, TABLE, VALUES
from penstock import Flow

INSERT = f"INSERT INTO everything VALUES ({', '.join(['%s'] * (len(VALUES) + 1))})"
Work = Callable[["psycopg.AsyncConnection[Any]"], Awaitable[None]]


@pytest.fixture
def connected(url: str) -> Callable[[Work], None]:
    """Run a function with a connection."""

    async def run(work: Work) -> None:
        async with await psycopg.AsyncConnection.connect(url, autocommit=True) as connection:
            await work(connection)

    return lambda work: asyncio.run(run(work))


@pytest.mark.parametrize("binary", [False, True], ids=["text", "binary"])
def test_types(connected: Callable[[Work], None], binary: bool) -> None:
    async def work(connection: psycopg.AsyncConnection[Any]) -> None:
        cursor = connection.cursor(binary=binary)
        await cursor.execute(TABLE)
        await cursor.execute(INSERT.replace("%s", "%b" if binary else "%t"), (1, *PYTHON))
        await cursor.execute("SELECT * FROM everything")
        assert await cursor.fetchall() == [(1, *PYTHON)]

    connected(work)


def test_nulls(connected: Callable[[Work], None]) -> None:
    async def work(connection: psycopg.AsyncConnection[Any]) -> None:
        await connection.execute(TABLE)
        await connection.execute(INSERT, (1, *[None] * len(VALUES)))
        found = await connection.execute("SELECT * FROM everything", binary=True)
        assert await found.fetchall() == [(1, *[None] * len(VALUES))]

    connected(work)


def test_errors(connected: Callable[[Work], None]) -> None:
    async def work(connection: psycopg.AsyncConnection[Any]) -> None:
        with pytest.raises(errors.UndefinedColumn) as caught:
            await connection.execute("SELECT %s, amont FROM orders", ["x"])
        found = caught.value.diag
        assert (found.sqlstate, found.statement_position, found.message_hint) == (
            "42703",
            "12",
            'Did you mean "amount"?',
        )
        with pytest.raises(errors.UniqueViolation):
            await connection.execute("INSERT INTO orders VALUES (%s, 'x', 1)", [1])
        assert await (await connection.execute("SELECT 7")).fetchone() == (7,)

    connected(work)


def test_transactions(flow: Flow, connected: Callable[[Work], None]) -> None:
    async def work(connection: psycopg.AsyncConnection[Any]) -> None:
        before = flow.epoch
        async with connection.transaction():
            await connection.execute("INSERT INTO orders VALUES (3, 'cy', 1)")
            with pytest.raises(errors.UniqueViolation):
                async with connection.transaction():
                    await connection.execute("INSERT INTO orders VALUES (4, 'cy', 1), (1, 'cy', 1)")
        assert flow.epoch == before + 1
        with pytest.raises(errors.InFailedSqlTransaction):
            async with connection.transaction():
                with pytest.raises(errors.DivisionByZero):
                    await connection.execute("SELECT 1 / 0")
                await connection.execute("DELETE FROM orders")
        assert await (await connection.execute("SELECT count(*) FROM orders")).fetchone() == (3,)

    connected(work)


def test_prepared_statements(connected: Callable[[Work], None]) -> None:
    async def work(connection: psycopg.AsyncConnection[Any]) -> None:
        connection.prepare_threshold = 0
        for id, row in ((1, ("ann", Decimal(10))), (2, ("bob", Decimal(5))), (3, None)) * 2:
            found = await connection.execute("SELECT customer, amount FROM orders WHERE id = %s", [id])
            assert await found.fetchone() == row
        await connection.execute("DEALLOCATE ALL")

    connected(work)


def test_copy(connected: Callable[[Work], None]) -> None:
    async def work(connection: psycopg.AsyncConnection[Any]) -> None:
        cursor = connection.cursor()
        wanted = [("3", 'a\tb\n"é"', "1.50"), ("4", None, None)]
        async with cursor.copy("COPY orders FROM STDIN") as copy:
            for row in wanted:
                await copy.write_row(row)
        async with cursor.copy("COPY (SELECT * FROM orders WHERE id > 2 ORDER BY id) TO STDOUT") as copy:
            assert [row async for row in copy.rows()] == wanted
        with pytest.raises(errors.InvalidTextRepresentation):
            async with cursor.copy("COPY orders FROM STDIN") as copy:
                await copy.write_row(("no number", "x", None))

    connected(work)


def test_cancel(flow: Flow, connected: Callable[[Work], None]) -> None:
    async def work(connection: psycopg.AsyncConnection[Any]) -> None:
        running = asyncio.create_task(connection.execute(SLOW))
        await asyncio.to_thread(until_it_runs, flow)
        await connection.cancel_safe()
        with pytest.raises(errors.QueryCanceled):
            await running
        running = asyncio.create_task(connection.execute(SLOW))
        await asyncio.to_thread(until_it_runs, flow)
        running.cancel()  # the task: psycopg cancels the statement
        with pytest.raises(asyncio.CancelledError):
            await running
        assert await (await connection.execute("SELECT 7")).fetchone() == (7,)

    connected(work)


def test_cursors(flow: Flow, connected: Callable[[Work], None]) -> None:
    async def work(connection: psycopg.AsyncConnection[Any]) -> None:
        async with connection.transaction(), connection.cursor("c", binary=True) as cursor:
            await cursor.execute("SELECT i FROM range(50) t(i)")
            assert await cursor.fetchmany(2) == [(0,), (1,)]
            await asyncio.to_thread(flow.sql, "DELETE FROM orders")  # an epoch in between
            assert [row async for row in cursor] == [(i,) for i in range(2, 50)]

    connected(work)


def test_subscribe(flow: Flow, connected: Callable[[Work], None]) -> None:
    async def work(connection: psycopg.AsyncConnection[Any]) -> None:
        start, rows = flow.epoch, connection.cursor().stream("SUBSCRIBE totals")
        assert sorted([await anext(rows), await anext(rows)]) == [(start, 1, "ann", 10), (start, 1, "bob", 5)]
        await asyncio.to_thread(flow.sql, "DELETE FROM orders WHERE id = 2")
        assert await anext(rows) == (start + 1, -1, "bob", 5)
        await rows.aclose()  # type: ignore[attr-defined]
        assert await (await connection.execute("SELECT 7")).fetchone() == (7,)

    connected(work)
    until(lambda: not flow._watches)


def test_listen(flow: Flow, connected: Callable[[Work], None]) -> None:
    async def work(connection: psycopg.AsyncConnection[Any]) -> None:
        await connection.execute("LISTEN totals")
        await asyncio.to_thread(flow.sql, "INSERT INTO orders VALUES (3, 'ann', 1)")
        async for heard in connection.notifies(timeout=WAIT_S, stop_after=1):
            assert (heard.channel, json.loads(heard.payload)) == ("totals", {"epoch": flow.epoch, "rows": 2})
            return
        pytest.fail("nothing was heard")

    connected(work)
