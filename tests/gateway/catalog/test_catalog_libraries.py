"""The catalog as libraries ask for it: reflection and metadata."""

from __future__ import annotations

import asyncio

import asyncpg
import sqlalchemy as sa

from penstock import Flow


def test_sqlalchemy_reflects(shop: tuple[Flow, str]) -> None:
    engine = sa.create_engine(shop[1].replace("postgresql://", "postgresql+psycopg://"))
    found = sa.inspect(engine)
    assert sorted(found.get_table_names()) == ['Odd "name', "orders"]
    assert found.get_view_names() == ["big"]
    assert found.get_materialized_view_names() == ["totals"]
    assert "public" in found.get_schema_names()
    columns = {c["name"]: c for c in found.get_columns("orders")}
    assert list(columns) == ["id", "customer", "amount", "tags", "made"]
    assert [str(c["type"]) for c in columns.values()] == [
        "BIGINT",
        "TEXT",
        "NUMERIC(12, 2)",
        "ARRAY",
        "TIMESTAMP",
    ]
    assert [c["nullable"] for c in columns.values()] == [False, False, True, True, True]
    assert columns["amount"]["default"] == "1.5"
    assert found.get_pk_constraint("orders")["constrained_columns"] == ["id"]
    assert found.get_foreign_keys("orders") == []
    assert [c["name"] for c in found.get_columns("totals")] == ["customer", "total"]
    assert str(found.get_view_definition("big")).startswith("SELECT id, amount FROM orders")
    assert not found.has_table("nothing")
    metadata = sa.MetaData()
    metadata.reflect(engine, views=True)
    assert {'Odd "name', "big", "orders"} <= set(metadata.tables)
    orders = metadata.tables["orders"]
    with engine.connect() as connection:
        assert connection.execute(sa.select(orders.c.customer, orders.c.tags)).all() == [("ann", ["x", "y"])]
    engine.dispose()


async def _asyncpg(url: str) -> None:
    connection = await asyncpg.connect(url)
    try:
        assert await connection.fetchval("SELECT tags FROM orders WHERE tags = $1", ["x", "y"]) == ["x", "y"]
        row = await connection.fetchrow("SELECT relname, relacl FROM pg_class WHERE relname = $1", "orders")
        assert row["relname"] == "orders"
        assert "ann=r/penstock" in [str(item) for item in row["relacl"]]
        types = await connection.fetch(
            "SELECT oid, typname FROM pg_type WHERE oid = ANY($1::oid[])", [23, 25]
        )
        assert {t["typname"] for t in types} == {"int4", "text"}
    finally:
        await connection.close()


def test_asyncpg_asks_for_types(shop: tuple[Flow, str]) -> None:
    asyncio.run(_asyncpg(shop[1]))
