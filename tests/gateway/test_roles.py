"""Roles and rights over the wire: what is not allowed is refused with 42501, and nothing happens."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from penstock import Flow, InvalidOption
from penstock.base.errors import DependentObjects, InsufficientPrivilege
from penstock.gateway.background import serving


def as_role(url: str, role: str, password: str | None = None) -> psycopg.Connection:
    return psycopg.connect(url.replace("penstock@", f"{role}@"), password=password, autocommit=True)


@pytest.fixture
def shop(flow: Flow) -> Flow:
    flow.sql("""
        CREATE TABLE orders (id BIGINT PRIMARY KEY, customer TEXT, amount BIGINT);
        CREATE TABLE secret (id BIGINT PRIMARY KEY, word TEXT);
        CREATE TABLE inbox (id BIGINT, word TEXT);
        CREATE VIEW words AS SELECT word FROM secret;
        CREATE MATERIALIZED VIEW totals AS SELECT customer, sum(amount) AS total FROM orders GROUP BY customer;
        INSERT INTO orders VALUES (1, 'ann', 10), (2, 'bob', 5);
        INSERT INTO secret VALUES (1, 'sesame');
        CREATE ROLE ann LOGIN;
        CREATE ROLE readers;
    """)
    return flow


@pytest.fixture
def ann(shop: Flow, url: str) -> Iterator[psycopg.Connection]:
    with as_role(url, "ann") as connection:
        yield connection


def denied(connection: psycopg.Connection, sql: str) -> None:
    with pytest.raises(psycopg.errors.InsufficientPrivilege):
        connection.execute(sql)  # type: ignore[call-overload]


READS_SECRET = (
    "SELECT * FROM secret",
    "SELECT word FROM secret WHERE id = 1",
    "SELECT * FROM public.secret",
    "TABLE secret",
    "FROM secret",
    "SELECT (SELECT word FROM secret)",
    "SELECT 1 WHERE EXISTS (SELECT 1 FROM secret)",
    "SELECT * FROM orders JOIN secret USING (id)",
    "WITH x AS (SELECT * FROM secret) SELECT * FROM x",
    "SELECT id FROM orders UNION ALL SELECT id FROM secret",
    "SELECT * FROM (SUMMARIZE secret)",
    "EXPLAIN SELECT * FROM secret",
    "EXPLAIN INCREMENTAL SELECT count(*) FROM secret",
    "INSERT INTO inbox SELECT * FROM secret",
    "INSERT INTO inbox VALUES (1, (SELECT word FROM secret))",
    "INSERT INTO inbox VALUES (DEFAULT, (SELECT word FROM secret))",
    "WITH s AS (SELECT * FROM secret) INSERT INTO inbox SELECT * FROM s",
    "INSERT INTO orders VALUES (1, 'x', 1) ON CONFLICT (id) DO UPDATE SET customer = (SELECT word FROM secret)",
    "UPDATE orders SET customer = (SELECT word FROM secret)",
    "UPDATE orders SET customer = word FROM secret WHERE secret.id = orders.id",
    "UPDATE orders SET amount = 0 WHERE id IN (SELECT id FROM secret)",
    "DELETE FROM orders USING secret WHERE secret.id = orders.id",
    "DELETE FROM orders WHERE id IN (SELECT id FROM secret)",
    "DELETE FROM orders RETURNING (SELECT word FROM secret)",
    "CREATE VIEW v AS SELECT * FROM secret",
    "CREATE MATERIALIZED VIEW v AS SELECT count(*) AS n FROM secret",
    "CREATE TABLE v AS SELECT * FROM secret",
    "DECLARE c CURSOR WITH HOLD FOR SELECT * FROM secret",
)


# Refused for other reasons, too, or not to be run by execute().
READS_SECRET_ANYHOW = (
    "SELECT * FROM secret AS OF EPOCH 1",
    "WITH secret AS (SELECT * FROM secret) SELECT * FROM secret",
    "PIVOT secret ON id USING max(word)",
    "SELECT * FROM query('SELECT * FROM secret')",
    "SELECT * FROM query_table('secret')",
    "COPY secret TO STDOUT",
    "COPY (SELECT * FROM secret) TO STDOUT",
)


@pytest.mark.parametrize("sql", [*READS_SECRET, *READS_SECRET_ANYHOW])
def test_whoever_may_do_all_with_the_rest_does_not_read_what_is_secret(
    shop: Flow, ann: psycopg.Connection, sql: str
) -> None:
    shop.sql("GRANT ALL ON orders, inbox, totals TO ann; GRANT CREATE ON SCHEMA public TO ann")
    before = {t: sorted(map(str, shop.sql(f"SELECT * FROM {t}").to_pylist())) for t in ("orders", "inbox")}
    if sql.startswith("COPY"):
        with pytest.raises(psycopg.errors.InsufficientPrivilege), ann.cursor().copy(sql) as copy:  # type: ignore[arg-type]
            copy.read()
    else:
        denied(ann, sql)
    assert {t: sorted(map(str, shop.sql(f"SELECT * FROM {t}").to_pylist())) for t in before} == before
    assert "v" not in shop.sql("SHOW TABLES").column("name").to_pylist()
    shop.sql("GRANT SELECT ON secret TO ann")
    if sql in READS_SECRET:
        ann.execute(sql)  # type: ignore[call-overload]


CHANGES = (
    ("insert", "INSERT INTO orders VALUES (3, 'x', 1)"),
    ("update", "UPDATE orders SET amount = 1"),
    ("delete", "DELETE FROM orders"),
    ("truncate", "TRUNCATE orders"),
)


@pytest.mark.parametrize(("privilege", "sql"), CHANGES)
def test_each_change_needs_its_right(shop: Flow, ann: psycopg.Connection, privilege: str, sql: str) -> None:
    others = ", ".join(p for p, _ in CHANGES if p != privilege)
    shop.sql(f"GRANT SELECT, {others} ON orders TO ann")
    denied(ann, sql)
    assert shop.sql("SELECT sum(amount) AS n FROM orders").to_pylist() == [{"n": 15}]
    shop.sql(f"REVOKE ALL ON orders FROM ann; GRANT {privilege} ON orders TO ann")
    ann.execute(sql)  # type: ignore[call-overload]
    denied(ann, "SELECT * FROM orders")
    assert shop.sql("SELECT sum(amount) AS n FROM orders").to_pylist() != [{"n": 15}]


def test_reading_what_is_changed_needs_select(shop: Flow, ann: psycopg.Connection) -> None:
    shop.sql("GRANT INSERT, UPDATE, DELETE ON orders TO ann")
    for sql in (
        "UPDATE orders SET amount = 1 WHERE amount > 1",
        "DELETE FROM orders WHERE amount > 1",
        "INSERT INTO orders VALUES (9, 'x', 1) RETURNING *",
    ):
        denied(ann, sql)
    denied(ann, "INSERT INTO totals VALUES ('x', 1)")


def test_copy_needs_insert(shop: Flow, ann: psycopg.Connection) -> None:
    def copy() -> None:
        with ann.cursor().copy("COPY orders FROM STDIN") as rows:
            rows.write_row((7, "x", 1))

    with pytest.raises(psycopg.errors.InsufficientPrivilege):
        copy()
    assert shop.sql("SELECT count(*) AS n FROM orders").to_pylist() == [{"n": 2}]
    shop.sql("GRANT INSERT ON orders TO ann")
    copy()
    assert shop.sql("SELECT count(*) AS n FROM orders").to_pylist() == [{"n": 3}]


def test_a_view_is_read_without_a_right_on_what_is_behind_it(shop: Flow, ann: psycopg.Connection) -> None:
    denied(ann, "SELECT * FROM words")
    shop.sql("GRANT SELECT ON words, totals TO ann")
    assert ann.execute("SELECT * FROM words").fetchall() == [("sesame",)]
    assert ann.execute("SELECT total FROM totals WHERE customer = 'ann'").fetchall() == [(10,)]
    denied(ann, "SELECT * FROM secret")
    denied(ann, 'SELECT * FROM "penstock rows of secret"')  # where the session's reader has them
    denied(ann, "SELECT * FROM query_table('penstock rows of secret')")
    shop.sql("REVOKE SELECT ON words FROM ann")
    denied(ann, "SELECT * FROM words")


def test_prepared_statements_are_checked_when_they_run(shop: Flow, ann: psycopg.Connection) -> None:
    shop.sql("GRANT SELECT ON secret TO ann")
    with ann.cursor() as cursor:
        cursor.execute("SELECT word FROM secret WHERE id = %s", (1,), prepare=True)
        shop.sql("REVOKE SELECT ON secret FROM ann")
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            cursor.execute("SELECT word FROM secret WHERE id = %s", (1,), prepare=True)


def test_owners(shop: Flow, ann: psycopg.Connection, url: str) -> None:
    denied(ann, "CREATE TABLE mine (a BIGINT)")
    shop.sql("GRANT CREATE ON SCHEMA public TO ann; CREATE ROLE bob LOGIN")
    ann.execute("CREATE TABLE mine (a BIGINT)")
    ann.execute("INSERT INTO mine VALUES (1)")
    ann.execute("CREATE VIEW ours AS SELECT a FROM mine")
    ann.execute("GRANT SELECT ON ours TO bob")
    with as_role(url, "bob") as bob:
        assert bob.execute("SELECT * FROM ours").fetchall() == [(1,)]
        for sql in ("SELECT * FROM mine", "DROP TABLE mine CASCADE", "GRANT SELECT ON ours TO PUBLIC"):
            denied(bob, sql)
        ann.execute("CREATE OR REPLACE VIEW ours AS SELECT a + 1 AS a FROM mine")
        assert bob.execute("SELECT * FROM ours").fetchall() == [(2,)], "the grants stay with the name"
        denied(ann, "CREATE OR REPLACE TABLE orders (a BIGINT)")
        denied(ann, "DROP TABLE orders CASCADE")
        with pytest.raises(DependentObjects, match="mine, ours"):
            shop.sql("DROP ROLE ann")
        shop.sql("REASSIGN OWNED BY ann TO bob")
        denied(ann, "SELECT * FROM mine")
        bob.execute("DROP TABLE mine CASCADE")


def test_roles_of_roles_and_public(shop: Flow, ann: psycopg.Connection) -> None:
    shop.sql("GRANT SELECT ON secret TO readers")
    denied(ann, "SELECT * FROM secret")
    shop.sql("GRANT readers TO ann")
    assert ann.execute("SELECT word FROM secret").fetchall() == [("sesame",)]
    shop.sql("REVOKE readers FROM ann")
    denied(ann, "SELECT * FROM secret")
    shop.sql("GRANT SELECT ON ALL TABLES IN SCHEMA public TO PUBLIC")
    assert ann.execute("SELECT count(*) FROM secret").fetchall() == [(1,)]
    shop.sql("REVOKE USAGE ON SCHEMA public FROM PUBLIC")
    denied(ann, "SELECT count(*) FROM secret")


def test_only_superusers_make_roles(shop: Flow, ann: psycopg.Connection) -> None:
    for sql in (
        "CREATE ROLE eve SUPERUSER",
        "ALTER ROLE ann SUPERUSER",
        "ALTER ROLE penstock PASSWORD 'mine now'",
        "DROP ROLE readers",
        "GRANT readers TO ann",
        "GRANT SELECT ON secret TO ann",
        "REVOKE ALL ON ALL TABLES IN SCHEMA public FROM PUBLIC",
        "GRANT CREATE ON SCHEMA public TO ann",
        "REASSIGN OWNED BY penstock TO ann",
    ):
        denied(ann, sql)
    assert set(shop.access().roles) == {"penstock", "ann", "readers"}
    assert shop.access().roles["penstock"].verifier is None
    ann.execute("ALTER ROLE ann PASSWORD 'open'")
    assert shop.access().roles["ann"].verifier is not None


def test_words_that_are_refused(shop: Flow) -> None:
    for sql, sqlstate in (
        ("CREATE ROLE ann", "42710"),
        ("DROP ROLE nobody", "42704"),
        ("GRANT SELECT ON orders TO nobody", "42704"),
        ("GRANT SELECT ON nothing TO ann", "42P01"),
        ("GRANT USAGE ON orders TO ann", "42601"),
        ("GRANT SELECT (id) ON orders TO ann", "0A000"),
        ("GRANT SELECT ON orders TO ann WITH GRANT OPTION", "0A000"),
        ("CREATE ROLE x CREATEDB", "0A000"),
        ("CREATE ROLE x VALID UNTIL '2030-01-01'", "0A000"),
        ("CREATE ROLE pg_x", "42601"),
        ("ALTER ROLE penstock NOSUPERUSER", "22023"),
        ("DROP ROLE penstock", "22023"),
        ("GRANT ann TO ann", "22023"),
        ("ALTER TABLE orders ADD COLUMN x INT", "42601"),
    ):
        with pytest.raises(Exception) as refused:
            shop.sql(sql)
        assert getattr(refused.value, "sqlstate", None) == sqlstate, sql
    shop.sql("DROP ROLE IF EXISTS nobody, ann")
    assert "ann" not in shop.access().roles


def test_passwords(shop: Flow, url: str) -> None:
    with as_role(url, "penstock") as owner:
        notices: list[str] = []
        owner.add_notice_handler(lambda notice: notices.append(str(notice.message_primary)))
        owner.execute("CREATE USER carl PASSWORD 'sésame'")
        assert notices == [
            'the superuser "penstock" has no password: from this machine anybody can connect as it'
        ]
        owner.execute("CREATE ROLE group_only")
    with as_role(url, "carl", "sésame") as carl:
        assert carl.execute("SELECT current_user").fetchone() == ("carl",)
        assert carl.info.parameter_status("is_superuser") == "off"
        carl.execute("ALTER USER carl PASSWORD 'other'")
    for role, password in (("carl", "sésame"), ("carl", None), ("stranger", None), ("stranger", "x")):
        with pytest.raises(psycopg.OperationalError):
            as_role(url, role, password)
    as_role(url, "carl", "other").close()
    as_role(url, "penstock").close()  # has none: from this machine it needs none
    with pytest.raises(psycopg.OperationalError, match="not permitted to log in"):
        as_role(url, "group_only")
    shop.sql("ALTER ROLE carl NOLOGIN")
    with pytest.raises(psycopg.OperationalError, match="not permitted to log in"):
        as_role(url, "carl", "other")


def test_the_last_superuser_that_can_log_in_stays(shop: Flow) -> None:
    for change in ("ALTER ROLE penstock NOLOGIN", "ALTER ROLE penstock NOSUPERUSER"):
        with pytest.raises(InvalidOption):
            shop.sql(change)
    shop.sql("CREATE ROLE chief LOGIN SUPERUSER; ALTER ROLE penstock NOLOGIN")
    for change in ("ALTER ROLE chief NOLOGIN", "ALTER ROLE chief NOSUPERUSER"):
        with pytest.raises(InvalidOption, match="no superuser could log in"):
            shop.sql(change)


def test_without_any_password_an_unknown_role_is_told(url: str) -> None:
    with pytest.raises(psycopg.OperationalError, match='role "joe" does not exist'):
        as_role(url, "joe")


def test_roles_and_rights_are_kept_and_passwords_are_not(tmp_path: Path) -> None:
    folder = str(tmp_path / "flow")
    with Flow(folder) as flow:
        flow.sql("CREATE TABLE t (a BIGINT); CREATE TABLE u (a BIGINT)")
        flow.sql("CREATE ROLE team; CREATE ROLE ann LOGIN PASSWORD 'very secret words' IN ROLE team")
        flow.sql("GRANT SELECT ON t TO team; GRANT INSERT ON u TO ann")
        before = flow.access()
        flow.sql("DROP TABLE u")
    with Flow(folder) as flow:
        assert flow.access().roles == before.roles
        with flow.session(role="ann") as ann:
            assert ann.sql("SELECT * FROM t").num_rows == 0
            with pytest.raises(InsufficientPrivilege):
                ann.sql("INSERT INTO t VALUES (1)")
        with serving(flow) as url:
            as_role(url, "ann", "very secret words").close()
    stored = b"".join(path.read_bytes() for path in tmp_path.rglob("*") if path.is_file())
    assert b"very secret words" not in stored
    assert b"very secret words" not in json.dumps(list(map(repr, before.roles.values()))).encode()


def test_the_audit_log_has_changes_of_rights_and_is_for_superusers(
    shop: Flow, ann: psycopg.Connection, url: str
) -> None:
    with as_role(url, "penstock") as owner:
        owner.execute("CREATE ROLE eve LOGIN PASSWORD 'sesame'")
        owner.execute("GRANT SELECT ON orders TO eve")
        rows = owner.execute(
            "SELECT actor, detail::text FROM penstock.audit_log WHERE event = 'role'"
        ).fetchall()
    assert [(actor, "sesame" in detail) for actor, detail in rows][-2:] == [("penstock", False)] * 2
    assert "GRANT SELECT ON orders TO eve" in rows[-1][1]
    denied(ann, "SELECT * FROM penstock.audit_log")
    denied(ann, "SELECT (SELECT max(event) FROM penstock.audit_log)")
    assert ann.execute("SELECT count(*) FROM penstock.tables").fetchall() == [(3,)]
    denied(ann, "ALTER SYSTEM PAUSE")
    denied(ann, "ALTER MATERIALIZED VIEW totals SET (freshness = '1s')")


def test_definitions_of_roles_inside_a_transaction_take_effect_at_once(shop: Flow, url: str) -> None:
    with psycopg.connect(url) as connection:
        connection.execute("CREATE ROLE dora LOGIN")
        connection.execute("GRANT SELECT ON orders TO dora")
        connection.rollback()
    assert "dora" in shop.access().roles
