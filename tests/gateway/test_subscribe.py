"""SUBSCRIBE in depth: as rows, as COPY, through cursors; other clients than psycopg are in clients/."""

from __future__ import annotations

import asyncio
import socket
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import psycopg
import pytest
from psycopg import errors

from penstock import Flow
from penstock.base.limits import RUNNING_STATEMENTS_MAX
from penstock.gateway import backend as b
from penstock.gateway.background import serving

WAIT_S = 60  # for something that happens at once, on a machine that is busy


@pytest.fixture(autouse=True)
def shop(flow: Flow) -> None:
    flow.sql("CREATE TABLE orders (id BIGINT PRIMARY KEY, customer TEXT, amount DECIMAL(12,2))")
    flow.sql(
        "CREATE MATERIALIZED VIEW totals AS SELECT customer, sum(amount) AS total FROM orders GROUP BY customer"
    )
    flow.sql("INSERT INTO orders VALUES (1, 'ann', 10), (2, 'bob', 5)")


def until(condition: Callable[[], bool]) -> None:
    end = time.monotonic() + WAIT_S
    while not condition():
        assert time.monotonic() < end, "it has not happened"
        time.sleep(0.005)


def first(rows: Iterator[Any], count: int) -> list[Any]:
    return [next(rows) for _ in range(count)]


def test_rows_as_they_come(flow: Flow, connection: psycopg.Connection) -> None:
    cursor = connection.cursor()
    rows = cursor.stream("SUBSCRIBE totals")
    start = flow.epoch
    assert sorted(first(rows, 2)) == [(start, 1, "ann", 10), (start, 1, "bob", 5)]
    assert cursor.description is not None
    assert [c.name for c in cursor.description] == ["epoch", "diff", "customer", "total"]
    flow.sql("INSERT INTO orders VALUES (3, 'ann', 1)")
    assert first(rows, 2) == [(start + 1, -1, "ann", 10), (start + 1, 1, "ann", 11)]  # what goes comes first
    flow.sql("DELETE FROM orders WHERE id = 2")
    assert first(rows, 1) == [(start + 2, -1, "bob", 5)]
    rows.close()  # type: ignore[attr-defined]  # psycopg cancels it
    assert connection.execute("SELECT count(*) FROM orders").fetchone() == (2,)
    until(lambda: not flow._watches)


def test_a_simple_query(flow: Flow, connection: psycopg.Connection) -> None:
    rows = psycopg.ClientCursor(connection).stream("SUBSCRIBE TO orders WITH (SNAPSHOT = false)")
    waiting = threading.Timer(0.05, lambda: flow.sql("INSERT INTO orders VALUES (4, 'x', NULL)"))
    waiting.start()
    assert next(rows) == (flow.epoch, 1, 4, "x", None)
    connection.cancel_safe()
    with pytest.raises(errors.QueryCanceled):
        next(rows)
    assert connection.execute("SELECT 7").fetchone() == (7,)


TYPES = [
    "BIGINT",
    "SMALLINT",
    "DECIMAL(12,2)",
    "HUGEINT",
    "TEXT",
    "BLOB",
    "DATE",
    "TIME",
    "TIMESTAMP",
    "TIMESTAMPTZ",
    "INTERVAL",
    "UUID",
    "JSON",
    "BOOLEAN",
    "DOUBLE",
    "FLOAT",
    "INT[]",
    "TEXT[]",
]
VALUES = (
    "1, 2, 1.50, 12345678901234567890123, 'it''s', '\\x00\\x27', '2020-02-29', '01:02:03.5', '2020-01-01 00:00:01', "
    "'2020-01-01 00:00:01+00', INTERVAL '1 month 2 days', '00000000-0000-0000-0000-000000000005', "
    "'{\"a\": 1}', true, 2.5, 0.5, [1, NULL, 3], ['a', NULL]"
)


@pytest.mark.parametrize("binary", [False, True])
@pytest.mark.parametrize("many", [1, 40])
def test_every_type(flow: Flow, connection: psycopg.Connection, binary: bool, many: int) -> None:
    """The same values as a SELECT gives, with NULLs, for few rows and for many."""
    columns = ", ".join(f"c{i} {type}" for i, type in enumerate(TYPES))
    flow.sql(f"CREATE TABLE everything (n INT, {columns})")
    flow.sql(f"INSERT INTO everything SELECT i, {VALUES} FROM range({many}) t(i)")
    flow.sql("INSERT INTO everything (n) VALUES (-1)")
    cursor = connection.cursor(binary=binary)
    wanted = cursor.execute("SELECT * FROM everything").fetchall()
    rows = cursor.stream("SUBSCRIBE everything", binary=binary)
    found = first(rows, many + 1)
    flow.sql("DELETE FROM everything WHERE n = -1")
    gone = first(rows, 1)
    rows.close()  # type: ignore[attr-defined]
    assert Counter(map(str, wanted)) == Counter(str(row[2:]) for row in found)
    assert gone == [(flow.epoch, -1, -1, *[None] * len(TYPES))]


def test_progress(flow: Flow, connection: psycopg.Connection) -> None:
    rows = connection.cursor().stream("SUBSCRIBE totals WITH (PROGRESS)")
    start = flow.epoch
    nothing = (None, None, None)
    assert next(rows) == (start, True, *nothing)
    assert sorted(first(rows, 2)) == [(start, False, 1, "ann", 10), (start, False, 1, "bob", 5)]
    assert next(rows) == (start + 1, True, *nothing)
    flow.sql("INSERT INTO orders VALUES (3, 'ann', 0)")  # no change of the view, but an epoch
    assert next(rows) == (start + 2, True, *nothing)
    flow.sql("INSERT INTO orders VALUES (4, 'cy', 1)")
    assert first(rows, 2) == [(start + 2, False, 1, "cy", 1), (start + 3, True, *nothing)]
    rows.close()  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("options", "lines"),
    [
        ("", [b"1\t1\t1\tann\t10.00\n", b"2\t-1\t1\tann\t10.00\n"]),
        (
            "(FORMAT csv, HEADER)",
            [b"epoch,diff,id,customer,amount\n", b"1,1,1,ann,10.00\n", b"2,-1,1,ann,10.00\n"],
        ),
    ],
)
def test_copy(flow: Flow, connection: psycopg.Connection, options: str, lines: list[bytes]) -> None:
    flow.sql("CREATE TABLE one AS SELECT 1 AS nothing")
    found = []
    with (
        pytest.raises(errors.QueryCanceled),
        connection.cursor().copy(
            f"COPY (SUBSCRIBE TO orders) TO STDOUT {options}"  # type: ignore[call-overload]
        ) as copy,
    ):
        for line in copy:
            if b"bob" in bytes(line):
                continue
            found.append(bytes(line).replace(str(flow.epoch).encode(), b"1", 1) if not found else bytes(line))
            if len(found) == len(lines) - 1:
                flow.sql("DELETE FROM orders WHERE id = 1")
            if len(found) == len(lines):
                connection.cancel_safe()
    epoch = str(flow.epoch).encode()
    assert found[-1] == lines[-1].replace(b"2", epoch, 1)
    assert found[0].split(b"\t")[1:] == lines[0].split(b"\t")[1:]
    assert connection.execute("SELECT 7").fetchone() == (7,)


def test_cursors(flow: Flow, connection: psycopg.Connection) -> None:
    def fetched(sql: str) -> list[Any]:
        return connection.execute(sql).fetchall()  # type: ignore[call-overload]

    start = flow.epoch
    connection.execute("BEGIN")
    connection.execute("DECLARE c CURSOR FOR SUBSCRIBE totals")
    assert sorted(fetched("FETCH 1 c") + fetched("FETCH 5 FROM c")) == [
        (start, 1, "ann", 10),
        (start, 1, "bob", 5),
    ]
    cursor = connection.execute("FETCH ALL c")
    assert (cursor.fetchall(), cursor.statusmessage) == ([], "FETCH 0")
    assert [c.name for c in cursor.description or ()] == ["epoch", "diff", "customer", "total"]
    assert fetched("FETCH 1 c WITH (TIMEOUT = '10ms')") == []
    flow.sql("INSERT INTO orders VALUES (3, 'cy', 1)")
    flow.sql("INSERT INTO orders VALUES (4, 'di', 1)")
    assert fetched("FETCH 2 c WITH (TIMEOUT = '1 minute')") == [
        (start + 1, 1, "cy", 1),
        (start + 2, 1, "di", 1),
    ]
    flow.sql("INSERT INTO orders VALUES (5, 'ed', 1)")
    assert connection.execute("MOVE 1 c").statusmessage == "MOVE 1"
    threading.Timer(0.1, lambda: flow.sql("INSERT INTO orders VALUES (6, 'flo', 1)")).start()
    assert fetched("FETCH ALL c WITH (TIMEOUT = 60)") == [(start + 4, 1, "flo", 1)]
    connection.execute("DECLARE d CURSOR FOR SUBSCRIBE orders")
    connection.execute("CLOSE d")
    assert list(flow._watches) == ["totals"]
    connection.execute("COMMIT")
    assert flow._watches == {}


def test_a_cursor_that_outlives_its_transaction(flow: Flow, connection: psycopg.Connection) -> None:
    connection.execute("DECLARE c CURSOR WITH HOLD FOR SUBSCRIBE totals WITH (SNAPSHOT false)")
    connection.execute("INSERT INTO orders VALUES (3, 'cy', 1)")
    assert connection.execute("FETCH ALL c").fetchall() == [(flow.epoch, 1, "cy", 1)]
    connection.execute("DISCARD ALL")
    assert flow._watches == {}


def test_psycopg_s_own_cursors(url: str, flow: Flow) -> None:
    with psycopg.connect(url) as connection, connection.cursor("c", binary=True) as cursor:
        cursor.execute("SUBSCRIBE totals")
        assert len(cursor.fetchall()) == 2
        flow.sql("DELETE FROM orders WHERE id = 2")
        assert cursor.fetchone() == (flow.epoch, -1, "bob", 5)


def test_going_on_from_an_epoch(tmp_path: Path) -> None:
    """A client that remembers the last epoch that it saw misses nothing and sees nothing twice."""
    with Flow(tmp_path / "flow") as flow, serving(flow) as url:
        flow.sql("CREATE TABLE t (a INT)")
        seen: Counter[int] = Counter()
        epoch = flow.epoch
        options = "WITH (SNAPSHOT = true)"
        for i in range(5):
            flow.sql(f"INSERT INTO t VALUES ({i})")
            flow.sql(f"DELETE FROM t WHERE a = {i - 2}")
            with psycopg.connect(url, autocommit=True) as connection:
                rows = connection.cursor().stream(f"SUBSCRIBE t {options} AS OF EPOCH {epoch}")  # type: ignore[call-overload]
                flow.sql(f"INSERT INTO t VALUES ({100 + i})")
                for row in rows:
                    assert row[0] > epoch
                    seen[row[2]] += row[1]
                    if row[0] == flow.epoch:
                        break
                rows.close()
            epoch, options = flow.epoch, "WITH (SNAPSHOT = false)"
            assert +seen == Counter(flow.sql("SELECT a FROM t").column("a").to_pylist())
        assert min(seen.values()) == 0


def test_errors(flow: Flow, connection: psycopg.Connection, url: str) -> None:
    flow.sql("CREATE VIEW plain AS SELECT * FROM orders")
    for sql, error, position in (
        ("SUBSCRIBE nope", errors.UndefinedTable, "11"),
        ("SELECT 1; SUBSCRIBE nope", errors.UndefinedTable, "21"),
        ("SUBSCRIBE plain", errors.WrongObjectType, "11"),
        ("SUBSCRIBE (SELECT 1)", errors.SyntaxError, "11"),
        ("SUBSCRIBE totals WITH (WHATEVER)", errors.SyntaxError, "23"),
        ("SUBSCRIBE totals AS OF EPOCH 0", errors.InvalidParameterValue, "11"),
        ("COPY (SUBSCRIBE nope) TO STDOUT", errors.UndefinedTable, "17"),
    ):
        with pytest.raises(error) as caught:
            connection.execute(sql)  # type: ignore[call-overload]
        assert caught.value.diag.statement_position == position, sql
    with psycopg.connect(url) as other:
        other.execute("INSERT INTO orders VALUES (9, 'x', 1)")
        with pytest.raises(errors.InvalidTransactionState, match="changes of its own"):
            other.execute("SUBSCRIBE totals")
        other.rollback()
        other.execute("DECLARE c CURSOR FOR SELECT 1")
        with pytest.raises(errors.InvalidParameterValue, match="TIMEOUT"):
            other.execute("FETCH 1 c WITH (TIMEOUT = '1s')")
        other.rollback()
        with pytest.raises(errors.NoActiveSqlTransaction):
            connection.execute("DECLARE c CURSOR FOR SUBSCRIBE totals")
    assert flow._watches == {}


def test_dropping_the_view_ends_it(flow: Flow, connection: psycopg.Connection) -> None:
    rows = connection.cursor().stream("SUBSCRIBE totals")
    first(rows, 2)
    flow.sql("INSERT INTO orders VALUES (3, 'cy', 1)")
    flow.sql("DROP MATERIALIZED VIEW totals")
    assert next(rows)[1:] == (1, "cy", 1)
    with pytest.raises(errors.ObjectNotInPrerequisiteState, match='"totals" was dropped'):
        next(rows)
    assert connection.execute("SELECT 7").fetchone() == (7,)


def raw(url: str, sql: str) -> socket.socket:
    """A client that has sent a query and does nothing more."""
    where = urlsplit(url)
    client = socket.socket()
    client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    client.connect((where.hostname, where.port))
    startup = b"\0\3\0\0user\0penstock\0\0"
    client.sendall((len(startup) + 4).to_bytes(4, "big") + startup + b.message(b"Q", b.text(sql)))
    return client


def test_a_client_that_goes_away(flow: Flow, url: str) -> None:
    for sql in ("SUBSCRIBE totals", "COPY (SUBSCRIBE totals) TO STDOUT"):
        with raw(url, sql):
            until(lambda: bool(flow._watches))
        until(lambda: not flow._watches)


def test_a_client_that_does_not_read(flow: Flow, url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """It does not hold up the flow or other clients, and what it has not read is not kept."""
    monkeypatch.setattr("penstock.engine.watch.WATCH_QUEUE_ROWS_MAX", 20_000)
    flow.sql("CREATE TABLE wide (a INT, s TEXT)")
    with raw(url, "SUBSCRIBE wide") as slow, psycopg.connect(url, autocommit=True) as other:
        until(lambda: "wide" in flow._watches)
        (watch,) = flow._watches["wide"]
        rows = [{"a": i, "s": "x" * 500} for i in range(5_000)]
        for _ in range(40):
            flow.tick("wide", rows)
            if watch.is_over:
                break
        assert watch.is_over
        assert watch.next_epoch is None
        assert other.execute("SELECT count(*) > 0 FROM wide").fetchone() == (True,)
        data = b""
        slow.settimeout(WAIT_S)
        while b"WATCH_QUEUE_ROWS_MAX" not in data[-2000:]:
            piece = slow.recv(1 << 20)
            assert piece, "the connection has ended without a word"
            data += piece
        assert b"C53400\0" in data[-2000:]


def test_stopping_the_server_ends_it() -> None:
    with Flow() as flow:
        flow.sql("CREATE TABLE t (a INT)")
        with serving(flow) as url:
            connection = psycopg.connect(url, autocommit=True)
            rows = connection.cursor().stream("SUBSCRIBE t WITH (PROGRESS)")
            assert next(rows)[1] is True
        with pytest.raises(psycopg.OperationalError, match="administrator"):
            list(rows)
        connection.close()
        assert flow._watches == {}


def test_many_subscribers_do_not_use_up_the_threads(flow: Flow, url: str) -> None:
    async def run() -> None:
        count = RUNNING_STATEMENTS_MAX + 8
        others = [await psycopg.AsyncConnection.connect(url, autocommit=True) for _ in range(count)]
        streams = [o.cursor().stream("SUBSCRIBE totals WITH (SNAPSHOT = false)") for o in others]
        waiting = [asyncio.create_task(anext(stream)) for stream in streams]
        while len(flow._watches.get("totals", ())) < count:
            await asyncio.sleep(0.01)
        async with await psycopg.AsyncConnection.connect(url, autocommit=True) as writer:
            await writer.execute("INSERT INTO orders VALUES (3, 'cy', 1)")
        assert await asyncio.gather(*waiting) == [(flow.epoch, 1, "cy", 1)] * count
        for stream, other in zip(streams, others, strict=True):
            await other.close()
            await stream.aclose()  # type: ignore[attr-defined]

    asyncio.run(run())
