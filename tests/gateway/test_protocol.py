"""The protocol without I/O: what is read, what is refused, and that any bytes are one or the other."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given, settings
from hypothesis import strategies as s

from penstock.base.limits import MESSAGE_BYTES_MAX, STARTUP_BYTES_MAX
from penstock.gateway import messages as m
from penstock.gateway.errors import ProtocolError
from penstock.gateway.protocol import ACCEPTED, DROPPED, Connection, State


def packet(body: bytes) -> bytes:
    return struct.pack(">i", len(body) + 4) + body


def message(kind: bytes, body: bytes = b"") -> bytes:
    return kind + packet(body)


STARTUP = packet(struct.pack(">i", 3 << 16) + b"user\0ann\0database\0x\0\0")


def ready() -> Connection:
    connection = Connection()
    connection.receive(STARTUP)
    assert connection.next_message() == m.Startup(0, {"user": "ann", "database": "x"})
    connection.accepted()
    return connection


def everything(connection: Connection) -> list[m.Message]:
    found = []
    while (message := connection.next_message()) is not None:
        found.append(message)
    return found


def test_messages_byte_by_byte() -> None:
    connection = ready()
    data = (
        message(b"P", b"s\0SELECT $1\0\0\1\0\0\0\x17")
        + message(b"B", b"p\0s\0\0\1\0\1\0\2\0\0\0\1x\xff\xff\xff\xff\0\0")
        + message(b"D", b"Pp\0")
        + message(b"E", b"p\0\0\0\0\5")
        + message(b"S")
    )
    found = []
    for i in range(len(data)):
        connection.receive(data[i : i + 1])
        found += everything(connection)
    assert found == [
        m.Parse("s", "SELECT $1", (23,)),
        m.Bind("p", "s", (1,), (b"x", None), ()),
        m.Describe("P", "p"),
        m.Execute("p", 5),
        m.Sync(),
    ]


def test_after_an_error_all_is_dropped_until_sync() -> None:
    connection = ready()
    connection.receive(message(b"P", b"\0x\0\0\0") + message(b"E", b"\0\0\0\0\0") + message(b"Q", b"x\0"))
    assert isinstance(connection.next_message(), m.Parse)
    assert not connection.failed()
    assert connection.next_message() is None
    connection.receive(message(b"S") + message(b"Q", b"y\0"))
    assert everything(connection) == [m.Sync(), m.Query("y")]


def test_flush_begins_and_ends_nothing() -> None:
    """libpq sends one behind the Sync of a pipeline: the client is idle all the same, and gets notifications."""
    connection = ready()
    connection.receive(message(b"S") + message(b"H"))
    assert everything(connection) == [m.Sync(), m.Flush()]
    assert connection.is_idle
    connection.receive(message(b"P", b"\0SELECT 1\0\0\0") + message(b"H"))
    assert len(everything(connection)) == 2
    assert not connection.is_idle
    assert not connection.failed()  # ReadyForQuery waits for Sync


def test_after_an_error_in_a_simple_query_comes_ready() -> None:
    connection = ready()
    connection.receive(message(b"Q", b"x\0"))
    everything(connection)
    assert connection.failed()
    assert connection.state is State.READY


def test_copy() -> None:
    connection = ready()
    connection.receive(message(b"Q", b"COPY\0"))
    everything(connection)
    connection.copying_in()
    connection.receive(message(b"d", b"1\n") + message(b"H") + message(b"c"))
    assert everything(connection) == [m.CopyData(b"1\n"), m.CopyDone()]
    connection.copied()
    connection.receive(message(b"d", b"late\n") + message(b"Q", b"x\0"))
    assert everything(connection) == [m.Query("x")]


@pytest.mark.parametrize(
    "data",
    [
        packet(struct.pack(">i", 2 << 16)),
        packet(struct.pack(">i", 3 << 16) + b"user\0ann"),
        packet(struct.pack(">i", 3 << 16) + b"\xff\0\0\0"),
        struct.pack(">i", STARTUP_BYTES_MAX + 1),
        struct.pack(">i", 3),
        struct.pack(">i", -1),
        STARTUP[:4] + STARTUP[4:],
    ],
)
def test_bad_beginnings(data: bytes) -> None:
    connection = Connection()
    connection.receive(data)
    if data == STARTUP:
        assert connection.next_message() is not None
        return
    with pytest.raises(ProtocolError):
        everything(connection)
    assert connection.state is State.CLOSED
    connection.receive(STARTUP)
    assert connection.next_message() is None


@pytest.mark.parametrize(
    "data",
    [
        message(b"!"),
        message(b"p", b"x"),
        b"Q" + struct.pack(">i", MESSAGE_BYTES_MAX + 1),
        b"Q" + struct.pack(">i", -5),
        message(b"Q", b"no end"),
        message(b"Q", b"two\0ends\0"),
        message(b"Q", b"\xff\0"),
        message(b"B", b"\0\0\0\1\0\7\0\0\0\0"),
        message(b"B", b"\0\0\0\0\0\1\0\0\0\x7fx"),
        message(b"B", b"\0\0\0\0\0\1\xff\xff\xff\xfe"),
        message(b"D", b"X\0"),
        message(b"E", b"\0\0"),
        message(b"S", b"more"),
    ],
)
def test_bad_messages(data: bytes) -> None:
    connection = ready()
    connection.receive(data)
    with pytest.raises(ProtocolError):
        everything(connection)


def test_plain_bytes_before_tls() -> None:
    connection = Connection()
    connection.receive(struct.pack(">ii", 8, m.SSL_REQUEST) + b"SELECT")
    assert connection.next_message() == m.SslRequest()
    with pytest.raises(ProtocolError):
        connection.to_be_encrypted()


def test_each_state_has_its_messages() -> None:
    assert set(ACCEPTED) == set(DROPPED) == set(State) - {State.CLOSED}


kinds = s.sampled_from([bytes([c]) for c in b"pQPBDECHSXdcfF!"])
bodies = s.one_of(
    s.binary(max_size=60),
    s.builds(
        lambda *p: b"".join(p), s.binary(max_size=8), s.just(b"\0"), s.binary(max_size=20), s.just(b"\0")
    ),
)
framed = s.lists(s.builds(message, kinds, bodies), max_size=8).map(b"".join)


@settings(deadline=None)
@given(
    s.sampled_from([State.STARTUP, State.AUTH, State.READY, State.SKIPPING, State.COPY_IN]),
    s.one_of(s.binary(max_size=200), framed, s.builds(packet, s.binary(max_size=100))),
    s.lists(s.integers(1, 40), max_size=6),
)
def test_any_bytes_are_read_or_refused(state: State, data: bytes, cuts: list[int]) -> None:
    connection = Connection()
    connection.state = state
    pieces, at = [], 0
    for size in [*cuts, len(data)]:
        pieces.append(data[at : at + size])
        at += size
    try:
        for piece in pieces:
            connection.receive(piece)
            for found in everything(connection):
                assert isinstance(found, m.Message)
    except ProtocolError:
        assert connection.state is State.CLOSED
    assert connection.waiting_bytes <= len(data)
