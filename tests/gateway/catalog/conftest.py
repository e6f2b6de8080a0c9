"""A shop to look at through pg_catalog and information_schema: its server, its owner and a role."""

from __future__ import annotations

from collections.abc import Iterator

import psycopg
import pytest

from penstock import Flow
from penstock.gateway.background import serving

SHOP = """
    CREATE TABLE orders (
        id BIGINT PRIMARY KEY, customer TEXT NOT NULL, amount DECIMAL(12,2) DEFAULT 1.5 CHECK (amount > 0),
        tags TEXT[], made TIMESTAMPTZ
    );
    CREATE TABLE "Odd ""name" (a INTEGER, "select" DOUBLE, PRIMARY KEY (a));
    CREATE VIEW big AS SELECT id, amount FROM orders WHERE amount > 100;
    CREATE MATERIALIZED VIEW totals AS SELECT customer, sum(amount) AS total FROM orders GROUP BY customer;
    CREATE ROLE ann LOGIN;
    GRANT SELECT ON orders TO ann;
    INSERT INTO orders VALUES (1, 'ann', 10, ['x', 'y'], NULL);
"""


@pytest.fixture(scope="session")
def shop() -> Iterator[tuple[Flow, str]]:
    """One for all tests of a worker: none of them changes it."""
    with Flow() as flow:
        flow.sql(SHOP)
        with serving(flow) as url:
            yield flow, url


@pytest.fixture
def catalog(shop: tuple[Flow, str]) -> Iterator[psycopg.Connection]:
    with psycopg.connect(shop[1], autocommit=True) as connection:
        yield connection


@pytest.fixture
def ann(shop: tuple[Flow, str]) -> Iterator[psycopg.Connection]:
    with psycopg.connect(shop[1].replace("penstock@", "ann@"), autocommit=True) as connection:
        yield connection
