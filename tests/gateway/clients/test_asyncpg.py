"""asyncpg, which prepares and describes every statement. It knows one format, binary, for parameters and rows."""

from __future__ import annotations

import asyncio
import io
import json
from collections.abc import Awaitable, Callable
from decimal import Decimal
from pathlib import Path

import asyncpg
import pytest

from gateway.clients.until import WAIT_S, until
from gateway.clients.values import PYTHON, SLOW, TABLE, VALUES
from penstock import Flow

INSERT = f"INSERT INTO everything VALUES ({', '.join(f'${i + 1}' for i in range(len(VALUES) + 1))})"

NOTES = {"types": "binary only: it asks for nothing else"}


def connected(url: str, work: Callable[[asyncpg.Connection], Awaitable[None]]) -> None:
    async def run() -> None:
        connection = await asyncpg.connect(url)
        try:
            await work(connection)
        finally:
            await connection.close()

    asyncio.run(run())


def test_types(flow: Flow, url: str) -> None:
    async def work(connection: asyncpg.Connection) -> None:
        await connection.execute(TABLE)
        assert await connection.execute(INSERT, 1, *PYTHON) == "INSERT 0 1"
        assert tuple(await connection.fetchrow("SELECT * FROM everything WHERE n = $1", 1)) == (1, *PYTHON)
        assert await connection.fetchval("SELECT $1::JSON", '{"a": 1}') == '{"a": 1}'
        # Simple queries come in text; asyncpg gives their tags only.
        assert await connection.execute("SELECT * FROM everything") == "SELECT 1"

    connected(url, work)


def test_nulls(url: str) -> None:
    async def work(connection: asyncpg.Connection) -> None:
        await connection.execute(TABLE)
        await connection.execute(INSERT, 1, *[None] * len(VALUES))
        assert tuple(await connection.fetchrow("SELECT * FROM everything")) == (1, *[None] * len(VALUES))

    connected(url, work)


def test_errors(url: str) -> None:
    async def work(connection: asyncpg.Connection) -> None:
        for _ in range(3):
            with pytest.raises(asyncpg.UndefinedColumnError) as caught:
                await connection.fetch("SELECT amont FROM orders")
            found = caught.value
            assert (found.sqlstate, found.position, found.hint) == ("42703", "8", 'Did you mean "amount"?')
            with pytest.raises(asyncpg.UniqueViolationError):
                await connection.execute("INSERT INTO orders (id) VALUES ($1)", 1)
            with pytest.raises(asyncpg.PostgresSyntaxError):
                await connection.execute("SELEC 1")
        assert await connection.fetchval("SELECT 7") == 7

    connected(url, work)


def test_transactions(flow: Flow, url: str) -> None:
    async def work(connection: asyncpg.Connection) -> None:
        before = flow.epoch
        async with connection.transaction():
            await connection.execute("INSERT INTO orders VALUES (3, 'cy', 1)")
            with pytest.raises(asyncpg.UniqueViolationError):
                async with connection.transaction():  # a savepoint
                    await connection.execute("INSERT INTO orders VALUES (4, 'cy', 1)")
                    await connection.execute("INSERT INTO orders VALUES (1, 'cy', 1)")
            await connection.execute("INSERT INTO orders VALUES (5, 'cy', 1)")
        assert flow.epoch == before + 1
        assert await connection.fetchval("SELECT total FROM totals WHERE customer = 'cy'") == 2
        with pytest.raises(asyncpg.InFailedSQLTransactionError):
            async with connection.transaction():
                with pytest.raises(asyncpg.DivisionByZeroError):
                    await connection.execute("SELECT 1 / 0")
                await connection.execute("DELETE FROM orders")
        assert await connection.fetchval("SELECT count(*) FROM orders") == 4

    connected(url, work)


def test_prepared_statements(url: str) -> None:
    async def work(connection: asyncpg.Connection) -> None:
        found = await connection.prepare("SELECT customer, amount FROM orders WHERE id = $1")
        assert [t.name for t in found.get_parameters()] == ["int8"]
        assert [(a.name, a.type.name) for a in found.get_attributes()] == [
            ("customer", "text"),
            ("amount", "numeric"),
        ]
        for id, row in ((1, ("ann", Decimal(10))), (2, ("bob", Decimal(5))), (3, None)):
            assert await found.fetchrow(id) == row
        await connection.execute("PREPARE p (int) AS SELECT $1 + 1 AS n")  # SQL's own
        assert [r["n"] for r in await connection.fetch("EXECUTE p (41)")] == [42]
        await connection.executemany("INSERT INTO orders VALUES ($1, 'cy', 1)", [(i,) for i in range(10, 30)])
        assert await connection.fetchval("SELECT count(*) FROM orders") == 22

    connected(url, work)


def test_copy(flow: Flow, url: str, tmp_path: Path) -> None:
    async def work(connection: asyncpg.Connection) -> None:
        before = flow.epoch
        records = [(3, 'a\tb\n"é"', Decimal("1.50")), (4, None, None)]
        assert await connection.copy_records_to_table("orders", records=records) == "COPY 2"  # in binary
        assert flow.epoch == before + 1
        data = io.BytesIO()
        query = "SELECT * FROM orders WHERE id > $1"
        assert await connection.copy_from_query(query, 2, output=data, format="csv") == "COPY 2"
        await connection.execute("DELETE FROM orders WHERE id > 2")
        data.seek(0)
        assert await connection.copy_to_table("orders", source=data, format="csv") == "COPY 2"
        assert [tuple(r) for r in await connection.fetch(query + " ORDER BY id", 2)] == records
        with pytest.raises(asyncpg.UniqueViolationError):
            await connection.copy_records_to_table("orders", records=[(7, "x", None), (1, "twice", None)])
        assert await connection.fetchval("SELECT count(*) FROM orders") == 4

    connected(url, work)


def test_cancel(url: str) -> None:
    async def work(connection: asyncpg.Connection) -> None:
        with pytest.raises(asyncio.TimeoutError):
            await connection.fetch(SLOW, timeout=0.3)  # asyncpg sends a cancel request
        assert await connection.fetchval("SELECT 7") == 7
        await connection.execute("SET statement_timeout = '100ms'")
        with pytest.raises(asyncpg.QueryCanceledError):
            await connection.fetch(SLOW)

    connected(url, work)


def test_cursors(flow: Flow, url: str) -> None:
    async def work(connection: asyncpg.Connection) -> None:
        async with connection.transaction():
            found = []
            async for row in connection.cursor("SELECT i FROM range(100) t(i) WHERE i < $1", 50, prefetch=7):
                found.append(row["i"])
                if len(found) == 10:
                    await asyncio.to_thread(flow.sql, "DELETE FROM orders")  # an epoch in between
            assert found == list(range(50))
            cursor = await connection.cursor("SELECT i FROM range(9) t(i)")
            assert await cursor.forward(5) == 5
            assert [row["i"] for row in await cursor.fetch(100)] == [5, 6, 7, 8]

    connected(url, work)


def test_subscribe(flow: Flow, url: str) -> None:
    async def work(connection: asyncpg.Connection) -> None:
        async with connection.transaction():
            found = []
            async for record in connection.cursor("SUBSCRIBE totals", prefetch=10):
                found.append(tuple(record.items()))
                if len(found) == 2:
                    await asyncio.to_thread(flow.sql, "INSERT INTO orders VALUES (3, 'cy', 1)")
                if len(found) == 3:
                    break
            assert found[2] == (("epoch", flow.epoch), ("diff", 1), ("customer", "cy"), ("total", 1))
            cursor = await connection.cursor("SUBSCRIBE orders WITH (PROGRESS)")
            assert [r["progress"] for r in await cursor.fetch(4)] == [True, False, False, False]
            assert (await cursor.fetchrow())["progress"]
        with pytest.raises(asyncio.TimeoutError):
            await connection.fetch("SUBSCRIBE totals", timeout=0.2)  # asyncpg cancels
        assert await connection.fetchval("SELECT 7") == 7

    connected(url, work)
    until(lambda: not flow._watches)


def test_listen(flow: Flow, url: str) -> None:
    async def work(connection: asyncpg.Connection) -> None:
        other = await asyncpg.connect(url)
        got: asyncio.Queue[tuple[str, str]] = asyncio.Queue()
        await connection.add_listener(
            "t", lambda _c, _p, channel, payload: got.put_nowait((channel, payload))
        )
        await other.execute("CREATE TABLE t (a INT)")
        await other.execute("INSERT INTO t VALUES (1), (2)")
        await other.execute("SELECT pg_notify($1, $2)", "t", "x")
        found = {await asyncio.wait_for(got.get(), WAIT_S) for _ in range(2)}
        assert found == {("t", json.dumps({"epoch": flow.epoch, "rows": 2})), ("t", "x")}
        await other.close()

    connected(url, work)


def test_pools(url: str) -> None:
    async def run() -> None:
        async with asyncpg.create_pool(url, min_size=1, max_size=3) as pool:
            found = await asyncio.gather(*(pool.fetchval("SELECT $1::INT + 1", i) for i in range(10)))
            assert found == list(range(1, 11))

    asyncio.run(run())
