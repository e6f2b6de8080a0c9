"""Hard cases 14 to 16: DISTINCT and the set operations."""

from __future__ import annotations

import random

import pytest

import penstock
from judge import Judge

SET_OPERATIONS = ["UNION", "UNION ALL", "INTERSECT", "INTERSECT ALL", "EXCEPT", "EXCEPT ALL"]


def test_case_14_distinct_with_weights_that_pass_through_negative(judge: Judge) -> None:
    judge.sql("CREATE TABLE t (x INTEGER, y INTEGER)")
    judge.sql("CREATE MATERIALIZED VIEW d AS SELECT DISTINCT x FROM t")
    judge.sql("CREATE MATERIALIZED VIEW n AS SELECT count(*) AS n, count(DISTINCT x) AS d FROM t")
    judge.sql("INSERT INTO t VALUES (1, 1)")
    judge.check()
    # The removals come first in the delta: -2, then +3, is +1 in the end.
    judge.tick("t", [{"x": 1, "y": 1, "_weight": -2}, {"x": 1, "y": 1, "_weight": 3}])
    judge.check()
    assert judge.rows("d") == [(1,)]
    assert judge.rows("n") == [(2, 1)]
    judge.tick("t", [{"x": 2, "y": 1, "_weight": -1}, {"x": 2, "y": 1, "_weight": 1}])
    judge.check()
    assert judge.rows("d") == [(1,)]
    judge.tick("t", [{"x": 1, "y": 1, "_weight": -2}, {"x": 1, "y": 2, "_weight": 1}])
    judge.check()
    assert judge.rows("d") == [(1,)]
    judge.tick("t", [{"x": 1, "y": 2, "_weight": -1}, {"x": 3, "y": 2, "_weight": 5}])
    judge.check()
    assert judge.rows("d") == [(3,)]
    judge.sql("BEGIN")
    judge.sql("DELETE FROM t")
    judge.sql("INSERT INTO t VALUES (3, 2), (3, 2)")
    judge.sql("DELETE FROM t WHERE x = 3")
    judge.sql("INSERT INTO t VALUES (3, 9)")
    judge.sql("COMMIT")
    judge.check()
    assert judge.rows("n") == [(1, 1)]


def test_case_15_distinct_and_filtered_aggregates(judge: Judge) -> None:
    judge.sql("CREATE TABLE t (g INTEGER, x INTEGER, w TEXT, p DECIMAL(8,2))")
    judge.sql(
        "CREATE MATERIALIZED VIEW v AS SELECT g, count(DISTINCT x) AS dx, sum(DISTINCT x) AS sx, avg(DISTINCT p) AS ap, "
        "count(DISTINCT w) FILTER (WHERE x > 1) AS dw, sum(p) FILTER (WHERE w = 'a') AS sp, "
        "count(*) FILTER (WHERE x IS NULL) AS nulls, max(x) FILTER (WHERE w <> 'a') AS hi, min(DISTINCT x) AS lo, "
        "bool_and(x > 0) AS every, bool_or(x > 2) AS some FROM t GROUP BY g"
    )
    judge.sql("CREATE MATERIALIZED VIEW o AS SELECT count(DISTINCT g) AS g, sum(DISTINCT p) AS p FROM t")
    judge.sql(
        "CREATE MATERIALIZED VIEW u AS SELECT g, sum(x) AS s, count(*) AS n "
        "FROM (SELECT DISTINCT g, x FROM t) q GROUP BY g"
    )
    chance = random.Random(15)
    held = []
    for _ in range(20):
        came = [
            {
                "g": chance.choice([None, 1, 2]),
                "x": chance.choice([None, 0, 1, 2, 3]),
                "w": chance.choice([None, "a", "b"]),
                "p": chance.choice([None, 1, 2]),
            }
            for _ in range(chance.randint(0, 12))
        ]
        held += came
        chance.shuffle(held)
        cut = chance.randint(0, len(held))
        gone, held = held[:cut], held[cut:]
        judge.tick("t", [{**r, "_weight": 1} for r in came] + [{**r, "_weight": -1} for r in gone])
        judge.check()
    judge.sql("DELETE FROM t")
    judge.check()
    assert judge.rows("o") == [(0, None)]
    assert judge.rows("v") == []


@pytest.mark.parametrize("operation", SET_OPERATIONS)
def test_case_16_set_operations(judge: Judge, operation: str) -> None:
    judge.sql("CREATE TABLE a (x INTEGER, y TEXT)")
    judge.sql("CREATE TABLE b (x INTEGER, y TEXT)")
    judge.sql(f"CREATE MATERIALIZED VIEW v AS SELECT x, y FROM a {operation} SELECT x, y FROM b")
    judge.sql(
        f"CREATE MATERIALIZED VIEW self AS SELECT x FROM a {operation} SELECT x FROM a WHERE y IS NOT NULL"
    )
    judge.sql(
        f"CREATE MATERIALIZED VIEW n AS SELECT count(*) AS n FROM (SELECT x FROM a {operation} SELECT x FROM b) q"
    )
    chance = random.Random(16)
    held: dict[str, list[dict[str, object]]] = {"a": [], "b": []}
    for _ in range(20):
        delta = {}
        for table, rows in held.items():
            came = [
                {"x": chance.choice([None, 1, 2]), "y": chance.choice([None, "p"])}
                for _ in range(chance.randint(0, 6))
            ]
            rows += came
            chance.shuffle(rows)
            gone = [rows.pop() for _ in range(chance.randint(0, len(rows)))]
            delta[table] = [{**r, "_weight": 1} for r in came] + [{**r, "_weight": -1} for r in gone]
        judge.tick(delta)
        judge.check()


def test_case_16_counts_of_each_branch(judge: Judge) -> None:
    judge.sql("CREATE TABLE a (x INTEGER)")
    judge.sql("CREATE TABLE b (x INTEGER)")
    for name, operation in zip(("u", "ua", "i", "ia", "e", "ea"), SET_OPERATIONS, strict=True):
        judge.sql(f"CREATE MATERIALIZED VIEW {name} AS SELECT x FROM a {operation} SELECT x FROM b")
    judge.tick({"a": [{"x": 1, "_weight": 3}], "b": [{"x": 1, "_weight": 2}]})
    judge.check()
    assert [len(judge.rows(v)) for v in ("u", "ua", "i", "ia", "e", "ea")] == [1, 5, 1, 2, 0, 1]
    judge.tick({"a": [{"x": 1, "_weight": -2}], "b": [{"x": 1, "_weight": 1}]})
    judge.check()
    assert [len(judge.rows(v)) for v in ("u", "ua", "i", "ia", "e", "ea")] == [1, 4, 1, 1, 0, 0]
    judge.tick({"a": [{"x": 1, "_weight": 1}], "b": [{"x": 1, "_weight": -3}]})
    judge.check()
    assert [len(judge.rows(v)) for v in ("u", "ua", "i", "ia", "e", "ea")] == [1, 2, 0, 0, 1, 2]


def test_case_16_union_over_overlapping_or_arms(judge: Judge) -> None:
    judge.sql("CREATE TABLE t (id INTEGER PRIMARY KEY, x INTEGER, y INTEGER)")
    arms = "SELECT id, x FROM t WHERE x > 1 {} SELECT id, x FROM t WHERE y > 1"
    judge.sql(f"CREATE MATERIALIZED VIEW once AS {arms.format('UNION')}")
    judge.sql(f"CREATE MATERIALIZED VIEW twice AS {arms.format('UNION ALL')}")
    judge.sql("CREATE MATERIALIZED VIEW arm AS SELECT id, x FROM t WHERE x > 1 OR y > 1")
    judge.sql("INSERT INTO t VALUES (1, 2, 2), (2, 2, 0), (3, 0, 2), (4, 0, 0), (5, NULL, 2)")
    judge.check()
    assert len(judge.rows("once")) == 4
    assert len(judge.rows("twice")) == 5
    judge.sql("UPDATE t SET y = 0 WHERE id = 1")
    judge.check()
    assert len(judge.rows("once")) == 4
    assert len(judge.rows("twice")) == 4
    judge.sql("UPDATE t SET x = y, y = x")
    judge.check()
    judge.sql("DELETE FROM t WHERE x > 1")
    judge.check()


def test_case_16_equal_intervals_are_one(judge: Judge) -> None:
    judge.sql("CREATE TABLE t (id INTEGER PRIMARY KEY, k INTEGER, i INTERVAL)")
    judge.sql("CREATE MATERIALIZED VIEW d AS SELECT count(*) AS n FROM (SELECT DISTINCT k, i FROM t)")
    judge.sql(
        "CREATE MATERIALIZED VIEW u AS SELECT count(*) AS n FROM (SELECT i FROM t UNION SELECT i FROM t)"
    )
    judge.sql(
        "CREATE MATERIALIZED VIEW long AS SELECT k, extract(epoch FROM i) AS s FROM (SELECT DISTINCT k, i FROM t)"
    )
    judge.sql(
        "INSERT INTO t VALUES (1, 1, INTERVAL 1 MONTH), (2, 1, INTERVAL 30 DAY), (3, 1, INTERVAL 720 HOUR), "
        "(4, 2, INTERVAL 30 DAY), (5, 2, NULL), (6, 2, NULL), (7, 1, INTERVAL 31 DAY)"
    )
    judge.check()
    assert judge.rows("d") == [(4,)]
    assert judge.rows("u") == [(3,)]
    for id in (1, 3, 5, 7, 2, 6, 4):
        judge.sql(f"DELETE FROM t WHERE id = {id}")
        judge.check()


@pytest.mark.parametrize("query", [
    "SELECT i FROM t INTERSECT SELECT i FROM t", "SELECT i FROM t EXCEPT ALL SELECT i FROM t",
    "SELECT DISTINCT [i] FROM t", "SELECT {'a': i} FROM t UNION SELECT {'a': i} FROM t",
])  # fmt: skip
def test_case_16_what_may_be_written_in_several_ways_is_refused(judge: Judge, query: str) -> None:
    judge.sql("CREATE TABLE t (i INTERVAL)")
    with pytest.raises(penstock.NotMaintainable, match="intervals cannot be maintained"):
        judge.flow.register_view("v", query)
