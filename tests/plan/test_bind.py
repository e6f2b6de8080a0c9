"""The binder: what CREATE TABLE says, names of all kinds, references, volatile functions, errors."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from penstock.base import errors as e
from penstock.plan import tree
from penstock.plan.expr import Call, Const, Expr, walk
from penstock.plan.nodes import Filter, Node, Project, Scan, Values
from penstock.plan.rules.factor_disjunctions import factored
from penstock.sql.bind import Binder
from penstock.zset import types as t
from penstock.zset.types import Schema


@pytest.fixture
def binder() -> Iterator[Binder]:
    binder = Binder()
    binder.create_table("CREATE TABLE t (id BIGINT PRIMARY KEY, v INTEGER, s TEXT, ts TIMESTAMP)")
    yield binder
    binder.close()


def constants(plan: Node) -> list[Const]:
    """The constants of a plan of one row of them."""
    if isinstance(plan, Values):
        return [Const(type, value) for type, value in zip(plan.types, plan.rows[0], strict=True)]
    assert isinstance(plan, Project)
    if isinstance(plan.input, Values):
        return constants(plan.input)
    return [x for x in plan.exprs if isinstance(x, Const)]


def test_create_table_is_described() -> None:
    made = Binder().create_table(
        'CREATE TABLE "my ""t" (a INTEGER DEFAULT 3 + 4, "b c" DECIMAL(3,1) NOT NULL CHECK ("b c" > 2), '
        "e VARCHAR DEFAULT 'x''y', j JSON, l BIGINT[], PRIMARY KEY (e, a))"
    )
    assert made is not None
    assert made.name == 'my "t'
    assert made.schema.names == ("a", "b c", "e", "j", "l")
    assert made.schema.types == (t.INTEGER, t.decimal(3, 1), t.VARCHAR, t.JSON, t.list_of(t.BIGINT))
    assert made.not_null == (True, True, True, False, False)
    assert made.defaults == ("(3 + 4)", None, "'x''y'", None, None)
    assert made.primary_key == (2, 0)
    assert made.checks == ('("b c" > 2)',)


def test_create_table_if_not_exists_finds_the_old_one(binder: Binder) -> None:
    assert binder.create_table("CREATE TABLE IF NOT EXISTS t (x INTEGER)") is None
    with pytest.raises(e.DuplicateObject):
        binder.create_table("CREATE TABLE t (x INTEGER)")


@pytest.mark.parametrize(
    ("columns", "words"),
    [
        ("a INTEGER, b INTEGER GENERATED ALWAYS AS (a + 1)", "generated"),
        ("a INTEGER UNIQUE", "UNIQUE"),
        ("a BIGINT REFERENCES t (id)", "FOREIGN KEY"),
        ("a TEXT COLLATE NOCASE", "collation"),
        ("a BIT", "BIT"),
        ("a TIMESTAMP_NS", "TIMESTAMP_NS"),
        ("a UHUGEINT", "UHUGEINT"),
    ],
)
def test_create_table_refuses_what_it_would_not_keep(binder: Binder, columns: str, words: str) -> None:
    with pytest.raises(e.NotMaintainable, match=words):
        binder.create_table(f"CREATE TABLE x ({columns})")
    binder.create_table("CREATE TABLE x (a INTEGER)")  # nothing of the refused one is left


def test_names_with_quotes_spaces_and_unicode() -> None:
    binder = Binder()
    binder.add_relation('we"ird ünï', Schema(("a b", 'q"', "ß😀"), (t.BIGINT, t.VARCHAR, t.DOUBLE)))
    plan = binder.plan('SELECT "ß😀" AS "x y", "q""", "a b" + 1 FROM "we""ird ünï" WHERE "a b" > 0')
    assert plan.schema.names == ("x y", 'q"', '("a b" + 1)')
    assert plan.schema.types == (t.DOUBLE, t.VARCHAR, t.BIGINT)
    assert [n.table for n in tree.walk(plan) if isinstance(n, Scan)] == ['we"ird ünï']
    assert binder.references('SELECT 1 FROM "WE""IRD ünï"') == {'we"ird ünï'}
    binder.drop('we"ird ünï')
    with pytest.raises(e.UndefinedTable):
        binder.plan('SELECT 1 FROM "we""ird ünï"')
    with pytest.raises(e.UndefinedTable):
        binder.drop('we"ird ünï')


def test_positions_count_characters(binder: Binder) -> None:
    sql = "SELECT '😀ß' AS x, v + 1 AS y FROM t"
    plan = binder.plan(sql)
    calls = [
        x for n in tree.walk(plan) for top in tree.expressions(n) for x in walk(top) if isinstance(x, Call)
    ]
    assert [sql[c.position] for c in calls if c.position is not None] == ["+"]


def test_names_may_stand_twice(binder: Binder) -> None:
    assert binder.plan("SELECT id, v AS id FROM t").schema.names == ("id", "id")
    assert binder.plan("SELECT DISTINCT id AS a FROM t").schema.names == ("a",)


def test_references_are_what_the_text_names(binder: Binder) -> None:
    binder.create_table("CREATE TABLE u (id INTEGER)")
    assert binder.create_view("CREATE VIEW w AS SELECT id FROM u") == "w"
    assert binder.references("SELECT * FROM T, w WHERE id IN (SELECT id FROM w)") == {"t", "w"}
    assert binder.references("WITH t AS (SELECT 1 AS x) SELECT * FROM t, u") == {"u"}
    assert binder.references("SELECT (SELECT max(id) FROM u)") == {"u"}


def test_volatile_functions_are_seen_before_they_are_folded(binder: Binder) -> None:
    sql = "SELECT id FROM t WHERE ts > now() - INTERVAL 1 DAY AND random() < 0.5 AND abs(v) > 1"
    assert set(binder.volatile_functions(sql)) == {"now", "random"}
    assert binder.volatile_functions("SELECT current_date, localtimestamp, age(ts) FROM t") == [
        "current_date",
        "localtimestamp",
        "age",
    ]
    assert binder.volatile_functions("SELECT age(ts, ts), current_date - 1 FROM t") == ["current_date"]
    binder.create_view('CREATE VIEW "r AS" ("x, (") AS SELECT 1 FROM t WHERE ts > now() - INTERVAL 1 DAY')
    assert binder.volatile_functions('SELECT * FROM "R AS"') == ["now"]
    binder.create_view("CREATE VIEW r AS SELECT uuid() AS x FROM t")
    assert binder.volatile_functions("SELECT x FROM r") == ["uuid"]
    assert binder.volatile_functions("SELECT (SELECT v FROM t) AS x") == []


@pytest.mark.parametrize(
    ("sql", "error"),
    [
        ("SELEC 1", e.SqlSyntaxError),
        ("SELECT nope FROM t", e.UndefinedColumn),
        ("SELECT 1 FROM nope", e.UndefinedTable),
        ("SELECT nope(1) FROM t", e.UndefinedFunction),
        ("SELECT v FROM t WHERE s + 1 > 2 AND v > {}", e.PenstockError),
        ("SELECT 1; SELECT 2", e.BindError),
        ("INSERT INTO t VALUES (1)", e.PenstockError),
        ("SELECT * FROM 'x.csv'", e.PenstockError),
        ("SELECT 'x'::INTEGER", e.PenstockError),
    ],
)
def test_errors_are_ours(binder: Binder, sql: str, error: type[Exception]) -> None:
    try:
        plan = binder.plan(sql)
    except error:
        return
    assert sql.endswith("::INTEGER"), plan  # a cast that fails on every row may be left to the rows


def test_a_query_nested_too_deeply_is_refused(binder: Binder) -> None:
    with pytest.raises(e.LimitExceeded):
        binder.plan("SELECT id FROM t WHERE " + " AND ".join(f"v <> {i}" for i in range(3000)))


def test_constants_of_every_type(binder: Binder) -> None:
    values: dict[str, tuple[t.SqlType, object]] = {
        "1::TINYINT": (t.TINYINT, 1),
        "170141183460469231731687303715884105727::HUGEINT": (t.HUGEINT, 2**127 - 1),
        "(-5)::HUGEINT": (t.HUGEINT, -5),
        "1.50": (t.decimal(3, 2), 150),
        "-123456789012345678901234567.12": (t.decimal(29, 2), -12345678901234567890123456712),
        "1e300::DOUBLE": (t.DOUBLE, 1e300),
        "'-inf'::FLOAT": (t.FLOAT, float("-inf")),
        "DATE '2020-01-01'": (t.DATE, 18262),
        "TIME '00:00:01'": (t.TIME, 1_000_000),
        "TIMESTAMP '1970-01-02'": (t.TIMESTAMP, 86_400_000_000),
        "TIMESTAMPTZ '1970-01-02 00:00:00+00'": (t.TIMESTAMPTZ, 86_400_000_000),
        "INTERVAL '1 month 2 days 3 seconds'": (t.INTERVAL, (1, 2, 3_000_000)),
        "'a' || chr(0) || '😀'": (t.VARCHAR, "a\0😀"),
        r"'a\x00\x5C'::BLOB": (t.BLOB, b"a\0\\"),
        "UUID '11111111-2222-3333-4444-555555555555'": (t.UUID, "11111111-2222-3333-4444-555555555555"),
        "UUID 'ffffffff-2222-3333-4444-555555555555'": (t.UUID, "ffffffff-2222-3333-4444-555555555555"),
        "[1, NULL]": (t.list_of(t.INTEGER), (1, None)),
        "{'a': 1, 'b': 'x'}": (t.struct_of((("a", t.INTEGER), ("b", t.VARCHAR))), (1, "x")),
        "MAP {'a': 1}": (t.map_of(t.VARCHAR, t.INTEGER), (("a", 1),)),
        "true": (t.BOOLEAN, True),
        "NULL::DATE": (t.DATE, None),
        "NULL": (t.INTEGER, None),
    }
    plan = binder.plan(f"SELECT {', '.join(values)}")
    assert plan.schema.types == tuple(type for type, _ in values.values())
    assert [c.value for c in constants(plan)] == [value for _, value in values.values()]


def test_nan_is_a_constant(binder: Binder) -> None:
    (found,) = constants(binder.plan("SELECT 'nan'::DOUBLE AS x WHERE 'nan' = 'nan'"))
    assert found.value != found.value


def test_what_can_fail_stays_behind_its_guard(binder: Binder) -> None:
    """The guard is not evaluated after the division, and the division not below the subquery's filter."""
    plan = binder.plan("SELECT id FROM (SELECT * FROM t WHERE v <> 0) WHERE 10 / v > 3")
    (found,) = [n for n in tree.walk(plan) if isinstance(n, Filter)]
    assert isinstance(found.predicate, Call)
    assert [x.name for x in found.predicate.args if isinstance(x, Call)] == ["<>", ">"]


def test_common_factors_of_a_disjunction() -> None:
    def column(i: int) -> Expr:
        return Call(t.BOOLEAN, f"p{i}", ())

    a, p, q = column(1), column(2), column(3)
    both = [Call(t.BOOLEAN, "and", (a, x)) for x in (p, q)]
    found = factored(Call(t.BOOLEAN, "or", tuple(both)))
    assert found == Call(t.BOOLEAN, "and", (a, Call(t.BOOLEAN, "or", (p, q))))
    assert factored(Call(t.BOOLEAN, "or", (a, both[1]))) == a
