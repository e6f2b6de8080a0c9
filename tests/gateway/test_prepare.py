"""PREPARE, EXECUTE and DEALLOCATE in SQL."""

from __future__ import annotations

from decimal import Decimal

import psycopg
import pytest
from psycopg import errors

from penstock import Flow


@pytest.fixture(autouse=True)
def shop(flow: Flow) -> None:
    flow.sql("CREATE TABLE orders (id BIGINT PRIMARY KEY, customer TEXT, amount DECIMAL(12,2))")
    flow.sql("INSERT INTO orders VALUES (1, 'ann', 10), (2, 'bob', 5)")


def test_with_types_and_without(connection: psycopg.Connection) -> None:
    run = connection.execute
    assert (
        run("PREPARE add (bigint, text, numeric) AS INSERT INTO orders VALUES ($1, $2, $3)").statusmessage
        == "PREPARE"
    )
    assert run("EXECUTE add (1 + 2, 'it''s' || '!', 1.25)").statusmessage == "INSERT 0 1"
    run("PREPARE Found AS SELECT customer, amount FROM orders WHERE id = $1 AND amount >= $2")
    cursor = run("EXECUTE found (3, 1)")
    assert cursor.fetchall() == [("it's!", Decimal("1.25"))]
    assert [c.name for c in cursor.description or ()] == ["customer", "amount"]
    assert run("EXECUTE found ('3', '1.25')").fetchall() == [("it's!", Decimal("1.25"))]
    assert run("EXECUTE found (3, NULL)").fetchall() == []
    run("PREPARE none AS SELECT 7")
    assert run("EXECUTE none").fetchall() == [(7,)]
    assert run("EXECUTE none ()").fetchall() == [(7,)]
    run("PREPARE change AS UPDATE orders SET amount = amount + $1 WHERE id = ANY($2) RETURNING id")
    assert sorted(run("EXECUTE change (1, ARRAY[1, 3])").fetchall()) == [(1,), (3,)]
    assert run("SELECT sum(amount) FROM orders").fetchone() == (Decimal("18.25"),)


def test_values_of_every_kind(connection: psycopg.Connection) -> None:
    values = {
        "int": "5", "text": "'a''b\\c'", "numeric": "1.50", "double precision": "2.5", "boolean": "true",
        "date": "'2020-02-29'", "timestamp": "'2020-01-01 00:00:01'", "timestamptz": "'2020-01-01 00:00:01+00'",
        "interval": "INTERVAL '1 month 2 days'", "uuid": "'00000000-0000-0000-0000-000000000005'",
        "blob": "'\\x00\\x27'::BLOB", "json": "'{\"a\": 1}'", "int[]": "[1, NULL, 3]", "text[]": "['a,b', NULL, '\"q\"']",
    }  # fmt: skip
    for i, (type, value) in enumerate(values.items()):
        connection.execute(f"PREPARE p{i} ({type}) AS SELECT $1 AS v, $1 IS NULL")  # type: ignore[call-overload]
        wanted = connection.execute(f"SELECT CAST({value} AS {type})").fetchone()  # type: ignore[call-overload]
        assert wanted is not None
        found = connection.execute(f"EXECUTE p{i} ({value})").fetchone()  # type: ignore[call-overload]
        assert found == (wanted[0], False), type
        assert connection.execute(f"EXECUTE p{i} (NULL)").fetchone() == (None, True)  # type: ignore[call-overload]


def test_a_value_is_worked_out_once_and_by_itself(connection: psycopg.Connection) -> None:
    connection.execute(
        "PREPARE twice (double precision) AS SELECT $1 = $1, customer FROM orders WHERE id = 1"
    )
    assert connection.execute("EXECUTE twice (random())").fetchall() == [(True, "ann")]
    with pytest.raises(errors.UndefinedColumn):
        connection.execute("EXECUTE twice (amount)")
    connection.execute("PREPARE echo (text) AS SELECT $1")
    evil = "'); DELETE FROM orders; --"
    assert connection.execute("EXECUTE echo (" + psycopg.sql.quote(evil) + ")").fetchone() == (evil,)  # type: ignore[call-overload]
    assert connection.execute("SELECT count(*) FROM orders").fetchone() == (2,)


def test_errors(connection: psycopg.Connection) -> None:
    run = connection.execute
    run("PREPARE p (int) AS SELECT $1")
    with pytest.raises(errors.DuplicatePreparedStatement):
        run("PREPARE p AS SELECT 1")
    with pytest.raises(errors.InvalidSqlStatementName):
        run("EXECUTE nope (1)")
    for wrong in ("EXECUTE p", "EXECUTE p (1, 2)"):
        with pytest.raises(errors.ProtocolViolation, match="wrong number of parameters"):
            run(wrong)  # type: ignore[call-overload]
    with pytest.raises(errors.InvalidTextRepresentation):
        run("EXECUTE p ('x')")
    for wrong in (
        "PREPARE q",
        "PREPARE q AS",
        "PREPARE q AS BEGINN",
        "PREPARE q AS SET a.b = 1",
        "EXECUTE p (1",
        "EXECUTE",
    ):
        with pytest.raises(errors.SyntaxError):
            run(wrong)  # type: ignore[call-overload]
    with pytest.raises(errors.UndefinedTable) as caught:
        run("PREPARE q AS SELECT * FROM nowhere")
    assert caught.value.diag.statement_position == "28"
    assert run("DEALLOCATE p").statusmessage == "DEALLOCATE"
    with pytest.raises(errors.InvalidSqlStatementName):
        run("EXECUTE p (1)")
    run("PREPARE p AS SELECT 1")
    run("DEALLOCATE PREPARE ALL")
    with pytest.raises(errors.InvalidSqlStatementName):
        run("EXECUTE p")


def test_in_a_transaction(connection: psycopg.Connection, flow: Flow) -> None:
    connection.execute("PREPARE add (bigint) AS INSERT INTO orders (id) VALUES ($1)")
    before = flow.epoch
    connection.execute("BEGIN")
    connection.execute("EXECUTE add (3)")
    connection.execute("EXECUTE add (4)")
    connection.execute("COMMIT")
    assert flow.epoch == before + 1
    with pytest.raises(errors.UniqueViolation):
        connection.execute("EXECUTE add (3)")
    rows = connection.cursor().stream("SELECT 1")
    assert list(rows) == [(1,)]


def test_subscriptions_can_be_prepared(connection: psycopg.Connection, flow: Flow) -> None:
    connection.execute("PREPARE s AS SUBSCRIBE orders")
    rows = connection.cursor().stream("EXECUTE s")
    assert sorted(next(rows)[2] for _ in range(2)) == [1, 2]
    rows.close()  # type: ignore[attr-defined]
    assert connection.execute("SELECT 7").fetchone() == (7,)
    assert flow._watches == {}
