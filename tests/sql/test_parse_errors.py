"""Whatever text comes, it parses or raises a SqlSyntaxError that says what was expected and where."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.base.errors import SqlSyntaxError
from penstock.sql import statements as s
from penstock.sql.parse import STATEMENTS, parse
from sql.parsed import one, slices

ERRORS = [
    ("INSERT orders VALUES", 'expected INTO after INSERT at "orders"', "orders"),
    ("INSERT OR REPLACE INTO t VALUES (1)", 'expected INTO after INSERT at "OR"', "OR"),
    ("INSERT INTO", "expected a table name after INTO at the end", None),
    ("INSERT INTO t", 'expected VALUES, a query or DEFAULT VALUES after "t" at the end', None),
    ("INSERT INTO t ()", 'expected a column name after "(" at ")"', ")"),
    ("INSERT INTO t (a, A) VALUES (1, 2)", 'column "A" is given twice', "A)"),
    ("INSERT INTO t VALUES (1) ON CONFLICT (a) NOTHING", 'expected DO after ")" at "NOTHING"', "NOTHING"),
    ("INSERT INTO t VALUES (1) ON CONFLICT (a) DO", "expected NOTHING or UPDATE after DO at the end", None),
    (
        "INSERT INTO t VALUES (1) ON CONFLICT ON CONSTRAINT k DO NOTHING",
        "expected (columns) or DO",
        "ON CONSTR",
    ),
    ("INSERT INTO t VALUES (1) RETURNING", "expected columns after RETURNING at the end", None),
    ("UPDATE t a = 1", 'expected SET after "a" at "="', "="),
    ("UPDATE where SET a = 1", 'expected a table name after UPDATE at "where"', "where"),
    ("UPDATE t SET a = WHERE b", 'expected an expression after "=" at "WHERE"', "WHERE"),
    ("UPDATE t SET a = 1, WHERE b", 'expected a column name after "," at "WHERE"', "WHERE"),
    ("UPDATE t SET a 1", 'expected "=" after "a" at "1"', "1"),
    ("UPDATE t SET a = 1, A = 2", 'column "A" is given twice', "A"),
    ("UPDATE t SET (a, b) = (1)", "2 columns but 1 value", "(1)"),
    ("UPDATE t SET (a, b) = c", "expected a row", "c"),
    ("UPDATE t SET (a, b) = (1, 2) + 3", 'unexpected "+"', "+"),
    ("UPDATE t SET t.a = 1", 'expected "=" after "t" at "."', "."),
    ("UPDATE t SET a[1] = 1", 'expected "=" after "a" at "["', "["),
    ("UPDATE t SET a = 1 WHERE", "expected a condition after WHERE at the end", None),
    ("UPDATE t SET a = 1 FROM WHERE b", 'expected a table after FROM at "WHERE"', "WHERE"),
    ("UPDATE t SET a = 1 LIMIT 1", 'unexpected "LIMIT" after "1"', "LIMIT"),
    ("UPDATE t SET a = 1 FROM u ORDER BY 1", 'unexpected "ORDER"', "ORDER"),
    ("DELETE t WHERE a", 'expected FROM after DELETE at "t"', "t "),
    ("DELETE FROM t WHERE a LIMIT 1", 'unexpected "LIMIT"', "LIMIT"),
    ("DELETE FROM t WHERE a UNION SELECT 1", 'unexpected "UNION"', "UNION"),
    ("DELETE FROM t WHERE a, b", 'unexpected ","', ","),
    ("DELETE FROM other.t", 'schema "other" does not exist', "other"),
    ("DELETE FROM main.public.t", 'unexpected "."', ".t"),
    ('DELETE FROM ""', "is empty", '""'),
    ("TRUNCATE", "expected a table name after TRUNCATE at the end", None),
    ("CREATE INDEX i ON t (a)", 'expected TABLE, VIEW or MATERIALIZED VIEW after CREATE at "INDEX"', "INDEX"),
    ("CREATE TEMP TABLE t (a INT)", "TEMP tables and views do not exist", "TEMP"),
    ("CREATE OR REPLACE TEMPORARY VIEW v AS FROM t", "TEMPORARY tables and views do not exist", "TEMPORARY"),
    ("CREATE OR REPLACE TABLE IF NOT EXISTS t (a INT)", "exclude each other", "IF"),
    ("CREATE TABLE t", 'expected ( or AS after "t" at the end', None),
    ("CREATE TABLE t (a INT) PARTITION BY (a)", 'unexpected "PARTITION"', "PARTITION"),
    ("CREATE TABLE t (a INT DEFAULT $1)", 'cannot have the parameter "$1"', "$1"),
    ("CREATE VIEW v", 'expected AS after "v" at the end', None),
    ("CREATE VIEW v AS", "expected a query after AS at the end", None),
    ("CREATE VIEW v AS DELETE FROM t", 'expected a query after AS at "DELETE"', "DELETE"),
    ("CREATE MATERIALIZED TABLE t (a INT)", 'expected VIEW after MATERIALIZED at "TABLE"', "TABLE"),
    ("CREATE MATERIALIZED VIEW v WITH (a = ) AS FROM t", 'expected a value after "=" at ")"', ")"),
    ("CREATE MATERIALIZED VIEW v WITH (a = 1, A = 2) AS FROM t", 'option "a" is given twice', "A ="),
    ("CREATE MATERIALIZED VIEW v AS SELECT ?", "cannot have the parameter", "?"),
    ("DROP INDEX i", 'expected TABLE, VIEW or MATERIALIZED VIEW after DROP at "INDEX"', "INDEX"),
    ("DROP TABLE IF EXISTS", "expected the name of a table after EXISTS at the end", None),
    ("DROP TABLE a b", 'unexpected "b" after "a"', "b"),
    ("BEGIN NOW", "expected READ ONLY", "NOW"),
    ("COMMIT AND CHAIN", 'unexpected "AND" after COMMIT', "AND"),
    ("ROLLBACK TO SAVEPOINT 5", "expected the name of a savepoint", "5"),
    ("SHOW timezone", "expected TABLES, VIEWS", "timezone"),
    ("SHOW TABLES LIKE x", "expected a pattern", "x"),
    ("DESCRIBE", "expected the name of a view or table, or a query after DESCRIBE at the end", None),
    ("EXPLAIN DELETE FROM t", "expected a query after EXPLAIN", "DELETE"),
    ("EXPLAIN INCREMENTAL", "expected the name of a view or table", None),
    ("WITH a AS SELECT 1", 'expected "(" after AS at "SELECT"', "SELECT"),
    ("WITH a AS (SELECT 1) DROP TABLE t", "expected a query, INSERT, UPDATE or DELETE", "DROP"),
    ("SELECT (1", '"(" is never closed', "(1"),
    ("SELECT [1)", '")" closes nothing', ")"),
    ("SELECT 1)", '")" closes nothing', ")"),
    ("(DELETE FROM t)", "expected a query", "("),
]


@pytest.mark.parametrize(("sql", "message", "place"), ERRORS)
def test_errors_say_what_was_expected_and_where(sql: str, message: str, place: str | None) -> None:
    before = "SELECT 1; "  # positions count from the beginning of the whole text
    with pytest.raises(SqlSyntaxError) as caught:
        parse(before + sql)
    assert message in caught.value.message
    expected = len(sql) if place is None else sql.rindex(place)
    assert caught.value.position == len(before) + expected


KEYWORDS = """
    INTO SET WHERE RETURNING ON CONFLICT DO NOTHING AS VIEW TABLE MATERIALIZED OR REPLACE IF NOT EXISTS
    USING BY NAME DEFAULT NULL CASE IS DISTINCT ROW COLUMNS LIKE LEVEL ISOLATION READ ONLY DATA NO TO
"""
SYMBOLS = r"""
    ( ) () (a) (a,b) [ ] { } , = . * ; :: - main.t x.y a b 1 1.5 $1 $n ? 's' E'\'' $$d$$ "c" "" /**/
"""
WORDS = (
    *sorted({word for words, _ in STATEMENTS for word in words}),
    *KEYWORDS.split(),
    *SYMBOLS.split(),
    "--\n",
    "9" * 5000,
)
statements_like = st.lists(st.sampled_from(WORDS), max_size=14).map(" ".join)
mutated = st.tuples(
    st.sampled_from([sql for sql, _, _ in ERRORS]), st.integers(0, 60), st.sampled_from(WORDS)
).map(lambda parts: f"{parts[0][: parts[1]]} {parts[2]} {parts[0][parts[1] :]}")


@settings(max_examples=400, deadline=None)
@given(st.one_of(st.text(), statements_like, mutated))
def test_any_text_parses_or_raises_a_syntax_error_and_nothing_else(sql: str) -> None:
    try:
        found = parse(sql)
    except SqlSyntaxError as raised:
        error = raised
    else:
        assert found
        for statement in found:
            assert all(p.text and sql[p.offset : p.end] == p.text for p in slices(statement))
            hash(statement)
        return
    assert error.position is not None
    assert 0 <= error.position <= len(sql)


def test_deep_nesting_is_no_problem() -> None:
    depth = 50_000
    one("SELECT " + "(" * depth + "1" + ")" * depth, s.Query)
    one("(" * depth + "SELECT 1" + ")" * depth, s.Query)
    one("UPDATE t SET a = " + "(" * depth + "1" + ")" * depth + " WHERE b", s.Update)


def test_half_of_a_surrogate_pair_is_no_text() -> None:
    with pytest.raises(SqlSyntaxError, match="surrogate") as caught:
        parse("SELECT 'a\ud800'")
    assert caught.value.position == len("SELECT 'a")
