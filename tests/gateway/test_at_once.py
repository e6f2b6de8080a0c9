"""What is answered in one step is what message by message gives, and nothing that it remembers outlives a change."""

from __future__ import annotations

import struct
from collections.abc import Iterator

import psycopg
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as s
from psycopg import errors

from penstock import Flow
from penstock.base.limits import READ_AHEAD_BYTES_MAX
from penstock.gateway.prompt_dialogue import PromptDialogue
from penstock.gateway.protocol import Connection
from penstock.gateway.settings import ClientSettings


def message(kind: bytes, body: bytes = b"") -> bytes:
    return kind + struct.pack(">i", len(body) + 4) + body


def parse(name: bytes, sql: bytes, *oids: int) -> bytes:
    return message(b"P", name + b"\0" + sql + b"\0" + struct.pack(f">H{len(oids)}I", len(oids), *oids))


def bind(name: bytes, *values: bytes | None, format: int = 0, result: int = 0, portal: bytes = b"") -> bytes:
    items = [struct.pack(">i", -1) if v is None else struct.pack(">i", len(v)) + v for v in values]
    head = portal + b"\0" + name + b"\0" + struct.pack(">HHH", 1, format, len(values))
    return message(b"B", head + b"".join(items) + struct.pack(">HH", 1, result))


DESCRIBE, EXECUTE, SYNC = message(b"D", b"P\0"), message(b"E", b"\0\0\0\0\0"), message(b"S")
REST = DESCRIBE + EXECUTE + SYNC
INT8, TEXT = 20, 25


def big(value: int) -> bytes:
    return struct.pack(">q", value)


class Wire:
    """Sends bytes to a dialogue: what can be answered at once is, or nothing is."""

    def __init__(self, flow: Flow, at_once: bool) -> None:
        self.at_once = at_once
        self.left = 0  # messages that could not be answered at once
        self.connection = Connection()
        self.connection.accepted()
        self.session = flow.session(define_at_once=True)
        self.dialogue = PromptDialogue(self.connection, self.session, ClientSettings(self.session, "ann"))

    def __call__(self, *pieces: bytes) -> bytes:
        out: list[bytes] = []
        for piece in pieces:
            self.connection.receive(piece)
            while (found := self.connection.next_message()) is not None:
                if not self.at_once or not self.dialogue.at_once(found, out):
                    self.left += 1
                    out.extend(self.dialogue.handle(found))
        return b"".join(out)


SETUP = """
    CREATE TABLE t (k BIGINT PRIMARY KEY, g INTEGER, s TEXT, n DECIMAL(9,2), d DATE, b BOOLEAN, f DOUBLE);
    CREATE TABLE bag (g INTEGER, s TEXT);
    CREATE MATERIALIZED VIEW v AS SELECT g, count(*) AS n, max(s) AS s FROM t GROUP BY g;
    INSERT INTO t VALUES (1, 1, 'a', 1.50, '2020-02-29', true, 0.5), (2, 1, NULL, NULL, NULL, NULL, NULL),
        (-3, 2, 'ü', -7, '0001-01-01', false, 1e300);
    INSERT INTO bag VALUES (1, 'x'), (1, 'x'), (2, 'y'), (NULL, 'z');
"""


@pytest.fixture
def wires() -> Iterator[tuple[Wire, Wire]]:
    with Flow() as flow:
        flow.sql(SETUP)
        yield Wire(flow, at_once=True), Wire(flow, at_once=False)


READS = [
    parse(b"one", b"SELECT 1 AS x, 'y' AS y"),
    parse(b"t", b"SELECT * FROM t WHERE k = $1", INT8),
    parse(b"v", b"SELECT n, g, s FROM v WHERE g = $1", INT8),
    parse(b"bag", b"SELECT s FROM bag WHERE g = $1", INT8),
    parse(b"two", b"SELECT n FROM v WHERE s = $1 AND g = $2", TEXT, INT8),
    parse(b"no", b"SELECT count(*) FROM t WHERE g > $1", INT8),
    parse(b"", b"SELECT g FROM v WHERE g = 1"),
]
keys = s.sampled_from([big(1), big(2), big(-3), big(99), None, b"short"])
texts = s.sampled_from([b"1", b"2", b" 1", b"+1", b"-3", b"x", b"99999999999999999999", None])
binds = s.one_of(
    s.builds(
        lambda name, key, result: bind(name, key, format=1, result=result),
        s.sampled_from([b"t", b"v", b"bag", b"no"]), keys, s.integers(0, 1),
    ),
    s.builds(
        lambda name, key: bind(name, key), s.sampled_from([b"t", b"v", b"bag", b"no", b"one", b"nowhere"]), texts
    ),
    s.builds(lambda text, key: bind(b"two", text, key), s.sampled_from([b"a", b"\xc3\xbc", b"", None]), texts),
    s.builds(lambda name: bind(name), s.sampled_from([b"one", b"", b"t"])),
    s.builds(lambda name: bind(name, portal=b"p"), s.sampled_from([b"one", b""])),
)  # fmt: skip
after = s.sampled_from(
    [REST, EXECUTE + SYNC, DESCRIBE + SYNC, SYNC, EXECUTE + EXECUTE + SYNC, EXECUTE + REST, b""]
)
queries = s.sampled_from(
    [b"SELECT 1", b"SELECT s FROM v WHERE g = 1;", b"BEGIN", b"ROLLBACK", b"COMMIT", b"nonsense", b"",
     b"INSERT INTO t (k, g) VALUES (50, 1)", b"SELECT 1; SELECT 2", b"SELECT * FROM bag WHERE g = 1"]
).map(lambda sql: message(b"Q", sql + b"\0"))  # fmt: skip


@pytest.fixture(scope="module")
def shop() -> Iterator[Flow]:
    with Flow() as flow:
        flow.sql(SETUP)
        yield flow


@settings(deadline=None, suppress_health_check=list(HealthCheck), max_examples=100)
@given(s.lists(s.one_of(s.tuples(binds, after).map(b"".join), queries), max_size=8), s.integers(1, 60))
def test_one_step_gives_what_message_by_message_gives(shop: Flow, steps: list[bytes], cut: int) -> None:
    answers = []
    for at_once in (True, False):
        wire = Wire(shop, at_once)
        answers.append([wire(*READS, SYNC)] + [wire(step, SYNC) for step in steps])
        # The same again in pieces: where a message is cut makes no difference.
        data = b"".join(steps) + SYNC
        answers[-1].append(wire(*[data[i : i + cut] for i in range(0, len(data), cut)]))
        wire.session.close()
        shop.sql("DELETE FROM t WHERE k = 50")
    assert answers[0] == answers[1]


def test_one_row_by_key_is_one_step(wires: tuple[Wire, Wire]) -> None:
    wire, other = wires
    for each in wires:
        each(*READS, SYNC)
    wire(bind(b"one") + REST)
    wire.left = 0
    for data in (
        bind(b"t", big(1), format=1) + REST,
        bind(b"v", b"1", result=1) + EXECUTE + SYNC,
        bind(b"two", b"a", b"1") + REST,
        bind(b"one") + REST,
    ):
        assert wire(data) == other(data)
        assert wire.connection.is_idle
        assert wire.connection.waiting_bytes == 0
    assert wire.left == 0


def test_statements_are_counted_once(wires: tuple[Wire, Wire]) -> None:
    wire, _ = wires
    wire(*READS, SYNC)
    before = wire.session.statements
    for name, key in ((b"bag", 1), (b"bag", 2), (b"v", 1), (b"v", 77)):
        wire(bind(name, big(key), format=1) + REST)
    assert wire.session.statements == before + 4


def test_the_unnamed_portal_lives_as_long_as_its_transaction(wires: tuple[Wire, Wire]) -> None:
    for data in (
        b"".join(READS) + SYNC,
        message(b"Q", b"BEGIN\0"),
        bind(b"v", big(1), format=1) + REST,
        EXECUTE + SYNC,  # it has given its row
        message(b"Q", b"COMMIT\0"),
        EXECUTE + SYNC,
    ):
        assert wires[0](data) == wires[1](data)


def test_a_message_that_is_known_by_its_bytes_is_read_anew_when_it_means_another(flow: Flow) -> None:
    wire = Wire(flow, at_once=True)
    for sql, answer in ((b"SELECT 'a'", b"a"), (b"SELECT 'b'", b"b")):
        for _ in range(3):
            got = wire(message(b"C", b"Ss\0") + parse(b"s", sql) + bind(b"s") + REST)
            assert b"\0\1" + struct.pack(">i", 1) + answer in got


def test_a_view_that_comes_back_as_another(flow: Flow, connection: psycopg.Connection) -> None:
    flow.sql("CREATE TABLE t (k BIGINT PRIMARY KEY, v BIGINT); INSERT INTO t VALUES (1, 10)")
    flow.sql("CREATE MATERIALIZED VIEW m AS SELECT k, v FROM t")
    read = "SELECT * FROM m WHERE k = %s"
    for _ in range(3):
        assert connection.execute(read, [1], prepare=True).fetchall() == [(1, 10)]
        assert connection.execute("SELECT * FROM m WHERE k = 1").fetchall() == [(1, 10)]
    flow.sql("DROP MATERIALIZED VIEW m")
    with pytest.raises(errors.UndefinedTable):
        connection.execute(read, [1], prepare=True)
    with pytest.raises(errors.UndefinedTable):
        connection.execute("SELECT * FROM m WHERE k = 1")
    # The same columns, other rows: the statement is as good as it was.
    flow.sql("CREATE MATERIALIZED VIEW m AS SELECT k, v + 1 AS v FROM t")
    for _ in range(3):
        assert connection.execute(read, [1], prepare=True).fetchall() == [(1, 11)]
        assert connection.execute("SELECT * FROM m WHERE k = 1").fetchall() == [(1, 11)]


@pytest.mark.parametrize("described", [True, False])
def test_a_prepared_read_whose_columns_have_other_types_now(flow: Flow, described: bool) -> None:
    flow.sql("CREATE TABLE t (k BIGINT PRIMARY KEY, v BIGINT); INSERT INTO t VALUES (1, 10)")
    flow.sql("CREATE MATERIALIZED VIEW m AS SELECT k, v FROM t")
    wire = Wire(flow, at_once=True)
    wire(parse(b"p", b"SELECT v FROM m WHERE k = $1", INT8) + SYNC)
    if described:
        wire(message(b"D", b"Sp\0") + SYNC)
    for _ in range(2):
        assert struct.pack(">i", 2) + b"10" in wire(bind(b"p", big(1), format=1) + REST)
    flow.sql("DROP MATERIALIZED VIEW m")
    flow.sql("CREATE MATERIALIZED VIEW m AS SELECT k, 'text ' || v AS v FROM t")
    for _ in range(2):
        got = wire(bind(b"p", big(1), format=1) + REST)
        if described:  # as Postgres says: what was announced no longer holds
            assert b"cached plan must not change result type" in got
        else:
            assert b"text 10" in got
            assert b"v\0" + struct.pack(">iHI", 0, 0, TEXT) in got


def test_a_right_that_goes_and_comes(flow: Flow, url: str) -> None:
    flow.sql("CREATE TABLE t (k BIGINT, v TEXT); INSERT INTO t VALUES (1, 'x')")
    flow.sql("CREATE MATERIALIZED VIEW m AS SELECT k, v FROM t; CREATE ROLE ann LOGIN; CREATE ROLE staff")
    read = "SELECT v FROM m WHERE k = %s"
    with psycopg.connect(url.replace("penstock@", "ann@"), autocommit=True) as ann:
        for give, take in (
            ("GRANT SELECT ON m TO ann", "REVOKE SELECT ON m FROM ann"),
            ("GRANT SELECT ON m TO staff; GRANT staff TO ann", "REVOKE staff FROM ann"),
            ("ALTER ROLE ann SUPERUSER", "ALTER ROLE ann NOSUPERUSER"),
        ):
            with pytest.raises(errors.InsufficientPrivilege):
                ann.execute(read, [1], prepare=True)
            flow.sql(give)
            for _ in range(2):
                assert ann.execute(read, [1], prepare=True).fetchall() == [("x",)]
            flow.sql(take)
        with pytest.raises(errors.InsufficientPrivilege):
            ann.execute(read, [1], prepare=True)


def test_a_transaction_reads_what_it_has_written(flow: Flow, url: str) -> None:
    flow.sql("CREATE TABLE t (k BIGINT PRIMARY KEY, v BIGINT); INSERT INTO t VALUES (1, 10)")
    flow.sql("CREATE MATERIALIZED VIEW m AS SELECT k, sum(v)::BIGINT AS v FROM t GROUP BY k")
    reads = ("SELECT v FROM t WHERE k = %s", "SELECT v FROM m WHERE k = %s")
    with psycopg.connect(url) as writer, psycopg.connect(url, autocommit=True) as other:
        for connection in (writer, other):
            for read in reads * 2:
                assert connection.execute(read, [1], prepare=True).fetchall() == [(10,)]
        writer.execute("UPDATE t SET v = 11 WHERE k = 1")
        for read in reads * 2:
            assert writer.execute(read, [1], prepare=True).fetchall() == [(11,)]
            assert other.execute(read, [1], prepare=True).fetchall() == [(10,)]
        writer.rollback()
        for read in reads * 2:
            assert writer.execute(read, [1], prepare=True).fetchall() == [(10,)]
        writer.execute("UPDATE t SET v = 12 WHERE k = 1")
        writer.commit()
        for read in reads * 2:
            assert writer.execute(read, [1], prepare=True).fetchall() == [(12,)]
            assert other.execute(read, [1], prepare=True).fetchall() == [(12,)]


@pytest.mark.parametrize("size", [READ_AHEAD_BYTES_MAX // 2, READ_AHEAD_BYTES_MAX * 3])
def test_a_message_that_is_longer_than_what_is_read_ahead(connection: psycopg.Connection, size: int) -> None:
    for _ in range(
        2
    ):  # to a client that does nothing just now, whose first bytes are looked at where they arrive
        assert connection.execute("SELECT 1 -- " + "x" * size).fetchone() == (1,)
        assert connection.execute("SELECT length(%s::text)", ["x" * size]).fetchone() == (size,)


def test_a_small_answer_is_not_held_up_by_a_timeout_or_a_cancel_before_it(flow: Flow, url: str) -> None:
    flow.sql("CREATE TABLE t (k BIGINT PRIMARY KEY); INSERT INTO t VALUES (1)")
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("SET statement_timeout = '1ms'")
        for _ in range(20):
            connection.cancel_safe()
            assert connection.execute("SELECT k FROM t WHERE k = %s", [1], prepare=True).fetchall() == [(1,)]
        with pytest.raises(errors.QueryCanceled):
            connection.execute(
                "SELECT count(*) FROM range(100000) a, range(100000) b WHERE a.range < b.range"
            )
