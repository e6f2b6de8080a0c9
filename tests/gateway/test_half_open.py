"""Strangers: connections that say nothing, or nothing that makes sense, keep nobody out and learn nothing."""

from __future__ import annotations

import logging
import os
import resource
import socket
import struct
from collections.abc import Iterator
from contextlib import ExitStack
from urllib.parse import urlsplit

import psycopg
import pytest

from penstock import Flow
from penstock.base.limits import MESSAGE_BYTES_MAX, STARTUP_BYTES_MAX, STRANGERS_MAX
from penstock.gateway.background import serving
from penstock.gateway.login import Access
from penstock.gateway.messages import GSS_REQUEST, SSL_REQUEST
from penstock.gateway.scram import MECHANISM, verifier

# `make fuzz` asks for 10,000; each takes two file handles here, since client and server are one process.
IDLE = int(os.environ.get("PENSTOCK_HALF_OPEN", STRANGERS_MAX + 100))


def address(url: str) -> tuple[str, int]:
    parts = urlsplit(url)
    assert parts.hostname is not None
    assert parts.port is not None
    return parts.hostname, parts.port


def packet(body: bytes) -> bytes:
    return struct.pack(">i", len(body) + 4) + body


def startup(user: str) -> bytes:
    return packet(struct.pack(">i", 3 << 16) + f"user\0{user}\0\0".encode())


def closed(connection: socket.socket) -> bytes:
    """What still comes before the other side closes."""
    data = b""
    try:
        while piece := connection.recv(65536):
            data += piece
    except ConnectionError:
        pass
    return data


@pytest.fixture
def guarded(flow: Flow) -> Iterator[str]:
    with serving(flow, access=Access({"ann": verifier("right")})) as url:
        yield url


def test_idle_half_open_connections_keep_nobody_out(url: str) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, min(hard, 2 * IDLE + 1000)), hard))
    room = (resource.getrlimit(resource.RLIMIT_NOFILE)[0] - 500) // 2
    beginnings = (b"", b"\0", struct.pack(">ii", 8, SSL_REQUEST), struct.pack(">i", 100))
    with ExitStack() as stack, psycopg.connect(url, autocommit=True) as before:
        opened = []
        for i in range(min(IDLE, room)):
            connection = stack.enter_context(socket.create_connection(address(url), timeout=30))
            connection.sendall(beginnings[i % len(beginnings)])
            opened.append(connection)
            if i % 100 == 0:
                assert before.execute("SELECT 1").fetchone() == (1,)
        assert len(opened) > STRANGERS_MAX
        with psycopg.connect(url) as after:
            assert after.execute("SELECT 2").fetchone() == (2,)
        assert before.execute("SELECT 3").fetchone() == (3,)
        for connection in opened[: len(opened) - STRANGERS_MAX]:  # the oldest had to make room
            assert closed(connection) in (b"", b"N")


MALFORMED = {
    "nothing": b"",
    "a length that is too short": struct.pack(">i", 3),
    "a negative length": struct.pack(">i", -1),
    "the most negative length": struct.pack(">i", -(2**31)),
    "oversized": struct.pack(">i", STARTUP_BYTES_MAX + 1) + b"x" * 100,
    "huge": struct.pack(">i", 2**31 - 1),
    "truncated": startup("ann")[:-5],
    "another protocol": packet(struct.pack(">i", 2 << 16) + b"user\0ann\0\0"),
    "http": b"GET / HTTP/1.1\r\nHost: x\r\n\r\n",
    "parameters without an end": packet(struct.pack(">i", 3 << 16) + b"user\0ann"),
    "no user": packet(struct.pack(">i", 3 << 16) + b"\0"),
    "a query before the startup": b"Q" + packet(b"SELECT 1\0"),
    "gss, then noise": struct.pack(">ii", 8, GSS_REQUEST) + b"\xff" * 50,
    "plain text after asking for tls": struct.pack(">ii", 8, SSL_REQUEST) + startup("ann")[:9],
}


@pytest.mark.parametrize("what", MALFORMED)
def test_malformed_beginnings(guarded: str, caplog: pytest.LogCaptureFixture, what: str) -> None:
    with caplog.at_level(logging.ERROR), socket.create_connection(address(guarded), timeout=10) as connection:
        connection.sendall(MALFORMED[what])
        connection.shutdown(socket.SHUT_WR)
        answer = closed(connection)
    assert len(answer) < 500
    assert b"DataRow" not in answer
    assert b"SELECT" not in answer
    assert not any(word in answer for word in (b"Traceback", b"penstock/", b"16.0"))
    assert not caplog.records
    with psycopg.connect(guarded.replace("penstock@", "ann:right@")) as other:
        assert other.execute("SELECT 1").fetchone() == (1,)


AFTER = {
    "an unknown kind": b"!" + packet(b""),
    "a negative length": b"Q" + struct.pack(">i", -5),
    "oversized": b"Q" + struct.pack(">i", MESSAGE_BYTES_MAX + 1) + b"x" * 1000,
    "truncated": b"Q" + struct.pack(">i", 1000) + b"SELECT",
    "a text without its end": b"Q" + packet(b"SELECT 1"),
    "a password": b"p" + packet(b"x"),
    "another startup": startup("bob"),
    "a bind of more values than it has": b"B" + packet(b"\0\0\0\0\xff\xff"),
    "copy data in the middle of a query": b"d" + packet(b"x") + b"B" + packet(b"\0\0\0\0"),
}
UNFINISHED = ("truncated", "another startup")  # their lengths say that more will come


@pytest.mark.parametrize("what", AFTER)
def test_malformed_messages_end_the_connection(url: str, caplog: pytest.LogCaptureFixture, what: str) -> None:
    with caplog.at_level(logging.ERROR), socket.create_connection(address(url), timeout=10) as connection:
        connection.sendall(startup("penstock") + AFTER[what])
        if what in UNFINISHED:
            connection.shutdown(socket.SHUT_WR)
        answer = closed(connection)
    assert b"Traceback" not in answer
    if what not in UNFINISHED:
        assert b"SFATAL\0" in answer
        assert b"C08P01\0" in answer
    assert not caplog.records
    with psycopg.connect(url) as other:
        assert other.execute("SELECT 1").fetchone() == (1,)


def scram(url: str, user: str, proof: bytes) -> list[bytes]:
    """The kinds and bodies of what a stranger is told, but for what is random."""
    with socket.create_connection(address(url), timeout=10) as connection:
        first = b"n,,n=,r=abc"
        connection.sendall(startup(user))
        connection.sendall(b"p" + packet(MECHANISM.encode() + b"\0" + struct.pack(">i", len(first)) + first))
        file = connection.makefile("rb")
        told = []
        for _ in range(2):
            head = file.read(5)
            body = file.read(struct.unpack(">i", head[1:])[0] - 4)
            told.append(head[:1] + body)
        nonce = dict(part.split(b"=", 1) for part in told[1][5:].split(b","))[b"r"]
        connection.sendall(b"p" + packet(b"c=biws,r=" + nonce + b",p=" + proof))
        rest = file.read()
        salt = told[1].split(b",s=")[1].split(b",")
        return [told[0], b"%d %s" % (len(salt[0]), salt[1]), rest]


def test_unknown_roles_are_told_what_wrong_passwords_are(guarded: str) -> None:
    proof = b"A" * 43 + b"="
    known, unknown = scram(guarded, "ann", proof), scram(guarded, "bob", proof)
    assert known == [told.replace(b'"bob"', b'"ann"') for told in unknown]
    assert b"C28P01\0" in known[-1]
    for name, secret in (("ann", "wrong"), ("nobody", "wrong"), ("nobody", "right")):
        with pytest.raises(psycopg.OperationalError, match="password authentication failed"):
            psycopg.connect(guarded.replace("penstock@", f"{name}:{secret}@"))


def test_strangers_cannot_cancel(guarded: str) -> None:
    for number in range(3):
        with socket.create_connection(address(guarded), timeout=10) as connection:
            connection.sendall(struct.pack(">iiIi", 16, 80877102, number, 12345))
            assert closed(connection) == b""
