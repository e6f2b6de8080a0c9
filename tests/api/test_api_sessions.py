"""Sessions: transactions of their own, which respect what others commit meanwhile."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Iterator
from datetime import date
from decimal import Decimal

import pytest

from penstock import Flow, PenstockError, QueryCanceled, SerializationFailure, TransactionError
from penstock.base.errors import UndefinedParameter, UndefinedSavepoint
from penstock.engine.session import Session
from penstock.store.memory import forget


@pytest.fixture
def flow() -> Iterator[Flow]:
    with Flow() as flow:
        flow.sql("CREATE TABLE account (id INTEGER PRIMARY KEY, balance INTEGER)")
        flow.sql("CREATE TABLE log (line TEXT)")
        flow.sql("CREATE MATERIALIZED VIEW total AS SELECT sum(balance) AS s, count(*) AS n FROM account")
        flow.sql("INSERT INTO account VALUES (1, 100), (2, 50)")
        yield flow


def total(session: Session | Flow) -> int:
    return session.sql("SELECT s FROM total").column(0)[0].as_py()


def test_changes_are_seen_by_others_after_commit(flow: Flow) -> None:
    a, b = flow.session(), flow.session()
    a.sql("BEGIN; INSERT INTO account VALUES (3, 7)")
    assert (total(a), total(b), total(flow)) == (157, 150, 150)
    a.sql("COMMIT")
    assert total(b) == 157


def test_different_keys_do_not_conflict(flow: Flow) -> None:
    a, b = flow.session(), flow.session()
    a.sql("BEGIN; UPDATE account SET balance = balance + 1 WHERE id = 1")
    b.sql("BEGIN; UPDATE account SET balance = balance + 10 WHERE id = 2; COMMIT")
    assert total(a) == 161
    a.sql("COMMIT")
    assert total(b) == 161


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("UPDATE account SET balance = balance + 1 WHERE id = 1",) * 2,
        ("UPDATE account SET balance = 0 WHERE balance > 60", "UPDATE account SET balance = 70 WHERE id = 2"),
        ("DELETE FROM account WHERE id = 1", "DELETE FROM account WHERE id = 1"),
        ("INSERT INTO account VALUES (9, 1)", "INSERT INTO account VALUES (9, 2)"),
        ("INSERT INTO account VALUES (9, 1) ON CONFLICT DO NOTHING", "INSERT INTO account VALUES (9, 2)"),
        ("INSERT INTO log SELECT s FROM total", "INSERT INTO account VALUES (9, 2)"),
        ("TRUNCATE account", "INSERT INTO account VALUES (9, 2)"),
    ],
)
@pytest.mark.parametrize("when", ["at commit", "at the next statement"])
def test_conflicts_are_refused(flow: Flow, first: str, second: str, when: str) -> None:
    a, b = flow.session(), flow.session()
    a.sql("BEGIN")
    a.sql(first)
    b.sql(second)
    with pytest.raises(SerializationFailure) as refused:
        a.sql("COMMIT" if when == "at commit" else "SELECT 1")
    assert (refused.value.sqlstate, refused.value.retry) == ("40001", True)
    if when == "at commit":
        a.sql("BEGIN")  # it has ended
    a.sql("ROLLBACK")
    a.sql("SELECT * FROM account")
    assert all(check.equal for check in flow.verify())


def test_rows_of_a_bag_that_are_gone(flow: Flow) -> None:
    flow.sql("INSERT INTO log VALUES ('x'), ('x')")
    a = flow.session()
    a.sql("BEGIN; INSERT INTO log VALUES ('y')")
    flow.sql("DELETE FROM log")
    a.sql("COMMIT")  # a blind insert depends on nothing
    assert flow.snapshot("log").to_pylist() == [{"line": "y"}]


def test_a_dropped_table_is_a_conflict(flow: Flow) -> None:
    a = flow.session()
    a.sql("BEGIN; INSERT INTO log VALUES ('y')")
    flow.sql("CREATE OR REPLACE TABLE log (line TEXT)")
    with pytest.raises(SerializationFailure, match="dropped"):
        a.sql("COMMIT")


def test_reads_at_the_two_levels(flow: Flow) -> None:
    loose, strict = flow.session(), flow.session()
    loose.sql("BEGIN")
    strict.sql("BEGIN ISOLATION LEVEL SERIALIZABLE")
    assert total(loose) == total(strict) == 150
    flow.sql("UPDATE account SET balance = 0 WHERE id = 2")
    assert total(loose) == 100
    with pytest.raises(SerializationFailure):
        total(strict)


def test_write_skew_is_refused_when_serialisable(flow: Flow) -> None:
    a, b = flow.session(), flow.session()
    for session, victim in ((a, 1), (b, 2)):
        session.set_isolation("serializable")
        session.sql("BEGIN")
        assert total(session) == 150
        session.sql("UPDATE account SET balance = balance - 100 WHERE id = ?", [victim])
    a.sql("COMMIT")
    with pytest.raises(SerializationFailure):
        b.sql("COMMIT")


def test_savepoints(flow: Flow) -> None:
    a = flow.session()
    a.sql("BEGIN; INSERT INTO account VALUES (3, 1); SAVEPOINT s; INSERT INTO account VALUES (4, 2)")
    a.sql("SAVEPOINT t; DELETE FROM account")
    assert total(a) is None
    a.sql("ROLLBACK TO SAVEPOINT s")
    assert total(a) == 151
    with pytest.raises(UndefinedSavepoint):
        a.sql("RELEASE t")
    a.sql("ROLLBACK TO s; RELEASE SAVEPOINT s; COMMIT")  # what failed has aborted the transaction
    assert total(flow) == 151


def test_definitions_in_a_transaction(flow: Flow) -> None:
    strict, easy = flow.session(), flow.session(define_at_once=True)
    strict.sql("BEGIN")
    with pytest.raises(TransactionError):
        strict.sql("CREATE TABLE x (a INT)")
    easy.sql("BEGIN")
    (answer,) = easy.execute("CREATE TABLE x (a INT)")
    assert answer.tag == "CREATE TABLE"
    assert answer.warning is not None
    easy.sql("INSERT INTO x VALUES (1)")
    easy.sql("SAVEPOINT s")
    with pytest.raises(TransactionError):
        easy.sql("DROP TABLE x")
    easy.sql("ROLLBACK TO s; COMMIT")
    assert flow.snapshot("x").num_rows == 1


def test_a_session_follows_the_catalog(flow: Flow) -> None:
    a = flow.session()
    flow.sql("CREATE VIEW rich AS SELECT * FROM account WHERE balance > 60")
    assert a.sql("SELECT count(*) AS n FROM rich").to_pylist() == [{"n": 1}]
    flow.sql("CREATE OR REPLACE VIEW rich AS SELECT id FROM account")
    assert a.sql("SELECT * FROM rich ORDER BY id").to_pylist() == [{"id": 1}, {"id": 2}]
    flow.sql("DROP VIEW rich")
    with pytest.raises(PenstockError, match="does not exist"):
        a.sql("SELECT * FROM rich")


@pytest.mark.parametrize(
    "value",
    ["'; DROP TABLE account; --", "\\'", "''", "$1", "é\n", 5, -(2**70), 1.5, float("inf"), True, None,
     Decimal("-1.50"), b"\x00'\\", date(2020, 2, 29)],
)  # fmt: skip
def test_parameters_come_back_as_they_were(flow: Flow, value: object) -> None:
    assert flow.sql("SELECT $1 AS v", [value]).to_pylist() == [{"v": value}]
    assert flow.session().sql("SELECT $name AS v", {"name": value}).to_pylist() == [{"v": value}]


def test_wrong_parameters(flow: Flow) -> None:
    with pytest.raises(UndefinedParameter):
        flow.sql("SELECT $1, $2", [1])
    with pytest.raises(UndefinedParameter):
        flow.sql("SELECT $1", [1, 2])
    with pytest.raises(PenstockError) as refused:
        flow.sql("SELECT $1, nope FROM account", ["a long text that moves what comes after it"])
    assert refused.value.position == 11


def test_descriptions(flow: Flow) -> None:
    a = flow.session()
    found = a.describe("UPDATE account SET balance = $1 WHERE id = $2 RETURNING id", {})
    assert found.parameters == ("INTEGER", "INTEGER")
    assert found.columns == [("id", "INTEGER")]
    assert a.describe("SELECT s + $1 FROM total WHERE n > $2", {}).parameters == (None, "BIGINT")
    assert a.describe("DELETE FROM log", {}).columns is None


def test_a_query_is_cancelled_and_holds_nobody_up(flow: Flow) -> None:
    a = flow.session()
    caught: list[BaseException] = []

    def slow() -> None:
        try:
            a.sql(
                "SELECT count(*) FROM range(100000000) a, range(1000000) b WHERE (a.range * b.range) % 7 = 3"
            )
        except QueryCanceled as error:
            caught.append(error)

    thread = threading.Thread(target=slow)
    thread.start()
    time.sleep(0.2)
    flow.sql("INSERT INTO account VALUES (5, 5)")
    assert total(flow) == 155
    while thread.is_alive():
        a.cancel()
        thread.join(0.05)
    assert len(caught) == 1
    assert total(a) == 155


def test_transfers_keep_the_total(each_hash: str, flow: Flow) -> None:
    flow.sql("DELETE FROM account")
    flow.sql("INSERT INTO account SELECT i, 100 FROM range(8) t(i)")
    done: list[int] = []
    wrong: list[int] = []

    def work(seed: int) -> None:
        chance = random.Random(seed)
        with flow.session() as session:
            for _ in range(15):
                a, b = chance.sample(range(8), 2)
                try:
                    session.sql("BEGIN; UPDATE account SET balance = balance - 5 WHERE id = $1", [a])
                    session.sql("UPDATE account SET balance = balance + 5 WHERE id = $1", [b])
                    if total(session) != 800:
                        wrong.append(seed)
                    session.sql("COMMIT")
                    done.append(seed)
                except SerializationFailure:
                    session.rollback()

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert done
    assert not wrong
    assert total(flow) == 800
    assert all(check.equal for check in flow.verify())


def test_sessions_of_a_flow_on_storage_and_of_its_reader() -> None:
    with Flow("memory://sessions") as writer:
        writer.sql("CREATE TABLE t (a INT)")
        with Flow("memory://sessions", read_only=True) as reader, reader.session() as session:
            for rows in range(3):
                assert session.sql("SELECT count(*) AS n FROM t").to_pylist() == [{"n": rows}]
                with writer.session() as other:
                    other.sql("BEGIN; INSERT INTO t VALUES (1); COMMIT")
                wait_for(reader, writer.epoch)
            with pytest.raises(PenstockError):
                session.sql("INSERT INTO t VALUES (1)")
            assert session.sql("SELECT count(*) AS n FROM t AS OF EPOCH 1").to_pylist() == [{"n": 1}]
            writer.sql("CREATE OR REPLACE TABLE t (b TEXT)")
            writer.sql("INSERT INTO t VALUES ('x')")
            wait_for(reader, writer.epoch)
            assert session.sql("SELECT * FROM t").to_pylist() == [{"b": "x"}]
    forget("sessions")


def wait_for(reader: Flow, epoch: int) -> None:
    until = time.monotonic() + 20
    while reader.epoch < epoch:
        assert time.monotonic() < until
        time.sleep(0.02)
