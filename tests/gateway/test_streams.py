"""Rows are worked out as the client takes them: no more than it takes, without a lock, and never of another epoch."""

from __future__ import annotations

import socket
import struct
import time
from collections.abc import Callable, Iterator
from urllib.parse import urlsplit

import psycopg
import pytest

from penstock import Flow
from penstock.base.limits import STREAM_ROWS, STREAMS_MAX
from penstock.engine.stream import Stream

ROWS = 8 * STREAM_ROWS


@pytest.fixture
def fetched(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The rows of each portion that DuckDB has worked out."""
    found: list[int] = []
    original = Stream._fetch

    def counted(self: Stream) -> object:
        rows = original(self)
        found.append(0 if rows is None else rows.num_rows)
        return rows

    monkeypatch.setattr(Stream, "_fetch", counted)
    return found


@pytest.fixture
def numbers(flow: Flow) -> None:
    flow.sql("CREATE TABLE t (k BIGINT, s TEXT)")
    flow.sql(f"INSERT INTO t SELECT range, repeat('x', 500) FROM range({ROWS})")


class Bare:
    """A connection whose messages are read when we want."""

    def __init__(self, url: str) -> None:
        parts = urlsplit(url)
        self.socket = socket.create_connection((parts.hostname, parts.port), timeout=30)
        self.file = self.socket.makefile("rb", buffering=1 << 16)
        self.send(b"", struct.pack(">i", 3 << 16) + b"user\0penstock\0\0")
        messages = list(self.until(b"Z"))
        (key,) = [body for kind, body in messages if kind == b"K"]
        self.key = key
        self.address = (parts.hostname, parts.port)

    def send(self, kind: bytes, body: bytes) -> None:
        self.socket.sendall(kind + struct.pack(">i", len(body) + 4) + body)

    def exactly(self, size: int) -> bytes:
        data = self.file.read(size)
        assert len(data) == size, "the server has closed the connection"
        return data

    def until(self, last: bytes) -> Iterator[tuple[bytes, bytes]]:
        while True:
            head = self.exactly(5)
            body = self.exactly(struct.unpack(">i", head[1:])[0] - 4)
            yield head[:1], body
            if head[:1] == last:
                return

    def close(self) -> None:
        self.file.close()
        self.socket.close()

    def cancel(self) -> None:
        with socket.create_connection(self.address, timeout=30) as other:
            other.sendall(struct.pack(">ii", 16, 80877102) + self.key)
            assert other.recv(1) == b""


@pytest.fixture
def bare(url: str) -> Iterator[Bare]:
    connection = Bare(url)
    yield connection
    connection.close()


def settled(counted: Callable[[], int]) -> int:
    """A count that has stopped growing."""
    last, since = counted(), time.monotonic()
    while time.monotonic() - since < 0.3:
        time.sleep(0.02)
        if counted() != last:
            last, since = counted(), time.monotonic()
    return last


@pytest.mark.usefixtures("numbers")
@pytest.mark.parametrize("sql", ["SELECT * FROM t", "COPY t TO STDOUT", "COPY t TO STDOUT (FORMAT binary)"])
def test_no_more_than_the_client_takes(flow: Flow, bare: Bare, fetched: list[int], sql: str) -> None:
    bare.send(b"Q", sql.encode() + b"\0")
    assert 0 < settled(lambda: sum(fetched)) < ROWS / 2
    flow.sql("INSERT INTO t VALUES (-1, 'new')")  # nobody holds a lock; and the client does not see it
    assert settled(lambda: sum(fetched)) < ROWS / 2
    messages = list(bare.until(b"Z"))
    rows = [body for kind, body in messages if kind in (b"D", b"d")]
    tag = next(body for kind, body in messages if kind == b"C")
    extra = 1 if "binary" in sql else 0  # the end
    assert len(rows) == ROWS + extra
    assert tag.rstrip(b"\0").split()[-1] == str(ROWS).encode()
    assert sum(fetched) == ROWS


@pytest.mark.usefixtures("numbers")
def test_a_client_that_goes_away_leaves_nothing(flow: Flow, url: str, fetched: list[int]) -> None:
    connection = Bare(url)
    connection.send(b"Q", b"SELECT * FROM t\0")
    before = settled(lambda: sum(fetched))
    connection.close()
    assert settled(lambda: sum(fetched)) <= before + 4 * STREAM_ROWS
    with psycopg.connect(url) as other:
        assert other.execute("SELECT count(*) FROM t").fetchone() == (ROWS,)


@pytest.mark.usefixtures("numbers")
def test_cancel_in_the_middle_of_the_rows(bare: Bare) -> None:
    bare.send(b"Q", b"SELECT * FROM t\0")
    assert next(bare.until(b"T"))[0] == b"T"
    bare.cancel()
    messages = list(bare.until(b"Z"))
    error = next(body for kind, body in messages if kind == b"E")
    assert b"C57014\0" in error
    assert not any(kind == b"C" for kind, _ in messages)
    bare.send(b"Q", b"SELECT 1\0")
    assert [kind for kind, _ in bare.until(b"Z")] == [b"T", b"D", b"C", b"Z"]


def test_an_error_after_some_rows(bare: Bare) -> None:
    bare.send(b"Q", f"SELECT 1 // ({4 * ROWS} - range), repeat('x', 50) FROM range({5 * ROWS})\0".encode())
    messages = list(bare.until(b"Z"))
    assert messages[0][0] == b"T"
    assert messages[1][0] == b"D"
    assert [kind for kind, _ in messages][-2:] == [b"E", b"Z"]
    assert b"C22012\0" in messages[-2][1]
    bare.send(b"Q", b"SELECT 1\0")
    assert [kind for kind, _ in bare.until(b"Z")] == [b"T", b"D", b"C", b"Z"]


@pytest.mark.usefixtures("numbers")
def test_cursors_take_turns(connection: psycopg.Connection, flow: Flow, fetched: list[int]) -> None:
    half = ROWS // 2
    with connection.transaction():
        connection.execute("DECLARE a CURSOR FOR SELECT k FROM t ORDER BY k")
        connection.execute("DECLARE b CURSOR WITH HOLD FOR SELECT k FROM t ORDER BY k DESC")
        assert connection.execute("FETCH 2 FROM a").fetchall() == [(0,), (1,)]
        assert connection.execute("FETCH 1 FROM b").fetchall() == [(ROWS - 1,)]
        assert connection.execute("SELECT count(*) FROM t").fetchone() == (ROWS,)
        flow.sql("INSERT INTO t VALUES (-1, '')")  # the cursors have their epoch
        assert connection.execute(f"MOVE {half} FROM a").statusmessage == f"MOVE {half}"
        assert connection.execute("FETCH a").fetchall() == [(half + 2,)]
    assert connection.execute("FETCH 2 FROM b").fetchall() == [(ROWS - 2,), (ROWS - 3,)]
    rest = connection.execute("FETCH ALL FROM b")
    assert rest.statusmessage == f"FETCH {ROWS - 3}"
    assert len(rest.fetchall()) == ROWS - 3
    assert connection.execute("FETCH ALL FROM b").fetchall() == []
    assert connection.execute("SELECT count(*) FROM t").fetchone() == (ROWS + 1,)


@pytest.mark.usefixtures("numbers")
def test_more_cursors_than_connections_to_duckdb(connection: psycopg.Connection) -> None:
    with connection.transaction():
        for i in range(STREAMS_MAX + 3):
            connection.execute(f"DECLARE c{i} CURSOR FOR SELECT k + {i} FROM t ORDER BY k")  # type: ignore[call-overload]
        for i in range(STREAMS_MAX + 3):
            assert connection.execute(f"FETCH 2 FROM c{i}").fetchall() == [(i,), (i + 1,)]  # type: ignore[call-overload]


@pytest.mark.usefixtures("numbers")
def test_portals_with_row_limits(bare: Bare) -> None:
    def extended(*messages: tuple[bytes, bytes]) -> list[tuple[bytes, bytes]]:
        for kind, body in (*messages, (b"S", b"")):
            bare.send(kind, body)
        return list(bare.until(b"Z"))

    bare.send(b"Q", b"BEGIN\0")
    list(bare.until(b"Z"))
    size = STREAM_ROWS + 5
    run = b"p\0" + struct.pack(">i", size)
    bind = b"p\0\0\0\0\0\0\0\0"
    found = extended((b"P", b"\0SELECT k FROM t ORDER BY k\0\0\0"), (b"B", bind), (b"E", run))
    assert [sum(kind == k for kind, _ in found) for k in (b"D", b"s", b"C")] == [size, 1, 0]
    bare.send(b"Q", b"SELECT 5\0")
    list(bare.until(b"Z"))
    found = extended((b"E", run))
    first = next(body for kind, body in found if kind == b"D")
    assert first[6:] == str(size).encode()
    found = extended((b"E", b"p\0\0\0\0\0"))
    assert sum(kind == b"D" for kind, _ in found) == ROWS - 2 * size
    assert found[-2] == (b"C", f"SELECT {ROWS - 2 * size}\0".encode())
