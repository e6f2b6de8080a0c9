"""What is answered at once, streamed or piped keeps to rights, freshness, timeouts and letters as everything does."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest
from psycopg import errors

from penstock import Flow
from penstock.gateway.background import serving


@pytest.fixture(autouse=True)
def table(flow: Flow) -> None:
    flow.sql("""
        CREATE TABLE t (k BIGINT PRIMARY KEY, v TEXT);
        CREATE MATERIALIZED VIEW n AS SELECT v, count(*) AS n FROM t GROUP BY v;
        INSERT INTO t VALUES (1, 'x'), (2, 'y');
        CREATE ROLE ann LOGIN;
    """)


@pytest.fixture
def ann(url: str) -> Iterator[psycopg.Connection]:
    with psycopg.connect(url.replace("penstock@", "ann@"), autocommit=True) as connection:
        yield connection


READ = "SELECT v FROM t WHERE k = %s"


def test_point_reads_need_the_right_as_long_as_it_lasts(flow: Flow, ann: psycopg.Connection) -> None:
    for prepare in (False, True, True):
        with pytest.raises(errors.InsufficientPrivilege):
            ann.execute(READ, [1], prepare=prepare)
    flow.sql("GRANT SELECT ON t TO ann")
    for prepare in (False, True, True):
        assert ann.execute(READ, [1], prepare=prepare).fetchone() == ("x",)
    assert ann.execute("SELECT v FROM t WHERE k = 2").fetchone() == ("y",)
    flow.sql("REVOKE SELECT ON t FROM ann")
    for prepare in (False, True, True):
        with pytest.raises(errors.InsufficientPrivilege):
            ann.execute(READ, [1], prepare=prepare)
    with pytest.raises(errors.InsufficientPrivilege):
        ann.execute("SELECT v FROM t WHERE k = 2")


def test_streams_and_copies_need_the_right(flow: Flow, ann: psycopg.Connection) -> None:
    flow.sql("CREATE TABLE many AS SELECT range AS i FROM range(100000)")
    for sql in (
        "SELECT i FROM many",
        "COPY many TO STDOUT (FORMAT binary)",
        "COPY (SELECT i FROM many) TO STDOUT",
    ):
        with pytest.raises(errors.InsufficientPrivilege), ann.cursor() as cursor:
            if sql.startswith("COPY"):
                with cursor.copy(sql) as copy:
                    copy.read()
            else:
                cursor.execute(sql)
    with (
        pytest.raises(errors.InsufficientPrivilege),
        ann.cursor().copy("COPY many FROM STDIN (FORMAT binary)"),
    ):
        pass
    flow.sql("GRANT SELECT ON many TO ann")
    assert len(ann.execute("SELECT i FROM many").fetchall()) == 100_000


def test_statements_that_are_answered_at_once_are_counted(flow: Flow, connection: psycopg.Connection) -> None:
    connection.execute(READ, [1])
    before = flow.meter.statements["query"]
    for _ in range(3):
        connection.execute(READ, [1])
        connection.execute("SELECT 1")
    assert flow.meter.statements["query"] == before + 6
    errors_before = sum(flow.meter.errors.values())
    with pytest.raises(errors.InvalidTextRepresentation):
        connection.execute("SELECT CAST('a' || range AS INT) FROM range(3)")
    assert sum(flow.meter.errors.values()) == errors_before + 1


def test_a_point_read_waits_for_freshness(tmp_path: Path) -> None:
    with (
        Flow(tmp_path / "flow", sync=False) as flow,
        serving(flow) as url,
        psycopg.connect(url, autocommit=True) as writer,
    ):
        writer.execute("CREATE TABLE t (k BIGINT PRIMARY KEY, v TEXT)")
        with (
            Flow(tmp_path / "flow", read_only=True) as followed,
            serving(followed) as other,
            psycopg.connect(other, autocommit=True) as reader,
        ):
            reader.execute("SET penstock.wait_timeout = '60 seconds'")
            assert reader.execute(READ, [0]).fetchone() is None
            for i in range(1, 4):
                writer.execute("INSERT INTO t VALUES (%s, 'x')", [i])
                (token,) = writer.execute("SHOW penstock.token").fetchone() or ("",)
                reader.execute(f"SET penstock.wait_for = '{token}'")  # type: ignore[call-overload]
                assert reader.execute(READ, [i]).fetchone() == ("x",)
            name, _, epoch = token.partition(":")
            reader.execute(f"SET penstock.wait_for = '{name}:{int(epoch) + 1}'")  # type: ignore[call-overload]
            reader.execute("SET statement_timeout = 50")
            for sql in ("SELECT v FROM t WHERE k = 1", "SELECT 1", "SELECT count(*) FROM t"):
                with pytest.raises(errors.QueryCanceled, match="statement timeout"):
                    reader.execute(sql)  # type: ignore[call-overload]
            assert reader.execute("SHOW statement_timeout").fetchone() == ("50ms",)
            with reader.transaction():
                reader.execute("SET LOCAL penstock.wait_for = ''")
                assert reader.execute("SELECT v FROM t WHERE k = 1").fetchone() == ("x",)
            assert reader.execute("SHOW penstock.wait_for").fetchone() == (f"{name}:{int(epoch) + 1}",)


def test_a_time_out_does_not_end_a_subscription(flow: Flow, connection: psycopg.Connection) -> None:
    connection.execute("SET statement_timeout = 50")
    timer = threading.Timer(0.3, lambda: flow.sql("INSERT INTO t VALUES (3, 'z')"))
    timer.start()
    rows = []
    with connection.cursor() as cursor:
        for row in cursor.stream("SUBSCRIBE n WITH (SNAPSHOT = false)"):
            rows.append(row[2:])
            break
    timer.join()
    assert rows == [("z", 1)]


def test_letters_go_with_their_pipeline(url: str, connection: psycopg.Connection) -> None:
    with psycopg.connect(url, autocommit=True) as listener:
        listener.execute("LISTEN news")
        with pytest.raises(errors.UniqueViolation), connection.pipeline():
            connection.execute("NOTIFY news, 'lost'")
            connection.execute("SELECT pg_notify('news', 'lost too')")
            connection.execute("INSERT INTO t VALUES (1, 'again')")
        with connection.pipeline():
            connection.execute("INSERT INTO t VALUES (5, 'z')")
            connection.execute("NOTIFY news, 'first'")
            connection.execute("SELECT pg_notify('news', 'second')")
        heard = [n.payload for n in listener.notifies(timeout=60, stop_after=2)]
    assert heard == ["first", "second"]


def test_names_that_come_again_for_something_else(connection: psycopg.Connection) -> None:
    for query, row in (("SELECT 1 AS a", (1,)), ("SELECT 'x' AS b, 2 AS c", ("x", 2))):
        connection.execute(f"PREPARE p AS {query}")  # type: ignore[call-overload]
        assert connection.execute("EXECUTE p", prepare=True).fetchone() == row
        connection.execute("DEALLOCATE p")
        with connection.transaction():
            connection.execute(f"DECLARE c CURSOR FOR {query}")  # type: ignore[call-overload]
            assert connection.execute("FETCH 1 FROM c", prepare=True).fetchone() == row


def test_a_subscription_as_a_binary_copy(connection: psycopg.Connection) -> None:
    rows: list[tuple[object, ...]] = []
    with (
        pytest.raises(errors.QueryCanceled),
        connection.cursor() as cursor,
        cursor.copy("COPY (SUBSCRIBE n) TO STDOUT (FORMAT binary)") as copy,
    ):
        copy.set_types(["int8", "int8", "text", "int8"])
        for row in copy.rows():
            rows.append(row[1:])
            if len(rows) == 2:
                connection.cancel_safe()
    assert sorted(rows) == [(1, "x", 1), (1, "y", 1)]


def test_catalog_and_system_queries_through_cursors_and_limits(connection: psycopg.Connection) -> None:
    for sql, wanted in (
        ("SELECT relname FROM pg_class WHERE relname IN ('t', 'n') ORDER BY 1", [("n",), ("t",)]),
        ("SELECT name FROM penstock.views", [("n",)]),
        ("SELECT view FROM penstock.freshness", [("n",)]),
    ):
        assert connection.execute(sql).fetchall() == wanted  # type: ignore[call-overload]
        with connection.transaction():
            connection.execute(f"DECLARE c CURSOR FOR {sql}")  # type: ignore[call-overload]
            assert connection.execute("FETCH 1 FROM c").fetchall() == wanted[:1]
            assert connection.execute("FETCH ALL FROM c").fetchall() == wanted[1:]
