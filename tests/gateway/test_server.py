"""The server with bare sockets: logins, TLS, strangers, and its end."""

from __future__ import annotations

import socket
import ssl
import struct
import time
from pathlib import Path

import psycopg
import pytest

from penstock import Flow
from penstock.gateway.background import serving
from penstock.gateway.client import Client, ServerError, target
from penstock.gateway.login import Access
from penstock.gateway.scram import verifier
from tests.certificate import make_certificate

ACCESS = Access({"ann": verifier("päss word")})


def never() -> str:
    raise AssertionError("no password should be asked for")


def address(url: str) -> tuple[str, int]:
    where = target(url)
    return where.host, where.port


def with_user(url: str, user: str) -> str:
    return url.replace("penstock@", f"{user}@")


def test_passwords(flow: Flow) -> None:
    with serving(flow, access=ACCESS) as url:
        with psycopg.connect(with_user(url, "ann"), password="päss word") as connection:
            assert connection.execute("SELECT current_user").fetchone() == ("ann",)
        for user, password in (("ann", "wrong"), ("bob", "päss word"), ("ann", "")):
            with pytest.raises(psycopg.OperationalError) as refused:
                psycopg.connect(with_user(url, user), password=password)
            assert f'user "{user}"' in str(refused.value) or "password" in str(refused.value)
        client = Client(target(with_user(url, "ann")), lambda: "päss word")
        assert [reply.rows for reply in client.query("SELECT 1, NULL; SELECT 'x'")] == [
            [["1", None]],
            [["x"]],
        ]
        client.close()
        with pytest.raises(ServerError) as wrong:
            Client(target(with_user(url, "ann")), lambda: "wrong")
        assert wrong.value.sqlstate == "28P01"


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    return make_certificate(tmp_path_factory.mktemp("tls"))


def test_tls(flow: Flow, certificate: tuple[Path, Path]) -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*certificate)
    with serving(flow, tls=context, access=Access(ACCESS.roles, needs_tls=True)) as url:
        url = with_user(url, "ann")
        with psycopg.connect(url, password="päss word", sslmode="require") as connection:
            rows = connection.execute("SELECT i, repeat('x', 100) FROM range(50000) t(i)").fetchall()
            assert len(rows) == 50_000
        with pytest.raises(psycopg.OperationalError, match="encrypted"):
            psycopg.connect(url, password="päss word", sslmode="disable")
        client = Client(target(url + "?sslmode=require"), lambda: "päss word")
        assert next(client.query("SELECT 1")).rows == [["1"]]
        client.close()
        with socket.create_connection(address(url)) as bare:  # bytes in plain text behind SSLRequest
            bare.sendall(struct.pack(">ii", 8, 80877103) + b"\0\0\0\x08xxxx")
            assert b"SELECT" not in bare.recv(100)


def test_without_tls_the_answer_is_no(url: str) -> None:
    with socket.create_connection(address(url)) as bare:
        bare.sendall(struct.pack(">ii", 8, 80877103))
        assert bare.recv(1) == b"N"
        bare.sendall(struct.pack(">ii", 8, 80877104))
        assert bare.recv(1) == b"N"


@pytest.mark.parametrize(
    "data", [b"GET / HTTP/1.1\r\n\r\n", b"\xff" * 100, struct.pack(">ii", 8, 2 << 16), b"\0\0\0\x03"]
)
def test_strangers_are_told_and_disconnected(url: str, data: bytes) -> None:
    with socket.create_connection(address(url), timeout=10) as bare:
        bare.sendall(data)
        answer = b""
        while piece := bare.recv(1000):
            answer += piece
        assert b"08P01" in answer
        assert b"Traceback" not in answer
    with psycopg.connect(url) as connection:
        assert connection.execute("SELECT 1").fetchone() == (1,)


def test_a_newer_protocol_is_negotiated(url: str) -> None:
    with socket.create_connection(address(url), timeout=10) as bare:
        body = struct.pack(">i", (3 << 16) + 2) + b"user\0penstock\0_pq_.new\0on\0\0"
        bare.sendall(struct.pack(">i", len(body) + 4) + body)
        assert bare.recv(1) == b"v"


def test_a_client_that_vanishes_takes_its_transaction_with_it(flow: Flow, url: str) -> None:
    flow.sql("CREATE TABLE t (a INT)")
    connection = psycopg.connect(url)
    connection.execute("INSERT INTO t VALUES (1)")
    connection.pgconn.finish()
    with psycopg.connect(url) as other:
        assert other.execute("SELECT count(*) FROM t").fetchone() == (0,)


def test_many_idle_connections_stop_nobody(url: str) -> None:
    idle = [socket.create_connection(address(url)) for _ in range(200)]
    with psycopg.connect(url) as connection:
        assert connection.execute("SELECT 1").fetchone() == (1,)
    for one in idle:
        one.close()


def test_a_client_that_does_not_read_does_not_fill_our_memory(flow: Flow, url: str) -> None:
    body = struct.pack(">i", 3 << 16) + b"user\0penstock\0\0"
    query = b"SELECT repeat('x', 1000) FROM range(200000)\0"
    with socket.create_connection(address(url), timeout=10) as bare:
        bare.sendall(struct.pack(">i", len(body) + 4) + body)
        bare.sendall(b"Q" + struct.pack(">i", len(query) + 4) + query)
        time.sleep(0.5)  # the server has to wait for us: others go on
        with psycopg.connect(url) as other:
            assert other.execute("SELECT 1").fetchone() == (1,)
        total = 0
        bare.settimeout(20)
        while total < 200_000_000:
            piece = bare.recv(1 << 20)
            assert piece
            total += len(piece)


def test_stopping_ends_connections(flow: Flow) -> None:
    with serving(flow) as url:
        connection = psycopg.connect(url, autocommit=True)
        connection.execute("SELECT 1")
    with pytest.raises(psycopg.OperationalError):
        connection.execute("SELECT 1")
    connection.close()
    assert flow.sql("SELECT 1 AS one").to_pylist() == [{"one": 1}]
