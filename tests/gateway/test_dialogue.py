"""A dialogue without sockets: the bytes of the extended query protocol."""

from __future__ import annotations

import struct
from collections.abc import Iterator

import pytest

from penstock import Flow
from penstock.gateway.dialogue import Dialogue
from penstock.gateway.protocol import Connection
from penstock.gateway.settings import ClientSettings


def message(kind: bytes, body: bytes = b"") -> bytes:
    return kind + struct.pack(">i", len(body) + 4) + body


def parse(name: bytes, sql: bytes, *oids: int) -> bytes:
    return message(b"P", name + b"\0" + sql + b"\0" + struct.pack(f">H{len(oids)}I", len(oids), *oids))


def bind(
    portal: bytes, name: bytes, *values: bytes, formats: bytes = b"\0\0", results: bytes = b"\0\0"
) -> bytes:
    items = b"".join(struct.pack(">i", len(v)) + v for v in values)
    return message(
        b"B", portal + b"\0" + name + b"\0" + formats + struct.pack(">H", len(values)) + items + results
    )


def execute(portal: bytes, rows: int = 0) -> bytes:
    return message(b"E", portal + b"\0" + struct.pack(">i", rows))


SYNC = message(b"S")


class Wire:
    """Sends bytes, and takes the answer apart."""

    def __init__(self, flow: Flow) -> None:
        connection = Connection()
        connection.accepted()
        session = flow.session(define_at_once=True)
        self.dialogue = Dialogue(connection, session, ClientSettings(session, "ann"))

    def __call__(self, *data: bytes) -> list[tuple[bytes, bytes]]:
        connection = self.dialogue.connection
        connection.receive(b"".join(data))
        out = b""
        while (found := connection.next_message()) is not None:
            out += b"".join(self.dialogue.handle(found))
        answers = []
        while out:
            (size,) = struct.unpack(">i", out[1:5])
            answers.append((out[:1], out[5 : 1 + size]))
            out = out[1 + size :]
        return answers

    def kinds(self, *data: bytes) -> bytes:
        return b"".join(kind for kind, _ in self(*data))


@pytest.fixture
def wire() -> Iterator[Wire]:
    with Flow() as flow:
        flow.sql("CREATE TABLE t (id BIGINT PRIMARY KEY, s TEXT, n DECIMAL(12,2), d DATE)")
        flow.sql("INSERT INTO t VALUES (1, 'a', 1.5, '2020-01-01'), (2, NULL, 2, NULL)")
        yield Wire(flow)


def test_describing_a_statement(wire: Wire) -> None:
    answers = wire(
        parse(b"p", b"SELECT id, s FROM t WHERE n > $1 AND d = $2 LIMIT $3"), message(b"D", b"Sp\0"), SYNC
    )
    assert [kind for kind, _ in answers] == [b"1", b"t", b"T", b"Z"]
    assert struct.unpack(">H3I", answers[1][1]) == (3, 1700, 1082, 20)
    assert answers[2][1][2:5] == b"id\0"
    assert struct.unpack(">I", answers[2][1][11:15]) == (20,)
    answers = wire(parse(b"i", b"INSERT INTO t VALUES ($1, $2, $3, $4)"), message(b"D", b"Si\0"), SYNC)
    assert [kind for kind, _ in answers] == [b"1", b"t", b"n", b"Z"]
    assert struct.unpack(">H4I", answers[1][1]) == (4, 20, 25, 1700, 1082)


def test_row_limits(wire: Wire) -> None:
    begun = wire(
        parse(b"", b"SELECT i FROM range(5) t(i)"),
        bind(b"", b""),
        execute(b"", 2),
        execute(b"", 2),
        execute(b"", 2),
    )
    assert b"".join(kind for kind, _ in begun) == b"12DDsDDsDC"
    assert begun[-1][1] == b"SELECT 1\0"
    assert wire.kinds(SYNC) == b"Z"
    assert wire.kinds(execute(b"")) == b"E"  # the portal ended with the transaction
    assert wire.kinds(SYNC) == b"Z"


def test_portals_last_as_long_as_the_transaction(wire: Wire) -> None:
    wire(message(b"Q", b"BEGIN\0"))
    assert wire.kinds(parse(b"", b"SELECT * FROM t"), bind(b"c", b""), execute(b"c", 1), SYNC) == b"12DsZ"
    assert wire.kinds(message(b"Q", b"FETCH ALL FROM c\0")) == b"TDCZ"  # cursors are portals
    assert wire.kinds(message(b"C", b"Pc\0"), SYNC) == b"3Z"
    assert wire.kinds(execute(b"c"), SYNC) == b"EZ"
    assert wire(SYNC) == [(b"Z", b"E")]
    assert wire(message(b"Q", b"COMMIT\0")) == [(b"C", b"ROLLBACK\0"), (b"Z", b"I")]


def test_a_portal_is_a_cursor_before_it_has_run(wire: Wire) -> None:
    wire(message(b"Q", b"BEGIN\0"))
    assert wire.kinds(parse(b"", b"SELECT * FROM range(3)"), bind(b"c", b""), SYNC) == b"12Z"
    assert wire(message(b"Q", b"MOVE 2 c\0"))[0] == (b"C", b"MOVE 2\0")
    assert wire.kinds(execute(b"c"), SYNC) == b"DCZ"
    assert wire.kinds(parse(b"", b"DELETE FROM t"), bind(b"d", b""), SYNC) == b"12Z"
    assert wire.kinds(message(b"Q", b"MOVE 1 d\0")) == b"EZ"
    wire(message(b"Q", b"ROLLBACK\0"))


def test_after_an_error_nothing_runs_until_sync(wire: Wire) -> None:
    answers = wire.kinds(
        parse(b"", b"SELECT nope FROM t"), message(b"D", b"S\0"), execute(b""), message(b"Q", b"SELECT 1\0")
    )
    assert answers == b"1E"
    assert wire.kinds(SYNC, message(b"Q", b"SELECT 1\0")) == b"ZTDCZ"


def test_the_answer_has_the_types_that_were_announced(wire: Wire) -> None:
    wire(parse(b"p", b"SELECT * FROM u"), SYNC)
    wire(message(b"Q", b"CREATE TABLE u (a INT)\0"))
    assert wire.kinds(parse(b"q", b"SELECT * FROM u"), message(b"D", b"Sq\0"), SYNC) == b"1tTZ"
    wire(message(b"Q", b"CREATE OR REPLACE TABLE u (a TEXT); INSERT INTO u VALUES ('x')\0"))
    answers = wire(bind(b"", b"q"), execute(b""), SYNC)
    assert [kind for kind, _ in answers] == [b"2", b"E", b"Z"]
    assert b"cached plan must not change result type" in answers[1][1]
    assert wire.kinds(bind(b"", b"p"), execute(b""), SYNC) == b"2DCZ"


@pytest.mark.parametrize(
    "sql", [b"SELECT * FROM u", b"SELECT * FROM u WHERE k = 1"], ids=["scan", "point read"]
)
def test_rows_are_of_the_types_that_another_portal_was_described_with(wire: Wire, sql: bytes) -> None:
    """pgjdbc describes the first portal of a statement only."""
    describe, run = message(b"D", b"P\0"), (bind(b"", b"q"), execute(b""), SYNC)
    wire(message(b"Q", b"CREATE TABLE u (k INT PRIMARY KEY, a INT); INSERT INTO u VALUES (1, 2)\0"))
    assert wire.kinds(parse(b"q", sql), bind(b"", b"q"), describe, execute(b""), SYNC) == b"12TDCZ"
    assert wire.kinds(*run) == b"2DCZ"
    wire(message(b"Q", b"DROP TABLE u; CREATE TABLE u (k INT PRIMARY KEY, a TEXT, b INT)\0"))
    wire(message(b"Q", b"INSERT INTO u VALUES (1, 'x', 3)\0"))
    answers = wire(*run)
    assert [kind for kind, _ in answers] == [b"2", b"E", b"Z"]
    assert b"C0A000\0" in answers[1][1]
    assert b"RRevalidateCachedQuery\0" in answers[1][1]  # pgjdbc then prepares it again
    assert wire.kinds(bind(b"", b"q"), describe, execute(b""), SYNC) == b"2TDCZ"  # told, it may change
    assert wire(*run)[1] == (b"D", b"\0\3\0\0\0\1" + b"1\0\0\0\1x\0\0\0\1" + b"3")


def test_binary_parameters_and_results(wire: Wire) -> None:
    answers = wire(
        parse(b"", b"SELECT $1 + 1, $2", 23, 25),
        bind(b"", b"", struct.pack(">i", 41), b"x", formats=b"\0\2\0\1\0\0", results=b"\0\1\0\1"),
        execute(b""),
        SYNC,
    )
    assert answers[2] == (b"D", b"\0\2\0\0\0\4\0\0\0\x2a\0\0\0\1x")


def test_wrong_use(wire: Wire) -> None:
    assert wire.kinds(parse(b"p", b"SELECT 1"), parse(b"p", b"SELECT 1"), SYNC) == b"1EZ"
    assert wire.kinds(bind(b"", b"nope"), SYNC) == b"EZ"
    assert wire.kinds(message(b"D", b"Pnope\0"), SYNC) == b"EZ"
    assert wire.kinds(message(b"F", b"x")) == b"EZ"
    assert wire.kinds(parse(b"", b"SELECT 1; SELECT 2"), SYNC) == b"EZ"
    assert wire.kinds(parse(b"", b""), bind(b"", b""), message(b"D", b"P\0"), execute(b""), SYNC) == b"12nIZ"
    assert wire.kinds(message(b"Q", b" ; \0")) == b"IZ"


def test_copy_in_the_extended_protocol(wire: Wire) -> None:
    begun = wire.kinds(parse(b"", b"COPY t (id, s) FROM STDIN"), bind(b"", b""), execute(b""))
    assert begun == b"12G"
    assert wire.kinds(message(b"d", b"7\tx\n8\t\\N"), message(b"c"), SYNC) == b"CZ"
    begun = wire.kinds(
        parse(b"", b"COPY t (id, s) FROM STDIN"), bind(b"", b""), execute(b""), message(b"d", b"7\tx\n")
    )
    assert begun == b"12G"
    assert wire.kinds(message(b"c"), message(b"d", b"late"), SYNC) == b"EZ"
    assert wire(message(b"Q", b"SELECT count(*) FROM t\0"))[1][1].endswith(b"4")
    assert wire.kinds(message(b"Q", b"COPY t (id) TO STDOUT\0")) == b"HddddcCZ"
