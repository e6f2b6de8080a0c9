"""LISTEN, NOTIFY and UNLISTEN, and the notifications of views."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest
from psycopg import errors

from penstock import Flow
from penstock.gateway.background import serving

WAIT_S = 60  # for something that happens at once, on a machine that is busy


@pytest.fixture
def other(url: str) -> Iterator[psycopg.Connection]:
    with psycopg.connect(url, autocommit=True) as connection:
        yield connection


def heard(connection: psycopg.Connection, count: int) -> list[tuple[str, str, int]]:
    """The next notifications that come without the client doing anything."""
    return [
        (n.channel, n.payload, n.pid)
        for n in connection.notifies(timeout=WAIT_S if count else 0.2, stop_after=count)
    ]


def test_between_sessions(connection: psycopg.Connection, other: psycopg.Connection) -> None:
    assert connection.execute("LISTEN news").statusmessage == "LISTEN"
    assert other.execute("NOTIFY NEWS, 'it''s here'").statusmessage == "NOTIFY"
    other.execute("NOTIFY news")
    other.execute('NOTIFY "News"')  # another channel
    pid = other.info.backend_pid
    assert heard(connection, 2) == [("news", "it's here", pid), ("news", "", pid)]
    connection.execute("NOTIFY news, 'mine'")
    assert heard(connection, 1) == [("news", "mine", connection.info.backend_pid)]
    connection.execute("UNLISTEN news")
    connection.execute("LISTEN a")
    other.execute("NOTIFY news")
    other.execute("NOTIFY a")
    assert heard(connection, 1) == [("a", "", pid)]
    connection.execute("UNLISTEN *")
    connection.execute("LISTEN b")
    other.execute("NOTIFY a")
    other.execute("NOTIFY b")
    assert heard(connection, 1) == [("b", "", pid)]
    connection.execute("DISCARD ALL")
    other.execute("NOTIFY b")
    connection.execute("LISTEN c")
    other.execute("NOTIFY c")
    assert heard(connection, 1) == [("c", "", pid)]


def test_it_is_sent_at_commit(connection: psycopg.Connection, other: psycopg.Connection) -> None:
    connection.execute("LISTEN news")
    other.execute("BEGIN")
    other.execute("NOTIFY news, 'once'")
    other.execute("NOTIFY news, 'once'")
    other.execute("SAVEPOINT s")
    other.execute("NOTIFY news, 'never'")
    other.execute("ROLLBACK TO SAVEPOINT s")
    other.execute("NOTIFY news, 'twice'")
    connection.execute("NOTIFY news, 'before'")
    other.execute("COMMIT")
    other.execute("BEGIN")
    other.execute("NOTIFY news, 'rolled back'")
    other.execute("ROLLBACK")
    other.execute("BEGIN")
    other.execute("NOTIFY news, 'failed'")
    with pytest.raises(errors.UndefinedTable):
        other.execute("SELECT * FROM nowhere")
    other.execute("COMMIT")
    with pytest.raises(errors.UndefinedTable):
        other.execute("NOTIFY news, 'failed too'; SELECT * FROM nowhere")
    other.execute("NOTIFY news, 'together'; NOTIFY news, 'end'")
    payloads = [payload for _, payload, _ in heard(connection, 5)]
    assert payloads == ["before", "once", "twice", "together", "end"]
    connection.execute("BEGIN")
    connection.execute("LISTEN late")
    connection.execute("ROLLBACK")
    other.execute("NOTIFY late")
    other.execute("NOTIFY news, 'after'")
    assert [payload for _, payload, _ in heard(connection, 1)] == ["after"]


def test_a_client_in_a_transaction_gets_it_afterwards(
    connection: psycopg.Connection, other: psycopg.Connection
) -> None:
    connection.execute("LISTEN news")
    connection.execute("BEGIN")
    other.execute("NOTIFY news, 'a'")
    got: list[str] = []
    connection.add_notify_handler(lambda n: got.append(n.payload))
    connection.execute("SELECT 1")
    assert got == []
    connection.execute("COMMIT")
    assert got == ["a"]


def test_pg_notify(connection: psycopg.Connection, other: psycopg.Connection) -> None:
    connection.execute("LISTEN news")
    other.execute("SELECT pg_notify('news', 'a' || 'b')")
    assert other.execute("SELECT pg_notify(%s, %s)", ("news", "it's")).fetchone() == ("",)
    other.execute("SELECT pg_catalog.pg_notify('news', NULL)")
    assert [payload for _, payload, _ in heard(connection, 3)] == ["ab", "it's", ""]
    with pytest.raises(errors.InvalidParameterValue):
        other.execute("SELECT pg_notify('', 'x')")


def test_limits(connection: psycopg.Connection, other: psycopg.Connection) -> None:
    connection.execute("LISTEN news")
    other.execute(f"NOTIFY news, '{'x' * 7999}'")  # type: ignore[call-overload]
    assert len(heard(connection, 1)[0][1]) == 7999
    with pytest.raises(errors.InvalidParameterValue, match="payload"):
        other.execute(f"NOTIFY news, '{'x' * 8000}'")  # type: ignore[call-overload]
    with pytest.raises(errors.InvalidParameterValue, match="channel"):
        other.execute(f"NOTIFY {'c' * 64}")  # type: ignore[call-overload]
    for sql in ("LISTEN", "NOTIFY", "NOTIFY a, 5", "NOTIFY a 'b'", "UNLISTEN", "LISTEN a, b"):
        with pytest.raises(errors.SyntaxError):
            other.execute(sql)  # type: ignore[call-overload]


def test_too_many_that_wait(
    connection: psycopg.Connection, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A client that holds a transaction open for ever is disconnected; those who notify are not held up."""
    monkeypatch.setattr("penstock.gateway.channels.NOTIFICATIONS_WAITING_MAX", 10)
    slow = psycopg.connect(url, autocommit=True)
    slow.execute("LISTEN news")
    slow.execute("BEGIN")
    for i in range(12):
        connection.execute(f"NOTIFY news, '{i}'")  # type: ignore[call-overload]
    with pytest.raises(psycopg.OperationalError, match="NOTIFICATIONS_WAITING_MAX"):
        for _ in range(1000):
            slow.execute("SELECT 1")
    slow.close()
    assert connection.execute("SELECT 7").fetchone() == (7,)


def test_each_epoch_that_changed_a_view(flow: Flow, connection: psycopg.Connection) -> None:
    connection.execute("LISTEN totals")  # before there is one
    flow.sql("CREATE TABLE orders (id BIGINT PRIMARY KEY, customer TEXT, amount INT)")
    flow.sql(
        "CREATE MATERIALIZED VIEW Totals AS SELECT customer, sum(amount) AS t FROM orders GROUP BY customer"
    )
    flow.sql("INSERT INTO orders VALUES (1, 'ann', 1), (2, 'bob', 2)")
    first = flow.epoch
    flow.sql("INSERT INTO orders VALUES (3, 'ann', 0)")  # the view stays as it is
    flow.sql("INSERT INTO orders VALUES (4, 'ann', 1)")
    found = heard(connection, 2)
    assert [(channel, json.loads(payload), pid) for channel, payload, pid in found] == [
        ("totals", {"epoch": first, "rows": 2}, 0),
        ("totals", {"epoch": first + 2, "rows": 2}, 0),
    ]
    connection.execute("UNLISTEN totals")
    connection.execute('LISTEN "orders"')
    connection.execute('LISTEN "Totals"')
    flow.sql("DELETE FROM orders")
    found = heard(connection, 2)
    assert sorted((channel, json.loads(payload)["rows"]) for channel, payload, _ in found) == [
        ("Totals", 2),
        ("orders", 4),
    ]


def test_an_epoch_is_told_when_it_cannot_be_lost(tmp_path: Path) -> None:
    with Flow(tmp_path / "flow", commit="visible", commit_interval="1 hour") as flow, serving(flow) as url:
        flow.sql("CREATE TABLE t (a INT)")
        with psycopg.connect(url, autocommit=True) as connection:
            connection.execute("LISTEN t")
            connection.execute("INSERT INTO t VALUES (1)")
            connection.execute("NOTIFY t, 'mine'")
            assert [payload for _, payload, _ in heard(connection, 1)] == ["mine"]
            flow.flush()
            assert json.loads(heard(connection, 1)[0][1]) == {"epoch": flow.epoch, "rows": 1}
