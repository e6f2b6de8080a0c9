"""Random messages in random order: each is answered or refused in our words, and the connection stays in step."""

from __future__ import annotations

import struct
from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as s

from penstock import Flow
from penstock.gateway.errors import ProtocolError
from penstock.gateway.prompt_dialogue import PromptDialogue
from penstock.gateway.protocol import Connection
from penstock.gateway.settings import ClientSettings

TEXTS = (
    "SELECT 1", "SELECT $1", "SELECT * FROM t WHERE id = $1 AND s = $2", "INSERT INTO t VALUES ($1, $2)", "TABLE t",
    "UPDATE t SET s = $1 WHERE id = $2 RETURNING *", "DELETE FROM t", "BEGIN", "COMMIT", "ROLLBACK", "SAVEPOINT a",
    "ROLLBACK TO a", "RELEASE a", "BEGIN; SELECT 1; COMMIT", "SELECT 1; SELECT 2", "INSERT INTO t VALUES (1, 'x')",
    "CREATE TABLE IF NOT EXISTS u (a INT)", "DROP TABLE IF EXISTS u", "SELECT nope", "SELEC", "", ";", "'", "/*", "$$",
    "COPY t FROM STDIN", "COPY t TO STDOUT", "COPY (SELECT 1) TO STDOUT CSV HEADER", "COPY t (s) FROM STDIN CSV",
    "DECLARE c CURSOR FOR SELECT 1", "DECLARE c CURSOR WITH HOLD FOR TABLE t", "FETCH 2 FROM c", "FETCH ALL c", "MOVE c",
    "CLOSE c", "CLOSE ALL", "SET a.b = 1", "SHOW a.b", "SHOW ALL", "RESET ALL", "DISCARD ALL", "DEALLOCATE ALL",
    "SET TIME ZONE 'x'", "SET TRANSACTION ISOLATION LEVEL SERIALIZABLE", "SHOW TABLES", "DESCRIBE t", "EXPLAIN SELECT 1",
    "SELECT 1 / 0", "SELECT [1, NULL], {'a': 1}, MAP {'b': 2}, INTERVAL 1 DAY", "SELECT '1'::BIT", "LISTEN x", "FETCH",
    "SELECT range FROM range(50)", "SET", "DECLARE", "COPY", "SELECT ?", "SELECT $a", "SELECT $99999", "SELECT $1::BLOB",
)  # fmt: skip
names = s.sampled_from([b"", b"a", b"c"])
values = s.one_of(
    s.none(), s.sampled_from([b"1", b"x", b"", b"\0\0\0\1", b"{1,2}", b"\xff"]), s.binary(max_size=9)
)
oids = s.lists(
    s.sampled_from([0, 16, 17, 20, 23, 25, 114, 701, 1007, 1043, 1082, 1184, 1186, 1700, 2950, 9]), max_size=3
)
formats = s.lists(s.integers(0, 1), max_size=2)


def message(kind: bytes, body: bytes = b"") -> bytes:
    return kind + struct.pack(">i", len(body) + 4) + body


def _parse(name: bytes, sql: str, types: list[int]) -> bytes:
    packed = struct.pack(f">H{len(types)}I", len(types), *types)
    return message(b"P", name + b"\0" + sql.encode() + b"\0" + packed)


def _bind(portal: bytes, name: bytes, given: list[bytes | None], f: list[int], r: list[int]) -> bytes:
    items = b"".join(struct.pack(">i", -1) if v is None else struct.pack(">i", len(v)) + v for v in given)
    head = struct.pack(f">H{len(f)}h", len(f), *f) + struct.pack(">H", len(given))
    return message(
        b"B", portal + b"\0" + name + b"\0" + head + items + struct.pack(f">H{len(r)}h", len(r), *r)
    )


messages = s.one_of(
    s.sampled_from(TEXTS).map(lambda sql: message(b"Q", sql.encode() + b"\0")),
    s.builds(_parse, names, s.sampled_from(TEXTS), oids),
    s.builds(_bind, names, names, s.lists(values, max_size=3), formats, formats),
    s.builds(lambda kind, name: message(b"D", kind + name + b"\0"), s.sampled_from([b"S", b"P"]), names),
    s.builds(lambda name, n: message(b"E", name + b"\0" + struct.pack(">i", n)), names, s.integers(0, 3)),
    s.builds(lambda kind, name: message(b"C", kind + name + b"\0"), s.sampled_from([b"S", b"P"]), names),
    s.just(message(b"S")),
    s.just(message(b"S")),
    s.just(message(b"S")),
    s.sampled_from([b"1\tx\n", b"2\t", b'"a"\n', b"\\.\n", b"\\", b"\xff\n"]).map(lambda d: message(b"d", d)),
    s.sampled_from([message(b"c"), message(b"f", b"no\0"), message(b"H"), message(b"F", b"x")]),
)


@pytest.fixture(scope="module")
def flow() -> Iterator[Flow]:
    with Flow() as flow:
        flow.sql("CREATE TABLE t (id BIGINT PRIMARY KEY, s TEXT)")
        yield flow


@settings(deadline=None, suppress_health_check=list(HealthCheck), max_examples=150)
@given(s.lists(messages, max_size=25), s.booleans())
def test_any_messages(flow: Flow, sent: list[bytes], at_once: bool) -> None:
    connection = Connection()
    connection.accepted()
    with flow.session(define_at_once=True) as session:
        dialogue = PromptDialogue(connection, session, ClientSettings(session, "ann"))
        out, refused = b"", ""
        for data in [*sent, message(b"c"), message(b"S"), message(b"Q", b"ROLLBACK\0")]:
            connection.receive(data)
            try:
                while (found := connection.next_message()) is not None:
                    now: list[bytes] = []
                    done = at_once and dialogue.at_once(found, now)
                    out += b"".join(now if done else dialogue.handle(found))
            except ProtocolError as error:
                refused = error.message
        if refused:  # a statement in the middle of COPY
            assert "does not belong here" in refused
            return
        while out:  # whole messages, and at the end the server is ready
            (size,) = struct.unpack(">i", out[1:5])
            last, out = out[: 1 + size], out[1 + size :]
        assert last == message(b"Z", b"I")
