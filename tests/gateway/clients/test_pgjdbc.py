"""pgjdbc: the checklist, and what only JDBC has: metadata, batches, generated keys, passwords.

`prepareThreshold` says from which time on a statement is one of the server, whose rows come in binary: 0 is never,
-1 at once.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from decimal import Decimal
from typing import Any

import pytest

from gateway.clients.jvm import Jvm, fails, rows
from gateway.clients.until import until_it_runs
from gateway.clients.values import INSERT, SLOW, TABLE, VALUES
from penstock import Flow
from penstock.gateway.background import serving
from penstock.gateway.login import Access
from penstock.gateway.scram import verifier

NOTES = {"subscribe": "with `setFetchSize`; `PGConnection.cancelQuery()` ends it"}
BOTH_FORMATS = pytest.mark.parametrize("threshold", [0, -1], ids=["text", "binary"])

# Values of the types that getObject would give as a class of before Java 8, which has no place for all of them.
CLASSES = {
    "DATE": "java.time.LocalDate",
    "TIME": "java.time.LocalTime",
    "TIMESTAMP": "java.time.LocalDateTime",
    "TIMESTAMPTZ": "java.time.OffsetDateTime",
}
IN_JAVA = [
    True, -32768, 2147483647, -(2**63), 0.5, 1e300, Decimal("-1234567890.50"), "it's \\ \"é\" 😀", b"\0'\xff",
    "2020-02-29", "01:02:03.000004", "2020-01-02T03:04:05.000006", "1999-12-31T23:59:59Z",
    "0 years 0 mons 2 days 0 hours 0 mins 5.0 secs", "00000000-0000-0000-0000-000000000005", [1, None, 3],
    ["a,b", None, '"q"'],
]  # fmt: skip


@pytest.fixture
def connect(jvm: Jvm, url: str) -> Iterator[Callable[..., Any]]:
    made: list[Any] = []

    def connected(**properties: object) -> Any:
        made.append(jvm.connect(url, **properties))
        return made[-1]

    yield connected
    for connection in made:
        connection.close()


@pytest.fixture
def connection(connect: Callable[..., Any]) -> Any:
    return connect()


def query(connection: Any, sql: str) -> list[tuple[object, ...]]:
    return rows(connection.createStatement().executeQuery(sql))


def values(jvm: Jvm, result: Any) -> list[Any]:
    """The columns behind the first of the row where a result is, as Java has them."""
    found = []
    for i, value in enumerate(VALUES):
        name = CLASSES.get(value.type)
        found.append(result.getObject(i + 2) if name is None else result.getObject(i + 2, jvm.of(name)))
    return found


def plain(value: Any) -> Any:
    """A value to compare: of a class that Python does not have, its text; of an array, its items."""
    if isinstance(value, (bool, int, float, str, bytes, Decimal, type(None))):
        return value
    if value.getClass().getSimpleName() == "PgArray":
        return [plain(item) for item in value.getArray()]
    return value.toString()


@BOTH_FORMATS
def test_types(flow: Flow, jvm: Jvm, connect: Callable[..., Any], threshold: int) -> None:
    connection = connect(prepareThreshold=threshold)
    flow.sql(TABLE)
    flow.sql(INSERT)
    result = connection.prepareStatement("SELECT * FROM everything").executeQuery()
    assert result.next()
    found = values(jvm, result)
    assert [plain(value) for value in found] == IN_JAVA
    insert = connection.prepareStatement(f"INSERT INTO everything VALUES (?{', ?' * len(VALUES)})")
    insert.setLong(1, 2)
    for i, value in enumerate(found):
        insert.setObject(i + 2, value)
    assert insert.executeUpdate() == 1
    first, second = flow.sql("SELECT * EXCLUDE (n) FROM everything ORDER BY n").to_pylist()
    assert first == second


@BOTH_FORMATS
def test_the_zone_of_the_machine_changes_nothing(
    flow: Flow, jvm: Jvm, connect: Callable[..., Any], threshold: int
) -> None:
    """java.sql's classes are of the zone of the JVM, which the driver writes behind each value."""
    connection, sql = connect(prepareThreshold=threshold), jvm.java.sql
    flow.sql("CREATE TABLE days (d DATE, t TIME, s TIMESTAMP, z TIMESTAMPTZ)")
    moment = sql.Timestamp.valueOf("2020-02-29 22:33:44.5")
    given = (sql.Date.valueOf("2020-02-29"), sql.Time.valueOf("01:02:03"), moment, moment)
    insert = connection.prepareStatement("INSERT INTO days VALUES (?, ?, ?, ?)")
    insert.setDate(1, given[0])
    insert.setTime(2, given[1])
    insert.setTimestamp(3, moment)
    insert.setTimestamp(4, moment)
    insert.executeUpdate()
    texts = "d::TEXT AS d, t::TEXT AS t, s::TEXT AS s, epoch(z) AS z"
    assert flow.sql(f"SELECT {texts} FROM days").to_pylist() == [
        {"d": "2020-02-29", "t": "01:02:03", "s": "2020-02-29 22:33:44.5", "z": moment.getTime() / 1000}
    ]
    (found,) = query(connection, "SELECT * FROM days")
    assert [value.toString() for value in found] == [value.toString() for value in given]


@BOTH_FORMATS
def test_nulls(flow: Flow, jvm: Jvm, connect: Callable[..., Any], threshold: int) -> None:
    connection = connect(prepareThreshold=threshold)
    flow.sql(TABLE)
    insert = connection.prepareStatement(f"INSERT INTO everything VALUES (?{', ?' * len(VALUES)})")
    insert.setLong(1, 1)
    for i in range(len(VALUES)):
        insert.setNull(i + 2, jvm.java.sql.Types.NULL)
    assert insert.executeUpdate() == 1
    result = connection.prepareStatement("SELECT * FROM everything").executeQuery()
    assert result.next()
    assert values(jvm, result) == [None] * len(VALUES)
    assert (result.getLong("c3"), result.wasNull()) == (0, True)


def test_errors(connection: Any) -> None:
    with fails("42703") as caught:
        connection.prepareStatement("SELECT customer, amont FROM orders").executeQuery()
    report = caught[0].getServerErrorMessage()
    assert (report.getSeverity(), report.getPosition(), report.getHint()) == (
        "ERROR",
        18,
        'Did you mean "amount"?',
    )
    for sql, sqlstate in (
        ("SELEC 1", "42601"),
        ("SELECT * FROM nope", "42P01"),
        ("INSERT INTO orders VALUES (1, 'ann', 1)", "23505"),
        ("SELECT 1 / 0", "22012"),
        ("SELECT 'x'::INT", "22P02"),
    ):
        with fails(sqlstate):
            connection.createStatement().execute(sql)
    assert query(connection, "SELECT 7") == [(7,)]


def test_transactions(flow: Flow, jvm: Jvm, connection: Any, connect: Callable[..., Any]) -> None:
    other = connect()
    before = flow.epoch
    connection.setAutoCommit(False)
    statement = connection.createStatement()
    statement.executeUpdate("INSERT INTO orders VALUES (3, 'cy', 1)")
    statement.executeUpdate("INSERT INTO orders VALUES (4, 'cy', 1)")
    total = "SELECT total FROM totals WHERE customer = 'cy'"
    assert (query(connection, total), query(other, total)) == ([(2,)], [])
    savepoint = connection.setSavepoint()
    with fails("23505"):
        statement.executeUpdate("INSERT INTO orders VALUES (1, 'cy', 1)")
    with fails("25P02"):
        statement.executeQuery("SELECT 1")
    connection.rollback(savepoint)
    connection.releaseSavepoint(connection.setSavepoint("Named"))
    connection.commit()
    assert (query(other, total), flow.epoch) == ([(2,)], before + 1)
    statement.executeUpdate("DELETE FROM orders")
    connection.rollback()
    assert query(other, "SELECT count(*) FROM orders") == [(4,)]
    connection.setReadOnly(True)
    with fails("25006"):
        statement.executeUpdate("DELETE FROM orders")
    connection.rollback()


def test_isolation(jvm: Jvm, connection: Any, connect: Callable[..., Any]) -> None:
    levels = jvm.java.sql.Connection
    connection.setTransactionIsolation(levels.TRANSACTION_SERIALIZABLE)
    assert connection.getTransactionIsolation() == levels.TRANSACTION_SERIALIZABLE
    connection.setAutoCommit(False)
    query(connection, "SELECT * FROM orders")
    connect().createStatement().executeUpdate("INSERT INTO orders VALUES (3, 'cy', 1)")
    with fails("40001"):
        query(connection, "SELECT * FROM orders")
    connection.rollback()


def test_autosave(connect: Callable[..., Any]) -> None:
    """With it the driver sets a savepoint before each statement, and goes on after one that fails."""
    connection = connect(autosave="always")
    connection.setAutoCommit(False)
    statement = connection.createStatement()
    statement.executeUpdate("INSERT INTO orders VALUES (3, 'cy', 1)")
    with fails("23505"):
        statement.executeUpdate("INSERT INTO orders VALUES (3, 'cy', 1)")
    connection.commit()
    assert query(connection, "SELECT count(*) FROM orders") == [(3,)]


def test_prepared_statements(flow: Flow, jvm: Jvm, connect: Callable[..., Any]) -> None:
    connection = connect(prepareThreshold=3)
    found = connection.prepareStatement("SELECT customer, amount FROM orders WHERE id = ?")
    seen = []
    for i in range(6):
        found.setLong(1, 1 + i % 2)
        seen.append((rows(found.executeQuery()), found.isUseServerPrepare()))
    ann, bob = [("ann", Decimal(10))], [("bob", Decimal(5))]
    assert [answer for answer, _ in seen] == [ann, bob] * 3
    assert [on_server for _, on_server in seen] == [False, *[True] * 5]
    connection.createStatement().execute("DEALLOCATE ALL")
    assert rows(found.executeQuery()) == bob  # the driver notices, and prepares it again
    types = connection.prepareStatement("INSERT INTO orders VALUES (?, ?, ?)").getParameterMetaData()
    assert [types.getParameterTypeName(i) for i in (1, 2, 3)] == ["int8", "text", "numeric"]
    columns = found.getMetaData()
    assert [(columns.getColumnName(i), columns.getColumnTypeName(i)) for i in (1, 2)] == [
        ("customer", "text"),
        ("amount", "numeric"),
    ]
    assert (columns.getPrecision(2), columns.getScale(2)) == (12, 2)


@pytest.mark.parametrize("sql", ["SELECT * FROM made", "SELECT * FROM made WHERE k = ?"])
def test_a_table_that_is_made_anew(flow: Flow, connect: Callable[..., Any], sql: str) -> None:
    """The rows are not read by the columns that were there before: the driver is told, and prepares it again."""
    connection = connect(prepareThreshold=2)
    flow.sql("CREATE TABLE made (k INT PRIMARY KEY, a INT); INSERT INTO made VALUES (1, 2)")
    statement = connection.prepareStatement(sql)
    if "?" in sql:
        statement.setInt(1, 1)
    for _ in range(4):
        assert rows(statement.executeQuery()) == [(1, 2)]
    flow.sql(
        "DROP TABLE made; CREATE TABLE made (k INT PRIMARY KEY, a TEXT, b INT); INSERT INTO made VALUES (1, 'x', 3)"
    )
    for _ in range(4):
        assert rows(statement.executeQuery()) == [(1, "x", 3)]


@pytest.mark.parametrize("form", ["text", "csv", "binary"])
def test_copy(flow: Flow, jvm: Jvm, connection: Any, form: str) -> None:
    copying, io = jvm.own(connection).getCopyAPI(), jvm.java.io
    flow.sql("CREATE TABLE copied AS FROM orders LIMIT 0")
    connection.createStatement().executeUpdate("INSERT INTO orders VALUES (3, 'a\tb\n\"é\"', NULL)")
    data = io.ByteArrayOutputStream()
    assert copying.copyOut(f"COPY orders TO STDOUT (FORMAT {form})", data) == 3
    assert (
        copying.copyIn(f"COPY copied FROM STDIN (FORMAT {form})", io.ByteArrayInputStream(data.toByteArray()))
        == 3
    )
    wanted = query(connection, "SELECT * FROM orders ORDER BY id")
    assert query(connection, "SELECT * FROM copied ORDER BY id") == wanted
    assert wanted[2] == (3, 'a\tb\n"é"', None)


def test_copy_fails_whole(jvm: Jvm, connection: Any) -> None:
    copying, io = jvm.own(connection).getCopyAPI(), jvm.java.io
    with fails("22P02"):
        copying.copyIn("COPY orders FROM STDIN", io.StringReader("7\teve\t1\nno number\teve\t1\n"))
    with fails("23505"):
        copying.copyIn("COPY orders FROM STDIN", io.StringReader("7\teve\t1\n1\teve\t1\n"))
    begun = copying.copyIn("COPY orders FROM STDIN")
    begun.writeToCopy(b"8\tx\t1\n", 0, 6)
    begun.cancelCopy()
    assert query(connection, "SELECT count(*) FROM orders") == [(2,)]


def test_cancel(flow: Flow, connection: Any) -> None:
    statement = connection.createStatement()

    def cancel() -> None:
        until_it_runs(flow)
        statement.cancel()

    canceller = threading.Thread(target=cancel)
    canceller.start()
    with fails("57014"):
        statement.executeQuery(SLOW)
    canceller.join()
    statement.setQueryTimeout(1)
    with fails("57014"):
        statement.executeQuery(SLOW)
    statement.setQueryTimeout(0)
    assert rows(statement.executeQuery("SELECT 7")) == [(7,)]


@BOTH_FORMATS
def test_cursors(flow: Flow, connect: Callable[..., Any], threshold: int) -> None:
    connection = connect(prepareThreshold=threshold)
    connection.setAutoCommit(False)  # else the driver takes all rows at once
    statement = connection.prepareStatement("SELECT i FROM range(?) t(i)")
    statement.setLong(1, 100)
    statement.setFetchSize(7)
    result = statement.executeQuery()
    assert result.next()
    flow.sql("DELETE FROM orders WHERE id = 1")  # an epoch in between
    assert [row[0] for row in rows(result)] == list(range(1, 100))
    statement.setMaxRows(10)
    assert len(rows(statement.executeQuery())) == 10
    plain = connection.createStatement()
    plain.execute("DECLARE c CURSOR FOR SELECT i FROM range(5) t(i)")
    assert rows(plain.executeQuery("FETCH 2 c")) == [(0,), (1,)]
    assert rows(plain.executeQuery("FETCH ALL c")) == [(2,), (3,), (4,)]
    connection.commit()
    with fails("34000"):
        plain.executeQuery("FETCH ALL c")


@BOTH_FORMATS
def test_subscribe(flow: Flow, jvm: Jvm, connect: Callable[..., Any], threshold: int) -> None:
    connection = connect(prepareThreshold=threshold)
    connection.setAutoCommit(False)
    statement = connection.prepareStatement("SUBSCRIBE totals")
    statement.setFetchSize(10)
    start = flow.epoch
    result = statement.executeQuery()

    def came(count: int) -> list[tuple[object, ...]]:
        found = []
        for _ in range(count):
            assert result.next()
            found.append(tuple(result.getObject(i) for i in (1, 2, 3, 4)))
        return found

    assert sorted(came(2)) == [(start, 1, "ann", 10), (start, 1, "bob", 5)]
    flow.sql("INSERT INTO orders VALUES (3, 'ann', 1)")
    assert came(2) == [(start + 1, -1, "ann", 10), (start + 1, 1, "ann", 11)]

    # Statement.cancel() does nothing here: to the driver the statement has ended, and only its rows are fetched.
    own, ended = jvm.own(connection), threading.Event()

    def cancel() -> None:
        while not ended.wait(0.05):  # one that comes before it waits is for nothing
            own.cancelQuery()

    canceller = threading.Thread(target=cancel)
    canceller.start()
    with fails("57014"):
        result.next()
    ended.set()
    canceller.join()
    connection.rollback()
    assert flow._watches == {}
    result = statement.executeQuery()
    assert result.next()
    result.close()  # that is enough to end it
    assert query(connection, "SELECT 7") == [(7,)]
    connection.commit()
    assert flow._watches == {}


def test_listen(flow: Flow, jvm: Jvm, connection: Any, connect: Callable[..., Any]) -> None:
    for channel in ("totals", "mine"):
        connection.createStatement().execute(f"LISTEN {channel}")
    flow.sql("INSERT INTO orders VALUES (3, 'ann', 1)")
    connect().createStatement().execute("NOTIFY mine, 'hello'")
    heard: dict[str, str] = {}
    while len(heard) < 2:
        for notice in jvm.own(connection).getNotifications(60_000) or ():
            heard[notice.getName()] = notice.getParameter()
    assert heard == {"totals": json.dumps({"epoch": flow.epoch, "rows": 2}), "mine": "hello"}


# -- what only JDBC has ----------------------------------------------------------------------------


def test_metadata(flow: Flow, jvm: Jvm, connection: Any) -> None:
    flow.sql("CREATE VIEW big AS SELECT id FROM orders WHERE amount > 100")
    meta = connection.getMetaData()

    def shown(result: Any, *columns: int) -> list[tuple[object, ...]]:
        return [tuple(row[i - 1] for i in columns) for row in rows(result)]

    assert shown(meta.getCatalogs(), 1) == [("penstock",)]
    assert sorted(shown(meta.getTables(None, "public", "%", None), 3, 4)) == [
        ("big", "VIEW"),
        ("orders", "TABLE"),
        ("orders_pkey", "INDEX"),
        ("totals", "MATERIALIZED VIEW"),
    ]
    assert shown(meta.getColumns(None, "public", "orders", None), 4, 6, 11) == [
        ("id", "int8", 0),
        ("customer", "text", 1),
        ("amount", "numeric", 1),
    ]
    assert shown(meta.getPrimaryKeys(None, "public", "orders"), 4, 6) == [("id", "orders_pkey")]
    assert shown(meta.getIndexInfo(None, "public", "orders", True, False), 6, 9) == [("orders_pkey", "id")]
    assert connection.isValid(5)


@pytest.mark.parametrize("rewrite", ["false", "true"])
def test_batches(flow: Flow, jvm: Jvm, connect: Callable[..., Any], rewrite: str) -> None:
    connection = connect(reWriteBatchedInserts=rewrite)
    insert = connection.prepareStatement("INSERT INTO orders VALUES (?, ?, ?)")

    def add(*ids: int) -> None:
        for id in ids:
            insert.setLong(1, id)
            insert.setString(2, "batch")
            insert.setBigDecimal(3, jvm.java.math.BigDecimal("1.25"))
            insert.addBatch()

    before = flow.epoch
    add(*range(100, 140))
    done = jvm.java.sql.Statement.SUCCESS_NO_INFO if rewrite == "true" else 1
    assert list(insert.executeBatch()) == [done] * 40
    assert query(connection, "SELECT count(*), sum(amount) FROM orders WHERE id >= 100") == [
        (40, Decimal(50))
    ]
    assert flow.epoch == before + 1
    add(200, 100, 201)
    with fails("23505"):
        insert.executeBatch()
    assert query(connection, "SELECT count(*) FROM orders WHERE id >= 200") == [(0,)], (
        "none of a batch that fails"
    )
    statement = connection.createStatement()
    for sql in ("DELETE FROM orders WHERE id = 100", "DELETE FROM orders WHERE id > 100"):
        statement.addBatch(sql)
    assert list(statement.executeBatch()) == [1, 39]


def test_keys_and_several_results(jvm: Jvm, connection: Any) -> None:
    keys = jvm.java.sql.Statement.RETURN_GENERATED_KEYS
    insert = connection.prepareStatement("INSERT INTO orders VALUES (9, 'x', 1)", keys)
    assert insert.executeUpdate() == 1
    assert rows(insert.getGeneratedKeys()) == [(9, "x", 1)]
    statement = connection.createStatement()
    assert statement.execute("SELECT 1; DELETE FROM orders WHERE id = 9; SELECT 2")
    assert rows(statement.getResultSet()) == [(1,)]
    assert not statement.getMoreResults()
    assert statement.getUpdateCount() == 1
    assert statement.getMoreResults()
    assert rows(statement.getResultSet()) == [(2,)]


@pytest.mark.parametrize("mode", ["simple", "extendedForPrepared", "extendedCacheEverything"])
def test_other_ways_to_ask(connect: Callable[..., Any], mode: str) -> None:
    statement = connect(preferQueryMode=mode).prepareStatement(
        "SELECT customer FROM orders WHERE id = ? AND amount > ?"
    )
    statement.setLong(1, 1)
    statement.setBigDecimal(2, Decimal("9.5"))
    for _ in range(7):
        assert rows(statement.executeQuery()) == [("ann",)]


def test_passwords(flow: Flow, jvm: Jvm) -> None:
    with serving(flow, access=Access({"ann": verifier("päss word")})) as url:
        connection = jvm.connect(url, user="ann", password="päss word")
        assert query(connection, "SELECT current_user") == [("ann",)]
        connection.close()
        with fails("28P01"):
            jvm.connect(url, user="ann", password="wrong")
