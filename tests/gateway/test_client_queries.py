"""What clients ask the catalog when they start and when they look around: each query is answered, in every way.

`client_queries.json` has two parts: queries that were recorded between a client and this server, and queries of clients
that cannot be run in the tests, written with the same constructs.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest
from psycopg.generators import execute

from penstock import Flow
from penstock.gateway.background import serving

GROUPS: dict[str, dict[str, list[str]]] = json.loads(
    Path(__file__).with_name("client_queries.json").read_text(encoding="utf-8")
)
CLIENTS = {client: queries for group in GROUPS.values() for client, queries in group.items()}

# What must be in the answers of a client, taken together.
EXPECTED = {
    "pgjdbc 42.5": ["orders_pkey", "totals", "'amount'", "MATERIALIZED VIEW"],
    "dbt-postgres 1.9": ["'totals', 'public', 'materialized_view'", "'orders', 'public', 'table'", "'big', 'public', 'view'"],
    "Django 5": ["('orders', 't'", "('totals', 'v'", "'orders_amount_check'"],
    "pgcli": ["('penstock',)", "('information_schema',)"],
    "ADBC": ["'customer'"],
    "psql 15, tab completion": ["('orders', None)", "('totals', None)", "('customer', None)", "('penstock',)"],
    "Metabase": [
        "('public', 'totals', 'MATERIALIZED VIEW'",
        "(None, 'public', 'orders', True, True, True)",
        "('id', 'int8', 0, 'public', 'orders', True, None, True)",
        "('total', 'numeric', 1, 'public', 'totals'",
    ],
    "Grafana": ["[(1800,)]", "('orders',)", "('made', 'timestamp with time zone')"],
    "DBeaver": ["'orders_pkey'", "SELECT customer, sum(amount) AS total FROM orders", "'numeric'"],
    "Npgsql": ["'int4', 'b'", "'text', 'b'"],
    "psqlODBC": ["('orders', 'public', 'r')", "'customer', 25, 'text', 2", "('id', 1, 'orders_pkey', 'public', 'orders')"],
    "Tableau": ["('public', 'big', 'VIEW')", "('id', 'PRIMARY KEY')", "(False, 'UTF8')"],
    "Hasura": ["'columns': ['id', 'customer', 'amount', 'tags', 'made']", "[(True, True)]"],
    "Rails": ["('amount', 'numeric(12,2)', '1.5', False", "[('orders',)]"],
}  # fmt: skip


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with Flow() as flow:
        flow.sql("""
            CREATE TABLE orders (
                id BIGINT PRIMARY KEY, customer TEXT NOT NULL,
                amount DECIMAL(12,2) DEFAULT 1.5 CHECK (amount > 0), tags TEXT[], made TIMESTAMPTZ
            );
            CREATE VIEW big AS SELECT id, amount FROM orders WHERE amount > 100;
            CREATE MATERIALIZED VIEW totals AS SELECT customer, sum(amount) AS total FROM orders GROUP BY customer;
            INSERT INTO orders VALUES (1, 'ann', 10, ['x'], NULL);
        """)
        with serving(flow) as url:
            yield url


def test_there_are_enough_clients() -> None:
    assert len(CLIENTS) >= 8
    assert sum(map(len, CLIENTS.values())) >= 80
    assert set(EXPECTED) == set(CLIENTS)


@pytest.mark.parametrize("client", CLIENTS)
def test_answers(url: str, client: str) -> None:
    """As simple queries, and prepared with answers in binary: both give the same rows."""
    seen = []
    with psycopg.connect(url, autocommit=True) as connection:
        for sql in CLIENTS[client]:
            if re.search(r"\$\d", sql):
                continue  # described below
            rows = connection.execute(sql).fetchall()  # type: ignore[call-overload]
            seen.append(str(rows))
            answer = connection.pgconn.exec_params(sql.encode(), [], result_format=1)
            if b"no binary output function" in answer.error_message:  # PostgreSQL has none for aclitem
                answer = connection.pgconn.exec_params(sql.encode(), [], result_format=0)
            assert answer.error_message == b"", sql
            assert answer.ntuples == len(rows), sql
    for wanted in EXPECTED[client]:
        assert any(wanted in answer for answer in seen), wanted


@pytest.mark.parametrize("client", CLIENTS)
def test_descriptions(url: str, client: str) -> None:
    """The types of the parameters and of the columns, before anything runs."""
    with psycopg.connect(url, autocommit=True) as connection:
        for i, sql in enumerate(CLIENTS[client]):
            name = f"s{i}".encode()
            connection.pgconn.send_prepare(name, sql.encode())
            (prepared,) = connection.wait(execute(connection.pgconn))
            assert prepared.error_message == b"", sql
            # Not describe_prepared(), which holds Python's lock while it waits for the server, which is us.
            connection.pgconn.send_describe_prepared(name)
            (described,) = connection.wait(execute(connection.pgconn))
            assert described.error_message == b"", sql
            numbers = {int(n) for n in re.findall(r"\$(\d)", sql)}
            assert described.nparams == max(numbers, default=0), sql
            assert described.nfields > 0, sql
            assert all(described.ftype(column) for column in range(described.nfields)), sql
