"""A statement that fails aborts its transaction, in every session, as in Postgres."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from penstock import Flow, PenstockError
from penstock.base.errors import ActiveTransaction, TransactionFailed, UndefinedSavepoint
from penstock.engine.session import Session

Make = Callable[[Flow], Flow | Session]
SESSIONS: list[Make] = [lambda flow: flow, lambda flow: flow.session()]
FAILURES = [
    "INSERT INTO t VALUES (1, 0)",
    "SELECT 1 / 0 AS x",
    "SELECT nothing FROM t",
    "SELECT FROM WHERE",
    "SELECT * FROM nowhere",
    "RELEASE nowhere",
    "CREATE TABLE u (a INT)",
    "SELECT $1",
    "INSERT INTO t VALUES (9, 9); SELECT 'x'::INT",
]
REFUSED = ["INSERT INTO t VALUES (7, 7)", "SELECT * FROM t", "SELECT v FROM t WHERE id = 1", "SELECT 1",
           "BEGIN", "SAVEPOINT s", "RELEASE before", "SHOW TABLES", "SELECT * FROM penstock.sessions"]  # fmt: skip


@pytest.fixture
def flow() -> Iterator[Flow]:
    with Flow() as flow:
        flow.sql("CREATE TABLE t (id INTEGER PRIMARY KEY, v INTEGER); INSERT INTO t VALUES (1, 10)")
        yield flow


def ids(flow: Flow) -> list[int]:
    return sorted(row["id"] for row in flow.session().sql("SELECT id FROM t").to_pylist())


def fail(session: Flow | Session, statement: str = FAILURES[0]) -> None:
    with pytest.raises(PenstockError) as caught:
        session.sql(statement)
    assert not isinstance(caught.value, TransactionFailed)


@pytest.mark.parametrize("make", SESSIONS)
@pytest.mark.parametrize("failure", FAILURES)
def test_nothing_is_accepted_until_the_end(flow: Flow, make: Make, failure: str) -> None:
    session = make(flow)
    session.sql("SELECT v FROM t WHERE id = $1", [1])
    session.sql("BEGIN; INSERT INTO t VALUES (2, 20); SAVEPOINT before")
    fail(session, failure)
    for statement in REFUSED:
        with pytest.raises(TransactionFailed, match="current transaction is aborted") as caught:
            session.sql(statement)
        assert (caught.value.sqlstate, caught.value.retry) == ("25P02", False)
    with pytest.raises(TransactionFailed):
        session.sql("SELECT v FROM t WHERE id = $1", [1])
    assert session.sql("COMMIT").to_pylist() == [{"status": "ROLLBACK"}]
    assert ids(flow) == [1]
    session.sql("INSERT INTO t VALUES (3, 30)")
    assert session.sql("SELECT * FROM t").num_rows == 2


@pytest.mark.parametrize("make", SESSIONS)
def test_rollback_ends_it(flow: Flow, make: Make) -> None:
    session = make(flow)
    session.sql("BEGIN; INSERT INTO t VALUES (2, 20)")
    fail(session)
    assert session.sql("ROLLBACK").to_pylist() == [{"status": "ROLLBACK"}]
    assert session.sql("BEGIN; INSERT INTO t VALUES (3, 30); COMMIT").to_pylist() == [{"status": "COMMIT"}]
    assert ids(flow) == [1, 3]


@pytest.mark.parametrize("make", SESSIONS)
def test_a_savepoint_brings_it_back(flow: Flow, make: Make) -> None:
    session = make(flow)
    session.sql("BEGIN; INSERT INTO t VALUES (2, 20); SAVEPOINT s; INSERT INTO t VALUES (3, 30)")
    fail(session)
    with pytest.raises(UndefinedSavepoint):
        session.sql("ROLLBACK TO nowhere")
    with pytest.raises(TransactionFailed):
        session.sql("SELECT 1")
    session.sql("ROLLBACK TO s; INSERT INTO t VALUES (4, 40)")
    assert session.sql("COMMIT").to_pylist() == [{"status": "COMMIT"}]
    assert ids(flow) == [1, 2, 4]


@pytest.mark.parametrize("make", SESSIONS)
def test_one_text_with_several_statements(flow: Flow, make: Make) -> None:
    session = make(flow)
    fail(session, "BEGIN; INSERT INTO t VALUES (2, 20); INSERT INTO t VALUES (1, 0); COMMIT")
    fail_again = "INSERT INTO t VALUES (3, 30)"
    with pytest.raises(TransactionFailed):
        session.sql(fail_again)
    session.sql("COMMIT")
    assert ids(flow) == [1]


def test_begin_inside_a_transaction_does_not_abort_it(flow: Flow) -> None:
    """Postgres warns. We refuse it, and the transaction goes on."""
    flow.sql("BEGIN; INSERT INTO t VALUES (2, 20)")
    with pytest.raises(ActiveTransaction):
        flow.sql("BEGIN")
    flow.sql("COMMIT")
    assert ids(flow) == [1, 2]


def test_python_reads_are_refused_too(flow: Flow) -> None:
    flow.sql("BEGIN; INSERT INTO t VALUES (2, 20)")
    fail(flow)
    with pytest.raises(TransactionFailed):
        flow.snapshot("t")
    flow.sql("ROLLBACK")
    assert flow.snapshot("t").num_rows == 1


def test_a_failure_outside_a_transaction_aborts_nothing(flow: Flow) -> None:
    fail(flow)
    assert flow.sql("SELECT * FROM t").num_rows == 1


def test_it_is_shown(flow: Flow) -> None:
    session = flow.session()
    session.sql("BEGIN")
    fail(session)
    states = flow.session().sql("SELECT state FROM penstock.sessions").column(0).to_pylist()
    assert "idle in transaction (aborted)" in states
