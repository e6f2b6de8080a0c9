"""psycopg, sync, in text and in binary: the same tests with both formats, for parameters and rows.

What goes deeper than the checklist is in ../test_psycopg.py.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from decimal import Decimal
from typing import Any

import psycopg
import pytest
from psycopg import errors
from psycopg.types.json import Json

from gateway.clients.until import WAIT_S, until, until_it_runs
from gateway.clients.values import PYTHON, SLOW, TABLE, VALUES
from penstock import Flow


@pytest.fixture(params=["t", "b"], ids=["text", "binary"])
def form(request: pytest.FixtureRequest) -> str:
    """The letter of a placeholder: `%t` or `%b`."""
    return str(request.param)


@pytest.fixture
def cursor(url: str, form: str) -> Iterator[psycopg.Cursor[Any]]:
    with psycopg.connect(url, autocommit=True) as connection:
        yield connection.cursor(binary=form == "b")


def inserting(form: str) -> str:
    return f"INSERT INTO everything VALUES ({', '.join([f'%{form}'] * (len(VALUES) + 1))})"


def test_types(cursor: psycopg.Cursor[Any], form: str) -> None:
    cursor.execute(TABLE)  # type: ignore[call-overload]
    cursor.execute(inserting(form), (1, *PYTHON))  # type: ignore[call-overload]
    assert cursor.execute("SELECT * FROM everything").fetchall() == [(1, *PYTHON)]
    cursor.execute(f"SELECT * FROM everything WHERE c14 = %{form} AND c9 = %{form}", [PYTHON[14], PYTHON[9]])  # type: ignore[call-overload]
    assert cursor.fetchall() == [(1, *PYTHON)]
    assert cursor.execute(f"SELECT %{form}::JSON", [Json({"a": [1, None]})]).fetchone() == ({"a": [1, None]},)  # type: ignore[call-overload]


def test_nulls(cursor: psycopg.Cursor[Any], form: str) -> None:
    cursor.execute(TABLE)  # type: ignore[call-overload]
    cursor.execute(inserting(form), (1, *[None] * len(VALUES)))  # type: ignore[call-overload]
    assert cursor.execute("SELECT * FROM everything").fetchall() == [(1, *[None] * len(VALUES))]
    assert cursor.execute(
        "SELECT count(*) FROM everything WHERE c7 IS NOT DISTINCT FROM %s", [None]
    ).fetchone() == (1,)


def test_errors(cursor: psycopg.Cursor[Any], form: str) -> None:
    with pytest.raises(errors.UndefinedColumn) as caught:
        cursor.execute(f"SELECT %{form}, amont FROM orders", ["x"])  # type: ignore[call-overload]
    found = caught.value.diag
    assert (found.sqlstate, found.statement_position, found.message_hint) == (
        "42703",
        "12",
        'Did you mean "amount"?',
    )
    for sql, error in (
        ("SELEC 1", errors.SyntaxError),
        ("INSERT INTO orders VALUES (1, 'x', 1)", errors.UniqueViolation),
        ("SELECT 1 / 0", errors.DivisionByZero),
    ):
        with pytest.raises(error):
            cursor.execute(sql)  # type: ignore[call-overload]
    assert cursor.execute("SELECT 7").fetchone() == (7,)


def test_transactions(flow: Flow, cursor: psycopg.Cursor[Any], form: str) -> None:
    connection, before = cursor.connection, flow.epoch
    add = f"INSERT INTO orders VALUES (%{form}, 'cy', 1)"
    with connection.transaction():
        cursor.execute(add, [3])  # type: ignore[call-overload]
        with pytest.raises(errors.UniqueViolation), connection.transaction():  # a savepoint
            cursor.execute(add, [4])  # type: ignore[call-overload]
            cursor.execute(add, [1])  # type: ignore[call-overload]
        assert cursor.execute("SELECT total FROM totals WHERE customer = 'cy'").fetchone() == (1,)
    assert flow.epoch == before + 1
    with pytest.raises(errors.InFailedSqlTransaction), connection.transaction():
        with pytest.raises(errors.UniqueViolation):
            cursor.execute(add, [1])  # type: ignore[call-overload]
        cursor.execute("SELECT 1")
    with pytest.raises(ZeroDivisionError), connection.transaction():
        cursor.execute("DELETE FROM orders")
        raise ZeroDivisionError
    assert cursor.execute("SELECT count(*) FROM orders").fetchone() == (3,)


def test_prepared_statements(cursor: psycopg.Cursor[Any], form: str) -> None:
    sql = f"SELECT customer, amount FROM orders WHERE id = %{form}"
    for id, row in ((1, ("ann", Decimal(10))), (2, ("bob", Decimal(5))), (3, None)) * 3:
        assert cursor.execute(sql, [id], prepare=True).fetchone() == row  # type: ignore[call-overload]
    (prepared,) = cursor.connection._prepared._names.values()
    cursor.execute(b"DEALLOCATE " + prepared)  # type: ignore[call-overload]
    with pytest.raises(errors.InvalidSqlStatementName):
        cursor.execute(sql, [1], prepare=True)  # type: ignore[call-overload]


def test_copy(flow: Flow, cursor: psycopg.Cursor[Any], form: str) -> None:
    options = "(FORMAT binary)" if form == "b" else ""
    types = ["int8", "text", "numeric"]
    wanted, before = [(3, 'a\tb\n"é"', Decimal("1.50")), (4, None, None)], flow.epoch
    with cursor.copy(f"COPY orders FROM STDIN {options}") as copy:  # type: ignore[call-overload]
        copy.set_types(types)
        for row in wanted:
            copy.write_row(row)
    assert flow.epoch == before + 1
    with cursor.copy(f"COPY (SELECT * FROM orders WHERE id > 2 ORDER BY id) TO STDOUT {options}") as copy:  # type: ignore[call-overload]
        copy.set_types(types)
        assert list(copy.rows()) == wanted
    with pytest.raises(errors.UniqueViolation), cursor.copy(f"COPY orders FROM STDIN {options}") as copy:  # type: ignore[call-overload]
        copy.set_types(types)
        copy.write_row((1, "twice", None))
    assert cursor.execute("SELECT count(*) FROM orders").fetchone() == (4,)


def test_cancel(flow: Flow, cursor: psycopg.Cursor[Any]) -> None:
    def cancel() -> None:
        until_it_runs(flow)
        cursor.connection.cancel_safe()

    canceller = threading.Thread(target=cancel)
    canceller.start()
    with pytest.raises(errors.QueryCanceled):
        cursor.execute(SLOW)  # type: ignore[call-overload]
    canceller.join()
    assert cursor.execute("SELECT 7").fetchone() == (7,)


def test_cursors(flow: Flow, cursor: psycopg.Cursor[Any], form: str) -> None:
    with cursor.connection.transaction():
        with cursor.connection.cursor("c", binary=form == "b") as named:
            named.execute(f"SELECT i FROM range(100) t(i) WHERE i < %{form}", [50])  # type: ignore[call-overload]
            assert named.fetchmany(3) == [(0,), (1,), (2,)]
            flow.sql("DELETE FROM orders")  # an epoch in between
            assert named.fetchall() == [(i,) for i in range(3, 50)]
    rows = cursor.stream("SELECT i FROM range(10) t(i)", binary=form == "b")
    assert list(rows) == [(i,) for i in range(10)]


def test_subscribe(flow: Flow, cursor: psycopg.Cursor[Any], form: str) -> None:
    start = flow.epoch
    rows = cursor.stream("SUBSCRIBE totals", binary=form == "b")
    assert sorted(next(rows) for _ in range(2)) == [(start, 1, "ann", 10), (start, 1, "bob", 5)]
    flow.sql("DELETE FROM orders WHERE id = 2")
    assert next(rows) == (start + 1, -1, "bob", 5)
    rows.close()  # type: ignore[attr-defined]
    assert cursor.execute("SELECT 7").fetchone() == (7,)
    until(lambda: not flow._watches)


def test_listen(flow: Flow, cursor: psycopg.Cursor[Any]) -> None:
    cursor.execute("LISTEN totals")
    flow.sql("INSERT INTO orders VALUES (3, 'ann', 1)")
    (heard,) = cursor.connection.notifies(timeout=WAIT_S, stop_after=1)
    assert (heard.channel, json.loads(heard.payload)) == ("totals", {"epoch": flow.epoch, "rows": 2})
