"""INSERT, UPDATE, DELETE and TRUNCATE: their clauses are found around any expression."""

from __future__ import annotations

import pytest

from penstock.sql import statements as s
from penstock.sql.parse_dml import values_rows
from sql.parsed import one, sets, text


def test_insert_values() -> None:
    made = one("INSERT INTO orders AS o (id, \"where\") VALUES (1, 'on conflict'), (2, DEFAULT)", s.Insert)
    assert (made.table, made.alias, made.columns) == ("orders", "o", ("id", "where"))
    assert made.source.text == "VALUES (1, 'on conflict'), (2, DEFAULT)"
    assert made.has_default
    assert not made.default_values
    assert (made.on_conflict, made.returning, made.with_text) == (None, None, None)
    rows = values_rows(made.source)
    assert rows is not None
    assert [[str(item) for item in row] for row in rows] == [["1", "'on conflict'"], ["2", "DEFAULT"]]
    assert rows[1][1].offset == made.text.text.index("DEFAULT")


@pytest.mark.parametrize(
    ("sql", "columns", "source"),
    [
        ("INSERT INTO t SELECT 1", None, "SELECT 1"),
        ("INSERT INTO t (SELECT 1)", None, "(SELECT 1)"),
        ("INSERT INTO t ((SELECT 1))", None, "((SELECT 1))"),
        ("INSERT INTO t (VALUES (1))", None, "(VALUES (1))"),
        ("INSERT INTO t (values) VALUES (1)", ("values",), "VALUES (1)"),
        ("INSERT INTO t (FROM u)", None, "(FROM u)"),
        ("INSERT INTO t (a) (WITH x AS (SELECT 1) FROM x)", ("a",), "(WITH x AS (SELECT 1) FROM x)"),
        ("INSERT INTO t (a, b) WITH x AS (SELECT 1) FROM x", ("a", "b"), "WITH x AS (SELECT 1) FROM x"),
        ("INSERT INTO t TABLE u", None, "TABLE u"),
        (
            "INSERT INTO t SELECT a AS returning, b.returning FROM b",
            None,
            "SELECT a AS returning, b.returning FROM b",
        ),
        ("INSERT INTO t FROM a JOIN b ON conflict = 1", None, "FROM a JOIN b ON conflict = 1"),
        ('INSERT INTO t SELECT "returning" FROM u WHERE a', None, 'SELECT "returning" FROM u WHERE a'),
    ],
)
def test_insert_sources(sql: str, columns: tuple[str, ...] | None, source: str) -> None:
    made = one(sql, s.Insert)
    assert (made.columns, made.source.text, made.on_conflict, made.returning) == (columns, source, None, None)
    assert not made.has_default


def test_insert_default_values_and_by_name() -> None:
    made = one("INSERT INTO t DEFAULT VALUES RETURNING *", s.Insert)
    assert made.default_values
    assert text(made.returning) == "*"
    made = one("INSERT INTO t BY NAME SELECT 1 AS a", s.Insert)
    assert made.by_name
    assert made.source.text == "SELECT 1 AS a"
    assert not one("INSERT INTO t BY POSITION SELECT 1", s.Insert).by_name


def test_insert_on_conflict() -> None:
    made = one("INSERT INTO t VALUES (1) ON CONFLICT DO NOTHING", s.Insert)
    assert made.on_conflict == s.OnConflict(None, "nothing")
    assert made.source.text == "VALUES (1)"
    made = one("INSERT INTO t VALUES (1) ON CONFLICT DO UPDATE SET v = 1", s.Insert)
    assert made.on_conflict is not None
    assert (made.on_conflict.target, made.on_conflict.action) == (None, "update")
    made = one(
        """WITH c AS (SELECT 1) INSERT INTO t AS x (id, v) SELECT * FROM c JOIN d ON c.a = d.a WHERE c.b
        ON CONFLICT (id, "K") DO UPDATE SET v = excluded.v + x.v, (w, z) = (1, f(2, 3))
        WHERE x.v IS DISTINCT FROM excluded.v RETURNING id, v AS "where" """,
        s.Insert,
    )
    assert text(made.with_text) == "WITH c AS (SELECT 1)"
    assert made.source.text == "SELECT * FROM c JOIN d ON c.a = d.a WHERE c.b"
    clause = made.on_conflict
    assert clause is not None
    assert clause.target == ("id", "K")
    assert clause.action == "update"
    assert sets(clause.assignments) == [("v", "excluded.v + x.v"), ("w", "1"), ("z", "f(2, 3)")]
    assert text(clause.where) == "x.v IS DISTINCT FROM excluded.v"
    assert text(made.returning) == 'id, v AS "where"'


def test_values_rows_is_none_for_other_queries() -> None:
    assert values_rows(s.Slice("SELECT 1", 0)) is None
    assert values_rows(s.Slice("VALUES (1) ORDER BY 1", 0)) is None
    assert values_rows(s.Slice("VALUES (1) UNION VALUES (2)", 0)) is None


@pytest.mark.parametrize(
    "value",
    [
        "1",
        "b IS DISTINCT FROM c",
        "b is not distinct from c",
        "b IS /* FROM u */ DISTINCT -- FROM u\n FROM c",
        "CASE WHEN a IS DISTINCT FROM 1 THEN 'from' ELSE 'where' END",
        "(SELECT max(x) FROM u WHERE u.k = t.k)",
        "extract(year from d)",
        "substring(s from 1 for 2)",
        "trim(both 'x' from s)",
        "overlay(s placing 'a' from 1)",
        "'FROM u WHERE x RETURNING y'",
        "$$ from u where $$",
        "E'\\' FROM u'",
        '"from" + "where" + "returning"',
        "t.from + t.where",
        "b::DECIMAL(10, 2)",
        "b::timestamp with time zone",
        "TIMESTAMP WITH TIME ZONE '2020-01-01 00:00:00+00'",
        "[1, 2, x.from][1:2]",
        "ARRAY(SELECT a FROM u)",
        "{'a': 1, 'b': (FROM u)}",
        "[x + 1 for x in l if x > 1]",
        "list_transform(l, lambda x: x + 1)",
        "-b",
        "$1",
        "?",
        "DEFAULT",
        "EXISTS (FROM u) AND NOT x IN (SELECT 1 FROM v)",
        "b COLLATE nocase",
        "percentile_cont(0.5) WITHIN GROUP (ORDER BY b)",
        "row(1, 2)",
        "(b)",
        "a = b",
    ],
)
def test_update_finds_its_clauses_around_any_expression(value: str) -> None:
    made = one(
        f"UPDATE t SET a = {value}, b = {value} FROM u, (FROM w) v WHERE {value} RETURNING {value}", s.Update
    )
    assert sets(made.assignments) == [("a", value), ("b", value)]
    assert text(made.from_text) == "u, (FROM w) v"
    assert (text(made.where), text(made.returning)) == (value, value)
    made = one(f"UPDATE t SET a = {value} FROM u", s.Update)
    assert (sets(made.assignments), text(made.from_text), made.where) == ([("a", value)], "u", None)
    made = one(f"UPDATE t SET a = {value} WHERE {value}", s.Update)
    assert (sets(made.assignments), made.from_text, text(made.where)) == ([("a", value)], None, value)
    deleted = one(f"DELETE FROM t USING u JOIN w ON {value} WHERE {value} RETURNING {value}", s.Delete)
    assert text(deleted.using_text) == f"u JOIN w ON {value}"
    assert (text(deleted.where), text(deleted.returning)) == (value, value)
    inserted = one(
        f"INSERT INTO t SELECT {value} FROM u WHERE {value} "
        f"ON CONFLICT (a) DO UPDATE SET a = {value}, b = {value} WHERE {value} RETURNING {value}",
        s.Insert,
    )
    assert inserted.source.text == f"SELECT {value} FROM u WHERE {value}"
    assert inserted.on_conflict is not None
    assert sets(inserted.on_conflict.assignments) == [("a", value), ("b", value)]
    assert (text(inserted.on_conflict.where), text(inserted.returning)) == (value, value)


def test_distinct_from_followed_by_the_real_from() -> None:
    made = one("UPDATE t SET a = b IS DISTINCT FROM c FROM u WHERE u.x IS NOT DISTINCT FROM t.x", s.Update)
    assert sets(made.assignments) == [("a", "b IS DISTINCT FROM c")]
    assert (text(made.from_text), text(made.where)) == ("u", "u.x IS NOT DISTINCT FROM t.x")
    made = one("UPDATE t SET a = u.distinct FROM u", s.Update)  # a field of that name
    assert (sets(made.assignments), text(made.from_text)) == ([("a", "u.distinct")], "u")


@pytest.mark.parametrize(("sql", "alias"), [("UPDATE t SET set = 1", None), ("UPDATE t x SET set = 1", "x")])
def test_set_may_be_a_column(sql: str, alias: str | None) -> None:
    made = one(sql, s.Update)
    assert (made.alias, sets(made.assignments)) == (alias, [("set", "1")])


def test_update_of_several_columns_is_split_where_it_can_be() -> None:
    made = one("UPDATE t SET (a, b) = (1, f(2, 3)), (c, d) = ROW(4, DEFAULT), (e) = (5)", s.Update)
    assert sets(made.assignments) == [("a", "1"), ("b", "f(2, 3)"), ("c", "4"), ("d", "DEFAULT"), ("e", "5")]
    assert [a.is_default for a in made.assignments] == [False, False, False, True, False]
    made = one("UPDATE t SET (a, b) = ((SELECT 1), 2), (c, d) = ((1), (2))", s.Update)
    assert sets(made.assignments) == [("a", "(SELECT 1)"), ("b", "2"), ("c", "(1)"), ("d", "(2)")]


@pytest.mark.parametrize(
    "query",
    [
        "(SELECT 1, 2)",
        "((SELECT 1, 2))",
        "((SELECT 1, 2) UNION SELECT 3, 4)",
        "(VALUES (1, 2))",
        "(FROM u WHERE x)",
    ],
)
def test_update_of_several_columns_by_a_subquery_is_one_assignment(query: str) -> None:
    made = one(f"UPDATE t SET (a, b) = {query}, c = 3 WHERE d", s.Update)
    assert sets(made.assignments) == [("a,b", query), ("c", "3")]
    row = f'{query} AS "_row"("_c0", "_c1")'
    expected = f'(SELECT {{"_c0": "_c0", "_c1": "_c1"}} FROM {row})'
    assert [a.expression for a in made.assignments] == [expected, "3"]


def test_update_with_ctes() -> None:
    made = one("WITH c AS (SELECT 1 FROM u WHERE x) UPDATE main.t AS x SET a = 1 FROM c", s.Update)
    assert (made.table, made.alias, text(made.with_text)) == ("t", "x", "WITH c AS (SELECT 1 FROM u WHERE x)")


def test_delete() -> None:
    made = one("DELETE FROM t", s.Delete)
    assert (made.table, made.alias, made.using_text, made.where, made.returning) == (
        "t",
        None,
        None,
        None,
        None,
    )
    made = one("WITH c AS (FROM u) DELETE FROM t x USING c, d WHERE x.a = c.a -- all\n", s.Delete)
    assert (made.alias, text(made.using_text), text(made.where)) == ("x", "c, d", "x.a = c.a")
    assert text(made.with_text) == "WITH c AS (FROM u)"
    assert text(one("DELETE FROM t AS x RETURNING a AS where, *", s.Delete).returning) == "a AS where, *"


def test_truncate() -> None:
    assert one("TRUNCATE a", s.Truncate).tables == ("a",)
    assert one("TRUNCATE TABLE a, public.b", s.Truncate).tables == ("a", "b")
