"""Freshness tokens: a read elsewhere that sees a commit, on a server that follows the one that made it."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest
from psycopg import errors

from penstock import Flow
from penstock.gateway.background import serving


@pytest.fixture
def writer(tmp_path: Path) -> Iterator[psycopg.Connection]:
    with Flow(tmp_path / "flow", sync=False) as flow, serving(flow) as url:
        flow.sql("CREATE TABLE t (a INT)")
        flow.sql("CREATE MATERIALIZED VIEW v AS SELECT count(*) AS n FROM t")
        with psycopg.connect(url, autocommit=True) as connection:
            yield connection


@pytest.fixture
def followed(tmp_path: Path, writer: psycopg.Connection) -> Iterator[Flow]:
    with Flow(tmp_path / "flow", read_only=True) as flow:
        yield flow


@pytest.fixture
def reader(followed: Flow) -> Iterator[psycopg.Connection]:
    with serving(followed) as url, psycopg.connect(url, autocommit=True) as connection:
        connection.execute("SET penstock.wait_timeout = '60 seconds'")
        yield connection


def token_of(connection: psycopg.Connection) -> str:
    row = connection.execute("SHOW penstock.token").fetchone()
    assert row is not None
    return str(row[0])


def show(connection: psycopg.Connection, name: str) -> str:
    row = connection.execute(f"SHOW {name}").fetchone()  # type: ignore[call-overload]
    assert row is not None
    return str(row[0])


def wait_for(connection: psycopg.Connection, token: str) -> None:
    connection.execute(f"SET penstock.wait_for = '{token}'")  # type: ignore[call-overload]


def test_a_read_waits_for_a_commit(writer: psycopg.Connection, reader: psycopg.Connection) -> None:
    for i in range(1, 6):
        writer.execute("INSERT INTO t VALUES (1)")
        wait_for(reader, token_of(writer))
        if i % 2:
            assert reader.execute("SELECT n FROM v").fetchone() == (i,)
        else:
            with reader.cursor().copy("COPY v TO STDOUT") as copy:
                assert list(copy.rows()) == [(str(i),)]
    with writer.transaction():
        writer.execute("INSERT INTO t VALUES (1)")
        writer.execute("INSERT INTO t VALUES (1)")
    wait_for(reader, token_of(writer))
    reader.execute("BEGIN")
    reader.execute("DECLARE c CURSOR FOR SUBSCRIBE v")
    assert [row[2] for row in reader.execute("FETCH ALL c").fetchall()] == [7]
    reader.execute("COMMIT")


def test_what_a_token_is(writer: psycopg.Connection, reader: psycopg.Connection) -> None:
    before = token_of(writer)
    writer.execute("INSERT INTO t VALUES (1)")
    token = token_of(writer)
    assert token != before
    writer.execute("SELECT 1")
    assert token_of(writer) == token
    name, _, epoch = token.partition(":")
    wait_for(reader, token)
    reader.execute("SELECT 1")
    assert token_of(reader) == token  # it has committed nothing: what it would read
    assert show(reader, "penstock.wait_for") == token
    for wrong in (f"{'0' * 12}:{epoch}", name, f"{name}:x", ":5"):
        with pytest.raises(errors.InvalidParameterValue):
            wait_for(reader, wrong)
    with pytest.raises(errors.InvalidParameterValue):
        reader.execute("SET penstock.token = 'x'")
    reader.execute("RESET penstock.wait_for")
    assert show(reader, "penstock.wait_for") == ""
    reader.execute("RESET ALL")
    assert show(reader, "penstock.wait_timeout") == "5 seconds"


def test_it_does_not_wait_for_ever(writer: psycopg.Connection, reader: psycopg.Connection) -> None:
    name, _, epoch = token_of(writer).partition(":")
    reader.execute("SET penstock.wait_timeout = '50 ms'")
    wait_for(reader, f"{name}:{int(epoch) + 1}")
    for sql in ("SELECT * FROM v", "SELECT 1; SELECT * FROM v", "EXPLAIN SELECT 1"):
        with pytest.raises(errors.QueryCanceled, match="has not become visible") as caught:
            reader.execute(sql)  # type: ignore[call-overload]
        assert "wait_timeout" in (caught.value.diag.message_hint or "")
    reader.execute("SET penstock.wait_timeout = '60 seconds'")
    threading.Timer(0.1, reader.cancel_safe).start()
    with pytest.raises(errors.QueryCanceled, match="user request"):
        reader.execute("SELECT * FROM v")
    threading.Timer(0.1, lambda: writer.execute("INSERT INTO t VALUES (1)")).start()
    assert reader.execute("SELECT n FROM v").fetchone() == (1,)


def test_waiting_reads_hold_no_thread(
    writer: psycopg.Connection, followed: Flow, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("penstock.gateway.server.RUNNING_STATEMENTS_MAX", 2)
    name, _, epoch = token_of(writer).partition(":")
    with serving(followed) as url:
        options = f"-c penstock.wait_for={name}:{int(epoch) + 1} -c penstock.wait_timeout=60s"
        found: list[object] = []

        def read() -> None:
            with psycopg.connect(url, options=options, autocommit=True) as waiting:
                found.append(waiting.execute("SELECT n FROM v").fetchone())

        readers = [threading.Thread(target=read) for _ in range(5)]
        for thread in readers:
            thread.start()
        with psycopg.connect(url, autocommit=True) as free:
            for _ in range(20):
                assert free.execute("SELECT n FROM v").fetchone() == (0,)
        assert not found
        writer.execute("INSERT INTO t VALUES (1)")
        for thread in readers:
            thread.join()
        assert found == [(1,)] * 5


def test_set_freshness(writer: psycopg.Connection, reader: psycopg.Connection) -> None:
    """It is another name for the same."""
    assert show(reader, "freshness") == "any"
    writer.execute("INSERT INTO t VALUES (1)")
    token = token_of(writer)
    reader.execute(f"SET freshness = '{token}'")  # type: ignore[call-overload]
    assert reader.execute("SELECT n FROM v").fetchone() == (1,)
    assert (show(reader, "freshness"), show(reader, "penstock.wait_for")) == (token, token)
    reader.execute("SET freshness = any")
    assert (show(reader, "freshness"), show(reader, "penstock.wait_for")) == ("any", "")
    with pytest.raises(errors.InvalidParameterValue, match="not a freshness token"):
        reader.execute("SET freshness = '1s'")


def test_a_notice_for_those_who_want_it(writer: psycopg.Connection) -> None:
    got: list[tuple[str | None, str | None]] = []
    writer.add_notice_handler(lambda d: got.append((d.severity, d.message_primary)))
    writer.execute("INSERT INTO t VALUES (1)")
    assert got == []
    writer.execute("SET client_min_messages = log")
    writer.execute("INSERT INTO t VALUES (1)")
    assert got == [("LOG", f"freshness token {token_of(writer)}")]
    writer.execute("SELECT 1")
    with writer.transaction():
        writer.execute("INSERT INTO t VALUES (1)")
        assert len(got) == 1
    assert got[1:] == [("LOG", f"freshness token {token_of(writer)}")]
    writer.execute("INSERT INTO t VALUES (1); INSERT INTO t VALUES (2)")
    assert got[2:] == [("LOG", f"freshness token {token_of(writer)}")]
    with writer.cursor().copy("COPY t FROM STDIN") as copy:
        copy.write_row([5])
    assert got[3:] == [("LOG", f"freshness token {token_of(writer)}")]
    writer.execute("SET client_min_messages = error")
    writer.execute("COMMIT")  # a warning otherwise
    assert len(got) == 4
    with pytest.raises(errors.InvalidParameterValue):
        writer.execute("SET client_min_messages = loud")
