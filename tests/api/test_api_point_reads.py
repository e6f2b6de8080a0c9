"""Rows under a key are looked up without DuckDB: the same rows that it gives, whatever happened before."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as s

from penstock import Flow
from penstock.base.errors import InvalidValue, SerializationFailure, SqlSyntaxError, UndefinedParameter
from penstock.engine.at_once import Found, is_constant
from penstock.engine.session import Session
from penstock.sql.parse import parse
from penstock.state import contents, finder


def looked_up(session: Session, sql: str, values: tuple[Any, ...] = ()) -> pa.Table | None:
    """What is found without DuckDB."""
    found = session.at_once(parse(sql)[0], values)
    return None if found is None else found.table if isinstance(found, Found) else found


def rows(table: pa.Table) -> list[tuple[Any, ...]]:
    columns = [c.to_pylist() for c in table.columns]
    return sorted(zip(*columns, strict=True), key=repr)


@pytest.fixture
def flow() -> Iterator[Flow]:
    with Flow() as flow:
        flow.sql("CREATE TABLE t (k BIGINT PRIMARY KEY, g INTEGER, s TEXT)")
        flow.sql("CREATE TABLE bag (g INTEGER, s TEXT)")
        flow.sql("CREATE MATERIALIZED VIEW v AS SELECT g, count(*) AS n, max(s) AS s FROM t GROUP BY g")
        yield flow


READS = ("t WHERE k", "v WHERE g", "bag WHERE g")
changes = s.lists(
    s.tuples(
        s.sampled_from(["insert", "delete", "bag", "unbag", "load"]), s.integers(0, 12), s.integers(0, 4), s.text("ab", max_size=2)
    ),
    max_size=12,
)  # fmt: skip


@settings(deadline=None, suppress_health_check=list(HealthCheck), max_examples=15)
@given(changes, s.booleans())
def test_the_rows_that_duckdb_gives(
    monkeypatch: pytest.MonkeyPatch, steps: list[tuple[str, int, int, str]], arranged: bool
) -> None:
    with monkeypatch.context() as patch, Flow() as flow, flow.session() as session:
        patch.setattr(contents, "LOG_DELTAS_MAX", 3 if arranged else 1000)
        patch.setattr(contents, "LOG_ROWS_MAX", 4)
        flow.sql(
            "CREATE TABLE t (k BIGINT PRIMARY KEY, g INTEGER, s TEXT); CREATE TABLE bag (g INTEGER, s TEXT)"
        )
        flow.sql("CREATE MATERIALIZED VIEW v AS SELECT g, count(*) AS n, max(s) AS s FROM t GROUP BY g")
        for kind, k, g, text in steps:
            if kind == "insert":
                flow.sql(
                    "INSERT INTO t VALUES ($1, $2, $3) ON CONFLICT (k) DO UPDATE SET g = excluded.g",
                    [k, g, text],
                )
            elif kind == "delete":
                flow.sql("DELETE FROM t WHERE k = $1", [k])
            elif kind == "bag":
                flow.sql("INSERT INTO bag VALUES ($1, $2), ($1, $2)", [g, text])
            elif kind == "load":
                flow.tick("bag", [{"g": i % 5, "s": text} for i in range(6)])
            else:
                flow.sql("DELETE FROM bag WHERE g = $1 AND s = $2", [g, text])
            for read in READS:
                sql = f"SELECT * FROM {read} = $1"
                found = looked_up(session, sql, (g,))
                assert found is not None
                expected = flow.sql(f"SELECT * FROM {read} + 0 = {g}")
                assert rows(found) == rows(expected)
                assert found.schema.remove_metadata().equals(expected.schema)


def test_what_is_looked_up_and_what_is_not(flow: Flow) -> None:
    flow.sql("INSERT INTO t VALUES (1, 2, 'it''s'), (-5, 2, NULL); INSERT INTO bag VALUES (1, 'x')")
    with flow.session() as session:
        for sql, expected in (
            ("SELECT s FROM t WHERE k = 1", [("it's",)]),
            ("select s, k from public.t where t.k = -5", [(None, -5)]),
            ('SELECT "t".k FROM "t" WHERE "k" = 1', [(1,)]),
            ("SELECT g FROM bag WHERE s = 'x' AND g = 1", [(1,)]),
            ("SELECT g FROM v WHERE s = 'it''s'", [(2,)]),
            ("SELECT * FROM t WHERE k = 7", []),
        ):
            found = looked_up(session, sql)
            assert found is not None, sql
            assert rows(found) == expected
            assert rows(session.sql(sql)) == expected
        for sql in (
            "SELECT * FROM t WHERE k = 1.0", "SELECT * FROM t WHERE k = '1'", "SELECT * FROM t WHERE s = 'x'",
            "SELECT * FROM t WHERE k = 1 OR k = 2", "SELECT * FROM t WHERE k = 1 AND k = 2", "SELECT K FROM t WHERE k = 1",
            "SELECT k + 1 FROM t WHERE k = 1", "SELECT * FROM t WHERE k = 1 ORDER BY k", "SELECT * FROM t, v WHERE k = 1",
            "SELECT * FROM t AS OF EPOCH 1 WHERE k = 1", "SELECT count(*) FROM t WHERE k = 1", "SELECT * FROM nope WHERE k = 1",
            "SELECT * FROM t WHERE k = NULL", "SELECT DISTINCT k FROM t WHERE k = 1", "SELECT * FROM t u WHERE k = 1",
            "SELECT * FROM t WHERE k = 99999999999999999999", "SELECT * FROM t WHERE g = 2", "SELECT u.k FROM t WHERE k = 1",
        ):  # fmt: skip
            assert looked_up(session, sql) is None, sql


def test_values_of_other_types_are_left_to_duckdb(flow: Flow) -> None:
    flow.sql("INSERT INTO t VALUES (1, 2, 'x')")
    with flow.session() as session:
        sql = "SELECT s FROM t WHERE k = $1"
        assert looked_up(session, sql, ("1",)) is not None  # a text takes the type of its place
        for value in (1.0, True, None, "1.0", " 1", 2**63, [1]):
            assert looked_up(session, sql, (value,)) is None
        assert session.sql(sql, [1.0]).num_rows == 1
        assert session.sql(sql, [None]).num_rows == 0
        with pytest.raises(UndefinedParameter):
            session.sql(sql, [1, 2])


def test_half_of_a_surrogate_pair_is_looked_up_nowhere(flow: Flow) -> None:
    with flow.session() as session:
        with pytest.raises(InvalidValue, match="surrogate"):
            session.sql("SELECT k FROM t WHERE s = $1", ["a\ud800"])
        with pytest.raises(SqlSyntaxError, match="surrogate"):
            session.sql("SELECT k FROM t WHERE s = 'a\ud800'")


def test_a_transaction_sees_its_own_changes_and_is_checked(flow: Flow) -> None:
    flow.sql("INSERT INTO t VALUES (1, 2, 'old')")
    with flow.session() as ann, flow.session() as bob:
        sql = "SELECT s FROM t WHERE k = 1"
        ann.sql("BEGIN")
        assert looked_up(ann, sql) is not None
        bob.sql("UPDATE t SET s = 'new' WHERE k = 1")
        assert rows(ann.sql(sql)) == [("new",)]
        ann.sql("UPDATE t SET s = 'own' WHERE k = 1")
        assert looked_up(ann, sql) is None
        assert rows(ann.sql(sql)) == [("own",)]
        ann.sql("ROLLBACK; BEGIN ISOLATION LEVEL SERIALIZABLE")
        assert rows(ann.sql(sql)) == [("new",)]
        bob.sql("UPDATE t SET s = 'newer' WHERE k = 1")
        with pytest.raises(SerializationFailure):
            ann.sql("INSERT INTO t VALUES (2, 2, 'x')")


def test_a_relation_of_the_same_name_is_another_one(flow: Flow) -> None:
    flow.sql("INSERT INTO bag VALUES (1, 'x')")
    with flow.session() as session:
        assert rows(session.sql("SELECT * FROM bag WHERE g = 1")) == [(1, "x")]
        flow.sql("DROP TABLE bag; CREATE TABLE bag (s TEXT, g BIGINT)")
        assert rows(session.sql("SELECT * FROM bag WHERE g = 1")) == []
        flow.sql("INSERT INTO bag VALUES ('y', 1)")
        assert rows(session.sql("SELECT * FROM bag WHERE g = 1")) == [("y", 1)]


def test_the_index_of_a_large_piece_is_made_beside_the_work(
    flow: Flow, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(finder, "INDEX_AT_ONCE_ROWS_MAX", 100)
    made: list[Any] = []
    monkeypatch.setattr(finder.threading, "Thread", lambda target, name, daemon: _Later(target, made))
    numbers = np.arange(50_000)
    flow.tick("bag", pa.table({"g": pa.array(numbers, pa.int32()), "s": pa.array([""] * len(numbers))}))
    with flow.session() as session:
        sql = "SELECT g FROM bag WHERE g = 77"
        asked = 0
        while not made:  # a few reads must have asked for it
            assert looked_up(session, sql) is None
            asked += 1
        assert asked == 3
        assert rows(session.sql(sql)) == [(77,)]  # DuckDB answers as long as it is not there
        assert len(made) == 1
        made[0]()
        found = looked_up(session, sql)
        assert found is not None
        assert rows(found) == [(77,)]


class _Later:
    def __init__(self, work: Any, made: list[Any]) -> None:
        self.start = lambda: made.append(work)


def test_constants_are_remembered_and_nothing_else(flow: Flow) -> None:
    with flow.session(constants={"who": "ann"}) as session:
        for sql in ("SELECT 1", "SELECT who(), 'x' AS b, -2 + 3"):
            assert looked_up(session, sql) is None
            first = session.sql(sql)
            found = looked_up(session, sql)
            assert found is not None
            assert found.replace_schema_metadata(None).equals(first)
            assert rows(found) == rows(first)
        for sql in (
            "SELECT now()",
            "SELECT random()",
            "SELECT current_timestamp",
            "SELECT count(*) FROM t",
            "SELECT 1/2",
        ):
            session.sql(sql)
            assert looked_up(session, sql) is None
    assert not is_constant("SELECT 1 FROM t", ())
    assert not is_constant("SELECT current_date AS d", ())
