"""The catalog follows the flow: relations, types and names."""

from __future__ import annotations

import psycopg

from penstock import Flow
from penstock.engine.outline import extra_relations
from penstock.gateway.catalog.query import private_postgres


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
