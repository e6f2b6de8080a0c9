"""CREATE and DROP."""

from __future__ import annotations

from penstock.sql import statements as s
from sql.parsed import one


def test_create_table() -> None:
    made = one(
        "CREATE TABLE IF NOT EXISTS public.Orders (id BIGINT PRIMARY KEY, v DECIMAL(12,2))", s.CreateTable
    )
    assert (made.name, made.if_not_exists, made.or_replace) == ("Orders", True, False)
    assert made.body.text == "(id BIGINT PRIMARY KEY, v DECIMAL(12,2))"
    assert made.text.text[made.name_offset :].startswith("Orders")
    assert one('create or replace table "a ""b" (x int default 1)', s.CreateTable).name == 'a "b'


def test_create_table_as() -> None:
    made = one("CREATE TABLE t AS SELECT a AS as FROM u", s.CreateTableAs)
    assert (made.query.text, made.columns, made.with_data) == ("SELECT a AS as FROM u", None, True)
    made = one("CREATE OR REPLACE TABLE t (a, b) AS (VALUES ($1, 2)) WITH NO DATA", s.CreateTableAs)
    assert (made.query.text, made.columns, made.with_data) == ("(VALUES ($1, 2))", ("a", "b"), False)
    assert made.or_replace
    assert made.parameter_count == 1


def test_create_view() -> None:
    made = one('CREATE OR REPLACE VIEW main.v (a, "B") AS WITH x AS (SELECT 1, 2) FROM x', s.CreateView)
    assert (made.name, made.or_replace, made.columns) == ("v", True, ("a", "B"))
    assert made.query.text == "WITH x AS (SELECT 1, 2) FROM x"
    assert one("CREATE VIEW IF NOT EXISTS v AS FROM t", s.CreateView).if_not_exists


def test_create_materialized_view_with_options() -> None:
    sql = """CREATE MATERIALIZED VIEW v (a) WITH (
        Retain = 10, ratio 0.5, low = -3, name = 'it''s', mode = fast, on_change, lazy = off,
        every = INTERVAL '1 hour') AS SELECT 1 WITH DATA"""
    made = one(sql, s.CreateMaterializedView)
    assert made.options == {
        "retain": 10,
        "ratio": 0.5,
        "low": -3,
        "name": "it's",
        "mode": "fast",
        "on_change": True,
        "lazy": False,
        "every": "INTERVAL '1 hour'",
    }
    assert (made.columns, made.query.text) == (("a",), "SELECT 1")
    assert one("CREATE MATERIALIZED VIEW v AS SELECT 1", s.CreateMaterializedView).options == {}
    hash(made)  # frozen values are hashable, the options left aside


def test_drop() -> None:
    dropped = one('DROP MATERIALIZED VIEW IF EXISTS a, main."B" CASCADE', s.Drop)
    assert dropped.kind == "materialized view"
    assert (dropped.names, dropped.if_exists, dropped.cascade) == (("a", "B"), True, True)
    dropped = one("drop table t restrict", s.Drop)
    assert (dropped.kind, dropped.names, dropped.if_exists, dropped.cascade) == (
        "table",
        ("t",),
        False,
        False,
    )
    assert one("DROP VIEW v", s.Drop).kind == "view"
