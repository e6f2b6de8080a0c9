"""psycopg in pipeline mode: statements go out before the answers to earlier ones are there.

What ends a pipeline, and what is one transaction in it, is in ../test_pipelines.py.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from typing import Any

import psycopg
import pytest
from psycopg import errors

from gateway.clients.until import WAIT_S, until_it_runs
from gateway.clients.values import PYTHON, SLOW, TABLE, VALUES
from penstock import Flow

CANNOT = {"copy": "libpq knows no COPY in pipeline mode"}


@pytest.fixture
def connection(url: str) -> Iterator[psycopg.Connection[Any]]:
    with psycopg.connect(url, autocommit=True) as connection:
        yield connection


def inserting(placeholder: str) -> str:
    return f"INSERT INTO everything VALUES ({', '.join([placeholder] * (len(VALUES) + 1))})"


@pytest.mark.parametrize("placeholder", ["%t", "%b"], ids=["text", "binary"])
def test_types(flow: Flow, connection: psycopg.Connection[Any], placeholder: str) -> None:
    flow.sql(TABLE)
    with connection.pipeline():
        for n in range(3):
            connection.execute(inserting(placeholder), (n, *PYTHON))  # type: ignore[call-overload]
        found = connection.execute("SELECT * FROM everything ORDER BY n", binary=placeholder == "%b")
        assert found.fetchall() == [(n, *PYTHON) for n in range(3)]


def test_nulls(flow: Flow, connection: psycopg.Connection[Any]) -> None:
    flow.sql(TABLE)
    with connection.pipeline():
        connection.execute(inserting("%s"), (1, *[None] * len(VALUES)))  # type: ignore[call-overload]
        found = [connection.execute("SELECT * FROM everything", binary=binary) for binary in (False, True)]
        assert [cursor.fetchone() for cursor in found] == [(1, *[None] * len(VALUES))] * 2


def test_errors(connection: psycopg.Connection[Any]) -> None:
    with pytest.raises(errors.UndefinedColumn) as caught, connection.pipeline() as pipeline:
        connection.execute("SELECT 1")
        connection.execute("SELECT amont FROM orders")
        pipeline.sync()
    found = caught.value.diag
    assert (found.sqlstate, found.statement_position, found.message_hint) == (
        "42703",
        "8",
        'Did you mean "amount"?',
    )
    assert connection.execute("SELECT 7").fetchone() == (7,)


def test_transactions(flow: Flow, connection: psycopg.Connection[Any]) -> None:
    before = flow.epoch
    with connection.pipeline(), connection.transaction():
        for id in (3, 4, 5):
            connection.execute("INSERT INTO orders VALUES (%s, 'cy', 1)", [id])
        found = connection.execute("SELECT total FROM totals WHERE customer = 'cy'")
        assert found.fetchone() == (3,)
    assert flow.epoch == before + 1
    with connection.pipeline() as pipeline, connection.transaction():
        connection.execute("INSERT INTO orders VALUES (6, 'cy', 1)")
        with pytest.raises(errors.UniqueViolation), connection.transaction():  # a savepoint
            connection.execute("INSERT INTO orders VALUES (1, 'cy', 1)")
            pipeline.sync()
    assert flow.epoch == before + 2
    with pytest.raises(errors.UniqueViolation), connection.pipeline(), connection.transaction():
        connection.execute("DELETE FROM orders WHERE id = 2")
        connection.execute("INSERT INTO orders VALUES (1, 'cy', 1)")
    assert flow.epoch == before + 2
    assert connection.execute("SELECT count(*) FROM orders").fetchone() == (6,)


def test_prepared_statements(connection: psycopg.Connection[Any]) -> None:
    with connection.pipeline():
        sql = "SELECT customer FROM orders WHERE id = %s"
        found = [connection.execute(sql, [id], prepare=True) for id in (1, 2, 3, 1)]
        assert [cursor.fetchone() for cursor in found] == [("ann",), ("bob",), None, ("ann",)]
    with connection.pipeline():
        connection.cursor().executemany(
            "INSERT INTO orders VALUES (%s, 'cy', 1)", [(i,) for i in range(10, 15)]
        )
    assert connection.execute("SELECT total FROM totals WHERE customer = 'cy'").fetchone() == (5,)


def test_cancel(flow: Flow, connection: psycopg.Connection[Any]) -> None:
    def cancel() -> None:
        until_it_runs(flow)
        connection.cancel_safe()

    canceller = threading.Thread(target=cancel)
    with pytest.raises(errors.QueryCanceled), connection.pipeline() as pipeline:
        canceller.start()
        connection.execute(SLOW)  # type: ignore[call-overload]
        pipeline.sync()
    canceller.join()
    assert connection.execute("SELECT 7").fetchone() == (7,)


def test_cursors(connection: psycopg.Connection[Any]) -> None:
    # By SQL: psycopg refuses its named cursors in pipeline mode.
    with connection.pipeline(), connection.transaction():
        connection.execute("DECLARE c CURSOR FOR SELECT id FROM orders WHERE id >= %s ORDER BY id", [1])
        found = [connection.execute(sql, binary=True) for sql in ("FETCH 1 c", "FETCH ALL c", "FETCH ALL c")]
        assert [cursor.fetchall() for cursor in found] == [[(1,)], [(2,)], []]


def test_subscribe(flow: Flow, connection: psycopg.Connection[Any]) -> None:
    start = flow.epoch
    with connection.pipeline(), connection.transaction():
        connection.execute("DECLARE c CURSOR FOR SUBSCRIBE totals")
        begun = connection.execute("FETCH ALL c")
        assert sorted(begun.fetchall()) == [(start, 1, "ann", 10), (start, 1, "bob", 5)]
        flow.sql("DELETE FROM orders WHERE id = 2")
        more = [
            connection.execute("FETCH 1 c WITH (TIMEOUT = '1 minute')"),
            connection.execute("FETCH ALL c"),
        ]
        assert [cursor.fetchall() for cursor in more] == [[(start + 1, -1, "bob", 5)], []]
    assert flow._watches == {}


def test_listen(flow: Flow, connection: psycopg.Connection[Any]) -> None:
    with connection.pipeline():
        connection.execute("LISTEN totals")
    flow.sql("INSERT INTO orders VALUES (3, 'ann', 1)")
    (heard,) = connection.notifies(timeout=WAIT_S, stop_after=1)
    assert (heard.channel, json.loads(heard.payload)) == ("totals", {"epoch": flow.epoch, "rows": 2})
