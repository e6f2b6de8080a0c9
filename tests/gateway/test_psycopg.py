"""psycopg, deeper than the checklist in clients/: transactions, errors, cursors, COPY, cancelling, settings."""

from __future__ import annotations

import asyncio
import random
import threading
import time
from collections.abc import Iterator

import psycopg
import pytest
from psycopg import errors
from psycopg.pq import TransactionStatus

from penstock import Flow


@pytest.fixture(autouse=True)
def shop(flow: Flow) -> None:
    flow.sql("CREATE TABLE orders (id BIGINT PRIMARY KEY, customer TEXT, amount DECIMAL(12,2))")
    flow.sql(
        "CREATE MATERIALIZED VIEW totals AS SELECT customer, sum(amount) AS total FROM orders GROUP BY customer"
    )
    flow.sql("INSERT INTO orders VALUES (1, 'ann', 10), (2, 'bob', 5)")


@pytest.fixture
def other(url: str) -> Iterator[psycopg.Connection]:
    with psycopg.connect(url) as connection:
        yield connection


def total(connection: psycopg.Connection) -> object:
    row = connection.execute("SELECT sum(total) FROM totals").fetchone()
    assert row is not None
    return row[0]


def test_a_transaction_is_one_epoch(
    flow: Flow, other: psycopg.Connection, connection: psycopg.Connection
) -> None:
    before = flow.epoch
    other.execute("INSERT INTO orders VALUES (3, 'ann', 1)")
    other.execute("UPDATE orders SET amount = amount + 1 WHERE id = 3")
    assert (total(other), total(connection)) == (17, 15)
    assert other.info.transaction_status == TransactionStatus.INTRANS
    other.commit()
    assert total(connection) == 17
    assert flow.epoch == before + 1


def test_a_failed_transaction_can_only_be_rolled_back(other: psycopg.Connection) -> None:
    other.execute("INSERT INTO orders VALUES (3, 'ann', 1)")
    with pytest.raises(errors.UniqueViolation):
        other.execute("INSERT INTO orders VALUES (1, 'ann', 1)")
    assert other.info.transaction_status == TransactionStatus.INERROR
    with pytest.raises(errors.InFailedSqlTransaction):
        other.execute("SELECT 1")
    other.rollback()
    assert total(other) == 15


def test_savepoints(other: psycopg.Connection) -> None:
    with other.transaction():
        other.execute("INSERT INTO orders VALUES (3, 'ann', 1)")
        with pytest.raises(errors.UniqueViolation), other.transaction():
            other.execute("INSERT INTO orders VALUES (4, 'ann', 1)")
            other.execute("INSERT INTO orders VALUES (1, 'ann', 1)")
        other.execute("INSERT INTO orders VALUES (5, 'ann', 1)")
    assert total(other) == 17


def test_a_conflict_is_40001(other: psycopg.Connection, connection: psycopg.Connection) -> None:
    other.execute("UPDATE orders SET amount = amount + 1 WHERE id = 1")
    connection.execute("UPDATE orders SET amount = amount + 1 WHERE id = 1")
    with pytest.raises(errors.SerializationFailure):
        other.commit()
    assert other.info.transaction_status == TransactionStatus.IDLE
    assert total(connection) == 16


def test_isolation_levels(url: str, connection: psycopg.Connection) -> None:
    with psycopg.connect(url) as strict:
        strict.isolation_level = psycopg.IsolationLevel.SERIALIZABLE
        total(strict)
        connection.execute("INSERT INTO orders VALUES (3, 'ann', 1)")
        with pytest.raises(errors.SerializationFailure):
            total(strict)
        strict.rollback()


def test_a_bank_with_many_writers(flow: Flow, url: str) -> None:
    """Transfers from several connections, tried again when refused: every reader sees the right total."""
    flow.sql("CREATE TABLE account (id INT PRIMARY KEY, balance INT)")
    flow.sql("CREATE MATERIALIZED VIEW bank AS SELECT sum(balance) AS total, count(*) AS n FROM account")
    flow.sql("INSERT INTO account SELECT i, 100 FROM range(6) t(i)")
    seen: list[object] = []
    done: list[int] = []

    def transfer(seed: int) -> None:
        chance = random.Random(seed)
        with psycopg.connect(url) as connection:
            for _ in range(8):
                source, target = chance.sample(range(6), 2)
                while True:
                    try:
                        with connection.transaction():
                            for sign, account in ((-1, source), (1, target)):
                                connection.execute(
                                    "UPDATE account SET balance = balance + %s WHERE id = %s",
                                    (sign * 7, account),
                                )
                            seen.append(connection.execute("SELECT total, n FROM bank").fetchone())
                        break
                    except errors.SerializationFailure:
                        seen.append(
                            connection.execute("SELECT sum(balance), count(*) FROM account").fetchone()
                        )
                        connection.rollback()
                done.append(seed)

    threads = [threading.Thread(target=transfer, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(done) == 32
    assert set(seen) == {(600, 6)}
    assert all(check.equal for check in flow.verify())


def test_definitions_in_a_transaction_warn(other: psycopg.Connection) -> None:
    notices: list[str] = []
    other.add_notice_handler(lambda d: notices.append(d.message_primary or ""))
    other.execute("CREATE TABLE x (a INT)")
    other.execute("INSERT INTO x VALUES (1)")
    other.commit()
    assert len(notices) == 1
    other.execute("INSERT INTO x VALUES (2)")
    with pytest.raises(errors.InvalidTransactionState):
        other.execute("DROP TABLE x")
    other.rollback()


def test_errors_say_where_and_what_to_do(connection: psycopg.Connection) -> None:
    with pytest.raises(errors.UndefinedColumn) as caught:
        connection.execute("SELECT customer,\n  amont FROM orders")
    assert caught.value.diag.statement_position == "20"
    assert "amount" in (caught.value.diag.message_hint or "")
    with pytest.raises(errors.UndefinedColumn) as caught:
        connection.execute("SELECT %s, amont FROM orders", ["a text that is long"])
    assert caught.value.diag.statement_position == "12"
    with pytest.raises(errors.UndefinedColumn) as caught:
        connection.execute("SELECT 1; SELECT amont FROM orders")
    assert caught.value.diag.statement_position == "18"
    with pytest.raises(errors.SyntaxError):
        connection.execute("SELEC 1")
    with pytest.raises(errors.DivisionByZero):
        connection.execute("SELECT 1 / 0")


def test_several_statements_in_one_text(flow: Flow, connection: psycopg.Connection) -> None:
    before = flow.epoch
    cursor = connection.execute(
        "INSERT INTO orders VALUES (3, 'x', 1); DELETE FROM orders WHERE id = 1; SELECT 7"
    )
    assert cursor.statusmessage == "INSERT 0 1"
    assert cursor.nextset()
    assert cursor.nextset()
    assert cursor.fetchall() == [(7,)]
    assert flow.epoch == before + 1
    with pytest.raises(errors.UniqueViolation):
        connection.execute("DELETE FROM orders; INSERT INTO orders VALUES (1, 'a', 1), (1, 'b', 1)")
    assert flow.snapshot("orders").num_rows == 2
    connection.execute(
        "BEGIN; DELETE FROM orders; ROLLBACK; CREATE TABLE y (a INT); INSERT INTO y VALUES (1)"
    )
    assert flow.snapshot("orders").num_rows == 2
    assert flow.snapshot("y").num_rows == 1
    assert connection.execute("").statusmessage in (None, "")


def test_returning_and_tags(connection: psycopg.Connection) -> None:
    cursor = connection.execute("INSERT INTO orders VALUES (%s, %s, %s) RETURNING id, amount", (9, "c", 2))
    assert cursor.fetchall() == [(9, 2)]
    assert connection.execute("UPDATE orders SET amount = 0").rowcount == 3
    assert connection.execute("DELETE FROM orders WHERE id = ANY(%s)", ([1, 2, 99],)).rowcount == 2
    assert connection.execute("SELECT * FROM orders").rowcount == 1


def test_prepared_statements(connection: psycopg.Connection) -> None:
    for i in range(20):
        row = connection.execute("SELECT amount FROM orders WHERE id = %s", (i,), prepare=True).fetchone()
        assert row == {1: (10,), 2: (5,)}.get(i)
    name = connection.execute("SELECT 1", prepare=True) and "_pg3_0"
    connection.execute(f"DEALLOCATE {name}")  # type: ignore[call-overload]
    with pytest.raises(errors.InvalidSqlStatementName):
        connection.execute(f"DEALLOCATE {name}")  # type: ignore[call-overload]


def test_pipeline(connection: psycopg.Connection) -> None:
    with connection.pipeline() as pipeline:
        first = connection.execute("SELECT 1")
        connection.execute("INSERT INTO orders VALUES (7, 'p', 1)")
        last = connection.execute("SELECT count(*) FROM orders WHERE id = %s", (7,))
        pipeline.sync()
        assert (first.fetchone(), last.fetchone()) == ((1,), (1,))
    skipped = None
    with pytest.raises(errors.UndefinedColumn), connection.pipeline() as pipeline:
        connection.execute("SELECT nope")
        skipped = connection.execute(
            "INSERT INTO orders VALUES (8, 'p', 1)"
        )  # psycopg may know the error already
        pipeline.sync()
    assert skipped is None or skipped.pgresult is None
    assert connection.execute("SELECT count(*) FROM orders WHERE id = 8").fetchone() == (0,)


def test_cursors(other: psycopg.Connection, connection: psycopg.Connection) -> None:
    with other.cursor("c") as cursor:
        cursor.execute("SELECT i FROM range(1000) t(i)")
        assert cursor.fetchmany(3) == [(0,), (1,), (2,)]
        connection.execute("DELETE FROM orders")  # a cursor keeps its rows
        assert len(cursor.fetchall()) == 997
        assert cursor.fetchone() is None
    with other.cursor("d", withhold=True) as cursor:
        cursor.execute("SELECT 1")
        other.commit()
        assert cursor.fetchall() == [(1,)]
    with pytest.raises(errors.NoActiveSqlTransaction):
        connection.execute("DECLARE e CURSOR FOR SELECT 1")
    with pytest.raises(errors.InvalidCursorName):
        connection.execute("FETCH ALL FROM nope")


@pytest.mark.parametrize("binary", [False, True])
def test_cursors_with_parameters(other: psycopg.Connection, binary: bool) -> None:
    with other.cursor("c", binary=binary) as cursor:
        cursor.execute("SELECT customer, %s FROM orders WHERE id = %s AND amount > %s", ["it's", 1, 9.5])
        assert cursor.fetchall() == [("ann", "it's")]
    with other.cursor("c") as cursor:  # the catalog's, whose values go as they came
        cursor.execute("SELECT relname FROM pg_class WHERE relname = ANY(%s)", [["orders", "nope"]])
        assert cursor.fetchall() == [("orders",)]
    with pytest.raises(errors.UndefinedColumn) as caught, other.cursor("c") as cursor:
        cursor.execute("SELECT amont FROM orders WHERE id = %s", [1])
    assert caught.value.diag.statement_position == "31"  # behind DECLARE "c" CURSOR FOR SELECT
    other.rollback()
    answer = other.pgconn.exec_params(b"DECLARE c CURSOR WITH HOLD FOR SELECT 1", [b"1"])
    assert b"supplies 1 parameters" in answer.error_message


def test_row_limits(connection: psycopg.Connection) -> None:
    rows = list(connection.cursor().stream("SELECT i FROM range(10) t(i)"))
    assert rows == [(i,) for i in range(10)]


COPIED = [(10, "a\tb\nc\\", "1.50"), (11, None, None), (12, "", "0.00"), (13, '"q", é', "7.00")]


@pytest.mark.parametrize(
    "options",
    ["", "(FORMAT csv)", "WITH CSV HEADER", "(DELIMITER '|', NULL 'none')", "(FORMAT csv, QUOTE '''')"],
)
def test_copy(connection: psycopg.Connection, options: str) -> None:
    connection.execute("CREATE TABLE a (id INT, s TEXT, n DECIMAL(5,2))")
    connection.execute("CREATE TABLE b (id INT, s TEXT, n DECIMAL(5,2))")
    connection.cursor().executemany("INSERT INTO a VALUES (%s, %s, %s)", COPIED)
    with connection.cursor().copy(f"COPY a TO STDOUT {options}") as copy:  # type: ignore[call-overload]
        data = b"".join(bytes(piece) for piece in copy)
    for size in (1, 7, 100_000):
        connection.execute("DELETE FROM b")
        with connection.cursor().copy(f"COPY b FROM STDIN {options}") as copy:  # type: ignore[call-overload]
            for start in range(0, len(data), size):
                copy.write(data[start : start + size])
        found = connection.execute("SELECT id, s, n::TEXT FROM b ORDER BY id").fetchall()
        assert found == COPIED


def test_copy_is_one_epoch_and_fails_whole(flow: Flow, connection: psycopg.Connection) -> None:
    before = flow.epoch
    with connection.cursor().copy("COPY orders (id, customer) FROM STDIN") as copy:
        for i in range(100, 200):
            copy.write_row((i, "c"))
    assert flow.epoch == before + 1
    assert total(connection) == 15
    for rows, error in (
        ([(300, "x"), (100, "twice")], errors.UniqueViolation),
        ([(300, "x"), ("no number", "y")], errors.InvalidTextRepresentation),
        ([(300, "x"), (301, "y", "too many")], errors.BadCopyFileFormat),
    ):
        with pytest.raises(error), connection.cursor().copy("COPY orders (id, customer) FROM STDIN") as copy:
            for row in rows:
                copy.write_row(row)
    with pytest.raises(ZeroDivisionError), connection.cursor().copy("COPY orders FROM STDIN") as copy:
        raise ZeroDivisionError
    assert connection.execute("SELECT count(*) FROM orders WHERE id = 300").fetchone() == (0,)
    with pytest.raises(errors.UndefinedTable):
        connection.cursor().copy("COPY nope FROM STDIN").__enter__()
    with connection.cursor().copy("COPY (SELECT id FROM orders WHERE id < 3 ORDER BY id) TO STDOUT") as copy:
        assert list(copy.rows()) == [("1",), ("2",)]


def test_cancel(connection: psycopg.Connection, other: psycopg.Connection) -> None:
    slow = "SELECT count(*) FROM range(100000000) a, range(1000000) b WHERE (a.range * b.range) % 7 = 3"
    timer = threading.Timer(0.3, connection.cancel_safe)
    timer.start()
    with pytest.raises(errors.QueryCanceled):
        connection.execute(slow)
    timer.join()
    assert total(connection) == 15


def test_a_slow_query_holds_nobody_up(connection: psycopg.Connection, other: psycopg.Connection) -> None:
    slow = "SELECT count(*) FROM range(100000000) a, range(1000000) b WHERE (a.range * b.range) % 7 = 3"
    caught: list[Exception] = []

    def work() -> None:
        try:
            connection.execute(slow)
        except errors.QueryCanceled as error:
            caught.append(error)

    thread = threading.Thread(target=work)
    thread.start()
    time.sleep(0.2)
    other.execute("INSERT INTO orders VALUES (3, 'ann', 1)")
    other.commit()
    assert total(other) == 16
    connection.cancel_safe()
    thread.join()
    assert len(caught) == 1


def test_settings(connection: psycopg.Connection) -> None:
    assert connection.info.parameter_status("server_version") is not None
    assert connection.info.server_version == 180000
    assert connection.info.parameter_status("TimeZone") == "UTC"
    connection.execute("SET application_name = 'a b'")
    assert connection.info.parameter_status("application_name") == "a b"
    assert connection.execute("SHOW application_name").fetchone() == ("a b",)
    connection.execute("RESET ALL")
    assert connection.info.parameter_status("application_name") == ""
    connection.execute("SET my.note TO 5")
    assert connection.execute("SHOW my.note").fetchone() == ("5",)
    connection.execute("SET TIME ZONE 'UTC'")
    for refused in ("SET TimeZone = 'Europe/Rome'", "SET server_version = '17'", "SET DateStyle = 'German'"):
        with pytest.raises(errors.InvalidParameterValue):
            connection.execute(refused)  # type: ignore[call-overload]
    with pytest.raises(errors.UndefinedObject):
        connection.execute("SHOW nope")
    assert len(connection.execute("SHOW ALL").fetchall()) > 20
    connection.execute("DISCARD ALL")
    with pytest.raises(errors.UndefinedObject):
        connection.execute("SHOW my.note")
    with pytest.raises(errors.UndefinedObject):
        connection.execute("SET penstock.note TO 5")  # ours, and misspelt


def test_settings_that_come_with_the_connection(url: str) -> None:
    with psycopg.connect(
        url, options="-c TimeZone=Europe/Rome -c search_path=public", application_name="me"
    ) as c:
        assert c.info.parameter_status("TimeZone") == "UTC"
        c.execute("SET application_name = 'you'")
        c.execute("RESET application_name")
        assert c.execute("SHOW application_name").fetchone() == ("me",)
    with pytest.raises(psycopg.OperationalError, match="lock_timeout"):
        psycopg.connect(url, options="-c lock_timeout=5s")


def test_the_isolation_of_one_transaction(url: str, connection: psycopg.Connection) -> None:
    for begin in (
        "BEGIN; SET TRANSACTION ISOLATION LEVEL REPEATABLE READ",
        "SELECT 1; BEGIN ISOLATION LEVEL SERIALIZABLE",
    ):
        with psycopg.connect(url, autocommit=True) as strict:
            strict.execute(begin)  # type: ignore[call-overload]
            total(strict)
            connection.execute("UPDATE orders SET amount = amount + 1 WHERE id = 1")
            with pytest.raises(errors.SerializationFailure):
                total(strict)
            strict.execute("ROLLBACK")
            strict.execute("BEGIN")
            total(strict)
            connection.execute("UPDATE orders SET amount = amount + 1 WHERE id = 1")
            total(strict)


def test_who_and_where(connection: psycopg.Connection) -> None:
    row = connection.execute(
        "SELECT version(), current_database(), current_schema(), current_user"
    ).fetchone()
    assert row is not None
    assert "penstock" in row[0]
    assert row[1:] == ("penstock", "public", "penstock")


def test_large_results(connection: psycopg.Connection) -> None:
    sql = "SELECT i, i::TEXT, i * 0.5::DOUBLE FROM range(100000) t(i)"
    for binary in (False, True):
        found = connection.cursor(binary=binary).execute(sql).fetchall()
        assert found == [(i, str(i), i * 0.5) for i in range(100_000)]


def test_statements_that_are_not_here(connection: psycopg.Connection) -> None:
    for sql in (
        "LOCK TABLE orders",
        "VACUUM",
        "COPY orders TO '/tmp/x'",
        "ALTER TABLE orders ADD COLUMN a INT",
    ):
        with pytest.raises(errors.FeatureNotSupported):
            connection.execute(sql)  # type: ignore[call-overload]


def test_async(url: str) -> None:
    async def work() -> object:
        async with await psycopg.AsyncConnection.connect(url) as connection:
            await connection.execute("INSERT INTO orders VALUES (%s, %s, %s)", (3, "async", 1))
            return await (await connection.execute("SELECT sum(total) FROM totals")).fetchone()

    assert asyncio.run(work()) == (16,)
