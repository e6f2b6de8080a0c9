"""What the catalog says of sessions, roles and rights, and to many who ask at once."""

from __future__ import annotations

import threading

import psycopg

from penstock import Flow


def test_it_answers_as_penstock(catalog: psycopg.Connection, ann: psycopg.Connection) -> None:
    row = catalog.execute(
        "SELECT current_user, session_user, current_database(), version(), pg_backend_pid() FROM pg_database"
    ).fetchone()
    assert row is not None
    assert row[:3] == ("penstock", "penstock", "penstock")
    assert row[3].startswith("PostgreSQL 18.0 (penstock ")
    assert row[4] == catalog.info.backend_pid
    assert ann.execute("SELECT current_user, session_user FROM pg_database").fetchone() == ("ann", "ann")


def test_clients_are_shown(
    shop: tuple[Flow, str], catalog: psycopg.Connection, ann: psycopg.Connection
) -> None:
    with psycopg.connect(shop[1], application_name="it's me") as other:
        rows = catalog.execute(
            "SELECT pid, usename, datname, application_name, state, backend_start <= now() AND client_port > 0 "
            "FROM pg_stat_activity"
        ).fetchall()
        assert (ann.info.backend_pid, "ann", "penstock", "", "idle", True) in rows
        assert (other.info.backend_pid, "penstock", "penstock", "it's me", "idle", True) in rows
        own = catalog.execute("SELECT usename FROM pg_stat_activity WHERE pid = pg_backend_pid()").fetchall()
        assert own == [("penstock",)]


def test_roles_and_rights_are_shown(catalog: psycopg.Connection, ann: psycopg.Connection) -> None:
    assert catalog.execute(
        "SELECT rolname, rolsuper, rolcanlogin FROM pg_roles WHERE rolname !~ '^pg_' ORDER BY 1"
    ).fetchall() == [("ann", False, True), ("penstock", True, True)]
    query = "SELECT has_table_privilege(%s, 'select'), has_table_privilege(%s, 'insert')"
    assert ann.execute(query, ("orders", "orders")).fetchone() == (True, False)
    assert ann.execute(query, ("totals", "totals")).fetchone() == (False, False)
    assert catalog.execute(query, ("orders", "orders")).fetchone() == (True, True)
    visible = "SELECT table_name FROM information_schema.tables WHERE table_schema = 'public'"
    assert ann.execute(visible).fetchall() == [("orders",)]


def test_parameters_and_formats(catalog: psycopg.Connection) -> None:
    query = "SELECT oid, relname, relkind::text, relnatts, relhasindex FROM pg_class WHERE relname = %s AND relnatts > %s"
    text = catalog.execute(query, ("orders", 1)).fetchall()
    with catalog.cursor(binary=True) as cursor:
        assert cursor.execute(query, ("orders", 1)).fetchall() == text
    assert text[0][1:] == ("orders", "r", 5, True)
    with catalog.transaction(), catalog.cursor(name="c") as named:
        named.itersize = 2
        names = [name for (name,) in named.execute("SELECT relname FROM pg_class ORDER BY relname LIMIT 7")]
    assert len(names) == 7


def test_many_clients_at_once(shop: tuple[Flow, str]) -> None:
    answers: list[int] = []

    def ask() -> None:
        with psycopg.connect(shop[1], autocommit=True) as connection:
            for _ in range(5):
                rows = connection.execute("SELECT relname FROM pg_class WHERE relname = 'orders'").fetchall()
                answers.append(len(rows))

    threads = [threading.Thread(target=ask) for _ in range(20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert answers == [1] * 100
