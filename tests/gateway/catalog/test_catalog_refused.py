"""What the catalog refuses, and what it is not asked for."""

from __future__ import annotations

import threading

import psycopg
import pytest

from penstock import Flow

REFUSED = (
    ("SELECT pg_sleep(1000)", "42501"),
    ("SELECT pg_read_file('/etc/passwd')", "42501"),
    ("SELECT pg_read_binary_file('/etc/passwd')", "42501"),
    ("SELECT pg_ls_dir('/') FROM pg_class", "42501"),
    ("SELECT pg_stat_file('/etc/passwd')", "42501"),
    ("SELECT lo_import('/etc/passwd') FROM pg_class", "42501"),
    ("SELECT pg_terminate_backend(pid) FROM pg_stat_activity", "42501"),
    ("SELECT pg_cancel_backend(1)", "42501"),
    ("SELECT pg_reload_conf()", "42501"),
    ("SELECT pg_advisory_lock(1)", "42501"),
    ("SELECT pg_notify('a', relname) FROM pg_class", "42501"),
    ("SELECT query_to_xml('SELECT 1', true, true, '') FROM pg_class", "42501"),
    ("SELECT dblink('host=x', 'SELECT 1') FROM pg_class", "42883"),
    ("SELECT * FROM pg_authid", "42501"),
    ("SELECT * FROM pg_shadow", "42501"),
    ("SELECT * FROM pg_hba_file_rules", "42501"),
    ("SELECT * FROM pg_class FOR UPDATE", None),
    ("WITH x AS (DELETE FROM pg_description RETURNING *) SELECT * FROM x", None),
    ("SELECT current_setting('data_directory')", "42501"),
    ("SELECT * INTO copied FROM pg_class", None),
    ("INSERT INTO pg_class SELECT * FROM pg_class", None),
    ("UPDATE pg_class SET relname = 'x'", None),
    ("DELETE FROM pg_class", None),
    ("CREATE TABLE pg_catalog.x (a INT)", None),
    ("COPY pg_class TO '/tmp/x'", None),
    ("COPY (SELECT 1) TO PROGRAM 'true'", None),
    ("COPY (SELECT relname FROM pg_class) TO STDOUT", "0A000"),
    ("DO $$ BEGIN END $$", None),
    ("SET ROLE pg_read_server_files", None),
    ("SELECT * FROM pg_class, orders", "0A000"),
    ("SELECT set_config('role', 'x', false) FROM pg_class", None),
    ("SELECT set_config(relname, 'x', false) FROM pg_class", "0A000"),
)


@pytest.mark.parametrize("sql", [sql for sql, _ in REFUSED])
def test_it_only_answers(shop: tuple[Flow, str], catalog: psycopg.Connection, sql: str) -> None:
    with pytest.raises(psycopg.Error) as refused:
        catalog.execute(sql)  # type: ignore[call-overload]
    wanted = dict(REFUSED)[sql]
    assert wanted is None or refused.value.sqlstate == wanted, refused.value
    assert refused.value.sqlstate not in (None, "XX000")
    assert shop[0].sql("SHOW TABLES").num_rows == 2
    assert catalog.execute("SELECT count(*) FROM pg_class WHERE relname = 'orders'").fetchone() == (1,)


def test_a_query_that_gives_too_much_is_refused(catalog: psycopg.Connection) -> None:
    for sql in (
        "SELECT a.* FROM pg_class a, generate_series(1, 100000000)",
        "SELECT repeat('x', 1000000) FROM generate_series(1, 200) AS pg_numbers",
        "SELECT array_agg(repeat('x', 1000)) FROM pg_class, generate_series(1, 10000000)",
    ):
        with pytest.raises(psycopg.Error) as refused:
            catalog.execute(sql + " WHERE pg_column_size(1) > 0")  # type: ignore[call-overload]
        assert str(refused.value.sqlstate)[:2] in ("53", "54"), refused.value
    assert catalog.execute("SELECT count(*) FROM pg_namespace WHERE nspname = 'public'").fetchone() == (1,)


def test_a_query_is_cancelled(catalog: psycopg.Connection) -> None:
    failed: list[BaseException] = []

    def ask() -> None:
        try:
            catalog.execute("SELECT count(*) FROM pg_attribute a, pg_attribute b, pg_attribute c")
        except BaseException as error:
            failed.append(error)

    thread = threading.Thread(target=ask)
    thread.start()
    while thread.is_alive():
        catalog.cancel_safe()
        thread.join(0.05)
    assert isinstance(failed[0], psycopg.errors.QueryCanceled)
    assert catalog.execute("SELECT count(*) FROM pg_namespace WHERE nspname = 'public'").fetchone() == (1,)


def test_a_flows_relation_may_have_a_name_of_the_catalog(flow: Flow, connection: psycopg.Connection) -> None:
    flow.sql("CREATE TABLE pg_things (a BIGINT); INSERT INTO pg_things VALUES (1)")
    assert connection.execute("SELECT a, pg_typeof(a)::text FROM pg_things").fetchall() == [(1, "bigint")]
    assert connection.execute("SELECT 'pg_class', a FROM pg_things -- pg_class").fetchall() == [
        ("pg_class", 1)
    ]
