"""AS OF EPOCH and AS OF TIMESTAMP are taken out of the text; everything else stays where it stands."""

from __future__ import annotations

import re

import duckdb
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.base.errors import SqlSyntaxError
from penstock.base.limits import AS_OF_MAX
from penstock.sql import statements as s
from penstock.sql.as_of import NO_ALIAS
from penstock.sql.parse import parse


def read(sql: str) -> tuple[s.Statement, str]:
    """The statement, and its text with single spaces."""
    (statement,) = parse(sql)
    return statement, " ".join(statement.text.text.split()).replace(" )", ")")


PLACES = [
    ("SELECT * FROM v AS OF EPOCH 5", 'SELECT * FROM "as of 1" "v"'),
    ("select v.a from v as of epoch 5 where b", 'select v.a from "as of 1" "v" where b'),
    ("SELECT * FROM v AS OF EPOCH 5 AS x", 'SELECT * FROM "as of 1" AS x'),
    ("SELECT * FROM v AS OF EPOCH 5 x (a, b)", 'SELECT * FROM "as of 1" x (a, b)'),
    ('SELECT * FROM v AS OF EPOCH 5 "left"', 'SELECT * FROM "as of 1" "left"'),
    ("SELECT * FROM v AS x AS OF EPOCH 5", 'SELECT * FROM "as of 1" "x"'),
    ("SELECT * FROM v x AS OF EPOCH 5 LEFT JOIN w ON a", 'SELECT * FROM "as of 1" "x" LEFT JOIN w ON a'),
    ('SELECT * FROM "V ""1" AS OF EPOCH 5', 'SELECT * FROM "as of 1" "V ""1"'),
    ("SELECT * FROM public.v AS OF EPOCH 5", 'SELECT * FROM "as of 1" "v"'),
    ('SELECT * FROM "v"AS OF EPOCH(5)x', 'SELECT * FROM "as of 1" x'),
    ("SELECT * FROM a, v AS OF EPOCH 5", 'SELECT * FROM a, "as of 1" "v"'),
    ("SELECT * FROM a JOIN b USING (x), v AS OF EPOCH 5", 'SELECT * FROM a JOIN b USING (x), "as of 1" "v"'),
    ("SELECT * FROM a JOIN b ON a.x = b.x, v AS OF EPOCH 5", 'SELECT * FROM a JOIN b ON a.x = b.x, "as of 1" "v"'),
    ("SELECT * FROM (a CROSS JOIN (v AS OF EPOCH 5))", 'SELECT * FROM (a CROSS JOIN ("as of 1" "v"))'),
    ("SELECT * FROM v AS OF EPOCH 5 ASOF JOIN w ON a >= b", 'SELECT * FROM "as of 1" "v" ASOF JOIN w ON a >= b'),
    ("FROM v AS OF EPOCH 5 SELECT a", 'FROM "as of 1" "v" SELECT a'),
    ("FROM x: v AS OF EPOCH 5", 'FROM x: "as of 1"'),
    ("TABLE v AS OF EPOCH 5", 'TABLE "as of 1"'),
    ("SUMMARIZE v AS OF EPOCH 5", 'SUMMARIZE "as of 1"'),
    ("PIVOT v AS OF EPOCH 5 ON a USING sum(b)", 'PIVOT "as of 1" "v" ON a USING sum(b)'),
    ("SELECT (SELECT max(a) FROM v AS OF EPOCH 5)", 'SELECT (SELECT max(a) FROM "as of 1" "v")'),
    ("SELECT a FROM v AS OF EPOCH 1 UNION FROM v AS OF EPOCH 2",
     'SELECT a FROM "as of 1" "v" UNION FROM "as of 2" "v"'),
    ('SELECT * FROM "as of 1", v AS OF EPOCH 5', 'SELECT * FROM "as of 1", "as of 2" "v"'),
    ("WITH v AS (FROM v AS OF EPOCH 1) FROM v", 'WITH v AS (FROM "as of 1" "v") FROM v'),
    ("SELECT * FROM (WITH v AS (FROM w) FROM v), v AS OF EPOCH 1",
     'SELECT * FROM (WITH v AS (FROM w) FROM v), "as of 1" "v"'),
    ("INSERT INTO t SELECT * FROM v AS OF EPOCH 5 ON CONFLICT DO NOTHING",
     'INSERT INTO t SELECT * FROM "as of 1" "v" ON CONFLICT DO NOTHING'),
    ("UPDATE t SET a = 1 FROM u, v AS OF EPOCH 5 WHERE b", 'UPDATE t SET a = 1 FROM u, "as of 1" "v" WHERE b'),
    ("DELETE FROM t USING v AS OF EPOCH 5 WHERE b", 'DELETE FROM t USING "as of 1" "v" WHERE b'),
    ("CREATE TABLE t AS FROM v AS OF EPOCH 5 WITH NO DATA", 'CREATE TABLE t AS FROM "as of 1" "v" WITH NO DATA'),
    ("EXPLAIN SELECT * FROM v AS OF EPOCH 5", 'EXPLAIN SELECT * FROM "as of 1" "v"'),
]  # fmt: skip


@pytest.mark.parametrize(("sql", "expected"), PLACES)
def test_a_name_takes_the_place(sql: str, expected: str) -> None:
    statement, text = read(sql)
    assert text == expected
    whole = statement.text.text.ljust(len(sql))
    assert len(whole) == len(sql)
    clause = re.compile(r"(?i)AS OF EPOCH ?\(?[0-9]+\)?")
    after = list(clause.finditer(sql))[-1].end()
    assert whole[after:] == sql[after:]  # it stands where it stood
    for item in statement.as_of:
        assert item.relation.lower() in ("v", 'v "1')
        assert sql[item.offset :].lower().lstrip('"').startswith(("v", "public.v"))
        assert statement.text.text[item.offset :].startswith(f'"{item.stands_for}"')
    hash(statement)


def test_the_moment() -> None:
    def moment(text: str) -> tuple[str, object]:
        item = parse(f"FROM v AS OF {text}")[0].as_of[0]
        value = item.value
        return item.unit, value.text if isinstance(value, s.Slice) else value

    assert moment("EPOCH 1_000") == ("epoch", 1000)
    assert moment("Epoch (1 + 2) AS x") == ("epoch", "1 + 2")
    assert moment("TIMESTAMP '2026-01-31 12:00'") == ("timestamp", "2026-01-31 12:00")
    assert moment("timestamptz E'a\\'b'") == ("timestamp", "a'b")
    assert moment("TIMESTAMP (now() - INTERVAL '5 minutes')") == ("timestamp", "now() - INTERVAL '5 minutes'")


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT a AS of FROM t",
        "SELECT a AS of, epoch FROM t AS of",
        "SELECT of.epoch FROM t AS of WHERE of.epoch > 1",
        "SELECT * FROM a ASOF JOIN b ON a.t >= b.t",
        "SELECT 'v AS OF EPOCH 5', \"AS OF EPOCH\" FROM t -- AS OF EPOCH 5",
        "SELECT a AS \"of\" FROM t AS epoch",
    ],
)  # fmt: skip
def test_what_only_looks_like_it_stays(sql: str) -> None:
    statement, _ = read(sql)
    assert not statement.as_of
    assert statement.text.text in sql


ERRORS = [
    ("SELECT a, v AS OF EPOCH 5 FROM t", "AS OF follows the name of a table or view", "AS OF"),
    ("SELECT v AS OF EPOCH 5", "AS OF follows the name of a table or view", "AS OF"),
    ("SELECT * FROM (SELECT 1) AS OF EPOCH 5", "AS OF follows the name of a table or view", "AS OF"),
    ("SELECT * FROM t ORDER BY a, v AS OF EPOCH 5", "AS OF follows", "AS OF"),
    ("SELECT f(v AS OF EPOCH 5)", "AS OF follows", "AS OF"),
    ("SELECT a IS DISTINCT FROM v AS OF EPOCH 5", "AS OF follows", "AS OF"),
    ("SELECT * FROM v AS OF EPOCH", "expected the number of an epoch", None),
    ("SELECT * FROM v AS OF EPOCH -1", "not negative", "-1"),
    ("SELECT * FROM v AS OF EPOCH 1.5", "expected the number of an epoch", "1.5"),
    ("SELECT * FROM v AS OF EPOCH 9999999999999999999999", "expected the number of an epoch", "9999"),
    ("SELECT * FROM v AS OF EPOCH '5'", "expected the number of an epoch", "'5'"),
    ("SELECT * FROM v AS OF EPOCH $1", "expected the number of an epoch", "$1"),
    ("SELECT * FROM v AS OF EPOCH ($1 + 1)", "takes no placeholder", "$1"),
    ("SELECT * FROM v AS OF EPOCH ()", "expected the number of an epoch", ")"),
    ("SELECT * FROM v AS OF TIMESTAMP 5", "expected a time", "5"),
    ("SELECT * FROM other.v AS OF EPOCH 5", 'schema "other" does not exist', "other"),
    ("WITH v AS (FROM w) FROM v AS OF EPOCH 5", '"v" is a common table expression', "v AS OF"),
    ("WITH RECURSIVE v AS (FROM v AS OF EPOCH 5) FROM v", '"v" is a common table expression', "v AS OF"),
    ("WITH a AS (FROM w), v (x) AS MATERIALIZED (FROM a) SELECT (SELECT 1 FROM V AS OF EPOCH 5)",
     '"V" is a common table expression', "V AS OF"),
    ("INSERT INTO v AS OF EPOCH 5 VALUES (1)", "the past cannot be changed", "AS OF"),
    ("UPDATE v AS OF EPOCH 5 SET a = 1", "the past cannot be changed", "AS OF"),
    ("DELETE FROM v AS OF EPOCH 5", "the past cannot be changed", "AS OF"),
    ("CREATE VIEW w AS FROM v AS OF EPOCH 5", 'the definition of view "w"', "v AS OF"),
    ("CREATE MATERIALIZED VIEW w AS SELECT 1 FROM a, v AS OF EPOCH 5", 'the definition of view "w"', "v AS OF"),
    ("EXPLAIN INCREMENTAL FROM v AS OF EPOCH 5", "the definition of a materialized view", "v AS OF"),
    ("DESCRIBE v AS OF EPOCH 5", "AS OF follows", "AS OF"),
    ("FROM " + ", ".join(["v AS OF EPOCH 5"] * (AS_OF_MAX + 1)), f"at most {AS_OF_MAX} times", None),
]  # fmt: skip


@pytest.mark.parametrize(("sql", "message", "at"), ERRORS)
def test_refused(sql: str, message: str, at: str | None) -> None:
    with pytest.raises(SqlSyntaxError) as caught:
        parse(sql)
    assert message in caught.value.message
    if at is not None:
        assert sql[caught.value.position :].startswith(at)


def test_as_many_as_there_may_be() -> None:
    statement, _ = read("FROM " + ", ".join(["v AS OF EPOCH 5"] * AS_OF_MAX))
    assert len({item.stands_for for item in statement.as_of}) == AS_OF_MAX


def test_the_second_statement_of_a_text_has_its_own() -> None:
    sql = "FROM v AS OF EPOCH 1; SELECT é FROM /* ; */ w AS -- x\n OF EPOCH 2 y; FROM v"
    first, second, third = parse(sql)
    assert [len(x.as_of) for x in (first, second, third)] == [1, 1, 0]
    assert sql[second.as_of[0].offset :].startswith("w AS")
    assert sql[second.text.end - 1 :].startswith("y;")
    assert sql[third.text.offset :] == third.text.text


def test_words_that_are_no_alias_are_those_of_duckdb() -> None:
    duck = duckdb.connect()
    duck.execute("CREATE TABLE t (a INTEGER)")
    words = [w for (w,) in duck.execute("SELECT keyword_name FROM duckdb_keywords()").fetchall()]
    refused = set()
    for word in words:
        try:
            duck.execute(f"SELECT * FROM t {word}")
        except duckdb.Error:
            refused.add(word.upper())
    assert refused == set(NO_ALIAS)


WORDS = ["SELECT", "FROM", "v", "x", '"q"', "AS", "OF", "EPOCH", "TIMESTAMP", "5", "'t'", "(", ")", ",", "JOIN",
         "WITH", "AS OF EPOCH 5", "AS OF EPOCH 5", ".", ":", "UPDATE", "SET", "INTO", "USING", ";", "[", "]",
         "`a\"\"\"\"\"\"b`", "ON"]  # fmt: skip


@settings(max_examples=1500, deadline=None)
@given(st.lists(st.sampled_from(WORDS), max_size=16).map(" ".join))
def test_any_text_parses_or_raises_a_syntax_error(words: str) -> None:
    sql = f"SELECT * FROM v {words}"
    try:
        found = parse(sql)
    except SqlSyntaxError as raised:
        error = raised
    else:
        check(sql, found)
        return
    assert error.position is not None
    assert 0 <= error.position <= len(sql)


def check(sql: str, found: list[s.Statement]) -> None:
    for statement in found:
        assert len(statement.text.text) == statement.text.end - statement.text.offset <= len(sql)
        for item in statement.as_of:
            assert item.stands_for in statement.text.text


def test_deep_nesting_is_no_problem() -> None:
    depth = 20_000
    parse("SELECT * FROM " + "(" * depth + "v AS OF EPOCH 5" + ")" * depth)
    parse("SELECT * FROM " + "(a, " * 2_000 + "v AS OF EPOCH 5" + ")" * 2_000)
