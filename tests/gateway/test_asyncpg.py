"""asyncpg, which prepares and describes every statement and reads binary results only."""

from __future__ import annotations

import asyncio
import datetime as dt
import uuid
from collections.abc import Awaitable, Callable
from decimal import Decimal

import asyncpg
import pytest

ROW = (
    1, Decimal("1.50"), "it's", dt.datetime(2020, 1, 1, tzinfo=dt.UTC), dt.date(2020, 2, 29), uuid.UUID(int=5),
    '{"a": 1}', b"\0'", dt.timedelta(days=1, seconds=5), True, 2.5,
)  # fmt: skip
TABLE = (
    "CREATE TABLE t (id BIGINT PRIMARY KEY, n DECIMAL(12,2), s TEXT, ts TIMESTAMPTZ, d DATE, u UUID, j JSON, "
    "b BLOB, i INTERVAL, f BOOLEAN, x DOUBLE)"
)


def connected(url: str, work: Callable[[asyncpg.Connection], Awaitable[None]]) -> None:
    async def run() -> None:
        connection = await asyncpg.connect(url)
        try:
            await connection.execute(TABLE)
            places = ", ".join(f"${i}" for i in range(1, len(ROW) + 1))
            assert await connection.execute(f"INSERT INTO t VALUES ({places})", *ROW) == "INSERT 0 1"
            await work(connection)
        finally:
            await connection.close()

    asyncio.run(run())


def test_types(url: str) -> None:
    async def work(connection: asyncpg.Connection) -> None:
        assert tuple(await connection.fetchrow("SELECT * FROM t WHERE id = $1 AND d = $2", 1, ROW[4])) == ROW
        await connection.execute("INSERT INTO t (id) VALUES ($1)", 2)
        assert tuple(await connection.fetchrow("SELECT * FROM t WHERE id = 2")) == (2, *[None] * 10)

    connected(url, work)


def test_errors_do_not_hang(url: str) -> None:
    async def work(connection: asyncpg.Connection) -> None:
        for _ in range(3):
            with pytest.raises(asyncpg.UndefinedColumnError):
                await connection.fetch("SELECT nope FROM t")
            with pytest.raises(asyncpg.UniqueViolationError):
                await connection.execute("INSERT INTO t (id) VALUES ($1)", 1)
        assert await connection.fetchval("SELECT 7") == 7

    connected(url, work)


def test_transactions_and_cursors(url: str) -> None:
    async def work(connection: asyncpg.Connection) -> None:
        await connection.executemany(
            "INSERT INTO t (id, s) VALUES ($1, $2)", [(i, "x") for i in range(2, 50)]
        )
        async with connection.transaction():
            found = [row["id"] async for row in connection.cursor("SELECT id FROM t ORDER BY id", prefetch=7)]
            assert found == list(range(1, 50))
            with pytest.raises(asyncpg.UniqueViolationError):
                async with connection.transaction():
                    await connection.execute("INSERT INTO t (id) VALUES (1)")
            await connection.execute("DELETE FROM t WHERE id > 10")
        assert await connection.fetchval("SELECT count(*) FROM t") == 10

    connected(url, work)


def test_a_timeout_cancels(url: str) -> None:
    slow = "SELECT count(*) FROM range(100000000) a, range(1000000) b WHERE (a.range * b.range) % 7 = 3"

    async def work(connection: asyncpg.Connection) -> None:
        with pytest.raises(asyncio.TimeoutError):
            await connection.fetch(slow, timeout=0.3)
        assert await connection.fetchval("SELECT 7") == 7

    connected(url, work)


def test_pools(url: str) -> None:
    async def run() -> None:
        async with asyncpg.create_pool(url, min_size=1, max_size=3) as pool:
            found = await asyncio.gather(*(pool.fetchval("SELECT $1::INT + 1", i) for i in range(10)))
            assert found == list(range(1, 11))

    asyncio.run(run())
