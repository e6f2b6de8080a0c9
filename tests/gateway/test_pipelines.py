"""Pipelines are one transaction until Sync; SET LOCAL and SET end with theirs; statements have a time-out."""

from __future__ import annotations

import time

import psycopg
import pytest
from psycopg import errors

from penstock import Flow


@pytest.fixture(autouse=True)
def table(flow: Flow) -> None:
    flow.sql("CREATE TABLE t (k BIGINT PRIMARY KEY, v BIGINT)")


def keys(flow: Flow) -> list[int]:
    return flow.sql("SELECT k FROM t ORDER BY k").column(0).to_pylist()


def test_a_pipeline_is_one_epoch(flow: Flow, connection: psycopg.Connection) -> None:
    before = flow.epoch
    with connection.pipeline():
        for k in range(5):
            connection.execute("INSERT INTO t VALUES (%s, 0)", [k])
        assert connection.execute("SELECT count(*) FROM t").fetchone() == (5,)
    assert keys(flow) == [0, 1, 2, 3, 4]
    assert flow.epoch == before + 1


def test_what_fails_in_a_pipeline_takes_all_of_it_back(flow: Flow, connection: psycopg.Connection) -> None:
    with pytest.raises(errors.UniqueViolation), connection.pipeline():
        connection.execute("INSERT INTO t VALUES (1, 0)")
        connection.execute("INSERT INTO t VALUES (1, 0)")
        connection.execute("INSERT INTO t VALUES (2, 0)")
    assert keys(flow) == []
    connection.execute("INSERT INTO t VALUES (3, 0)")
    assert keys(flow) == [3]


def test_after_sync_another_transaction_begins(flow: Flow, connection: psycopg.Connection) -> None:
    with pytest.raises(errors.UniqueViolation), connection.pipeline() as pipeline:
        connection.execute("INSERT INTO t VALUES (1, 0)")
        pipeline.sync()
        connection.execute("INSERT INTO t VALUES (2, 0)")
        connection.execute("INSERT INTO t VALUES (2, 0)")
    assert keys(flow) == [1]


def test_begin_and_commit_in_a_pipeline(flow: Flow, connection: psycopg.Connection) -> None:
    with connection.pipeline():
        connection.execute("INSERT INTO t VALUES (1, 0)")
        connection.execute("BEGIN")
        connection.execute("INSERT INTO t VALUES (2, 0)")
        connection.execute("ROLLBACK")
        connection.execute("INSERT INTO t VALUES (3, 0)")
    assert keys(flow) == [3]  # as in Postgres: BEGIN goes on with what was there
    assert connection.info.transaction_status == psycopg.pq.TransactionStatus.IDLE


def test_many_rows_at_once(flow: Flow, connection: psycopg.Connection) -> None:
    before = flow.epoch
    connection.cursor().executemany("INSERT INTO t VALUES (%s, %s)", [(k, k) for k in range(200)])
    assert keys(flow) == list(range(200))
    assert flow.epoch == before + 1


def test_set_local_ends_with_the_transaction(connection: psycopg.Connection) -> None:
    def shown(name: str) -> object:
        row = connection.execute(f"SHOW {name}").fetchone()  # type: ignore[call-overload]
        assert row is not None
        return row[0]

    connection.execute("SET my.note = 'before'")
    with connection.transaction():
        connection.execute("SET LOCAL my.note = 'inside'")
        connection.execute("SET LOCAL application_name = 'inside'")
        connection.execute("SET work_mem = '8MB'")
        assert (shown("my.note"), shown("application_name")) == ("inside", "inside")
    assert (shown("my.note"), shown("application_name"), shown("work_mem")) == ("before", "", "8MB")
    assert connection.info.parameter_status("application_name") == ""
    with pytest.raises(ZeroDivisionError), connection.transaction():
        connection.execute("SET my.note = 'rolled back'")
        connection.execute("SET my.other = 'x'")
        raise ZeroDivisionError
    assert shown("my.note") == "before"
    with pytest.raises(errors.UndefinedObject):
        shown("my.other")
    with pytest.raises(errors.UndefinedObject), connection.transaction():
        connection.execute("SET LOCAL my.note = 'failed'")
        connection.execute("SHOW nope")
    assert shown("my.note") == "before"
    notices: list[str] = []
    connection.add_notice_handler(lambda notice: notices.append(notice.message_primary or ""))
    connection.execute("SET LOCAL my.note = 'outside'")
    assert notices == ["SET LOCAL can only be used in transaction blocks"]
    assert shown("my.note") == "before"


SLOW = "SELECT count(*) FROM range(100000) a, range(100000) b WHERE a.range * b.range % 7 = 3"


def test_statement_timeout(connection: psycopg.Connection) -> None:
    connection.execute("SET statement_timeout = '1.5s'")
    assert connection.execute("SHOW statement_timeout").fetchone() == ("1500ms",)
    connection.execute("SET statement_timeout = 100")
    began = time.monotonic()
    for prepare in (False, True):
        with pytest.raises(errors.QueryCanceled, match="due to statement timeout"):
            connection.execute(SLOW, prepare=prepare)
    assert time.monotonic() - began < 30  # it would take minutes
    time.sleep(0.2)  # longer than the time-out, but no statement runs
    assert connection.execute("SELECT 1").fetchone() == (1,)
    with pytest.raises(errors.QueryCanceled, match="due to statement timeout"):
        connection.execute(f"INSERT INTO t SELECT 1, ({SLOW})")  # type: ignore[call-overload]
    connection.execute("RESET statement_timeout")
    assert connection.execute("SHOW statement_timeout").fetchone() == ("0",)
    with pytest.raises(psycopg.Error, match="invalid value"):
        connection.execute("SET statement_timeout = '5 parsecs'")


def test_a_time_out_while_the_client_does_not_read(connection: psycopg.Connection) -> None:
    connection.execute("SET statement_timeout = 200")
    with connection.transaction():
        connection.execute("DECLARE c CURSOR FOR SELECT range, repeat('x', 100) FROM range(1000000)")
        assert len(connection.execute("FETCH 10 FROM c").fetchall()) == 10
        time.sleep(0.4)  # the time-out is for statements: a cursor may wait
        assert len(connection.execute("FETCH 10 FROM c").fetchall()) == 10
