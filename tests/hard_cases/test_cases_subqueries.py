"""Hard cases 17 to 21: subqueries of all kinds, and HAVING."""

from __future__ import annotations

import random

import pytest

import penstock
from judge import Judge

PREDICATES = {
    "in": "x IN (SELECT x FROM b)",
    "not_in": "x NOT IN (SELECT x FROM b)",
    "exists": "EXISTS (SELECT 1 FROM b WHERE b.x = a.x)",
    "not_exists": "NOT EXISTS (SELECT 1 FROM b WHERE b.x = a.x)",
    "any_equal": "x = ANY (SELECT x FROM b)",
    "all_distinct": "x <> ALL (SELECT x FROM b)",
    "any_less": "x < ANY (SELECT x FROM b)",
    "all_greater": "x > ALL (SELECT x FROM b)",
    "in_where": "x IN (SELECT b.x FROM b WHERE b.y = a.y)",
    "not_in_where": "x NOT IN (SELECT b.x FROM b WHERE b.y = a.y)",
    "in_two": "(x, y) IN (SELECT x, y FROM b)",
    "not_in_two": "(x, y) NOT IN (SELECT x, y FROM b)",
    "exists_theta": "EXISTS (SELECT 1 FROM b WHERE b.x < a.x)",
    "not_exists_theta": "NOT EXISTS (SELECT 1 FROM b WHERE b.x <> a.x AND b.y = a.y)",
    "in_or": "x IN (SELECT x FROM b) OR y = 1",
    "not_in_is_null": "(x IN (SELECT x FROM b)) IS NULL",
    "exists_or": "EXISTS (SELECT 1 FROM b WHERE b.x = a.x) OR EXISTS (SELECT 1 FROM b WHERE b.y = a.y)",
    "not_not_in": "NOT (x NOT IN (SELECT x FROM b WHERE y IS NOT NULL))",
}


def random_rows(chance: random.Random, held: list[dict[str, object]]) -> list[dict[str, object]]:
    """Some rows in, some of those held out."""
    came = [
        {"x": chance.choice([None, 1, 2, 3]), "y": chance.choice([None, 1, 2])}
        for _ in range(chance.randint(0, 3))
    ]
    held += came
    chance.shuffle(held)
    gone = [held.pop() for _ in range(chance.randint(0, min(4, len(held))))]
    return [{**r, "_weight": 1} for r in came] + [{**r, "_weight": -1} for r in gone]


@pytest.mark.parametrize("seed", range(3))
def test_case_17_membership_when_both_sides_change(judge: Judge, seed: int) -> None:
    judge.sql("CREATE TABLE a (x INTEGER, y INTEGER)")
    judge.sql("CREATE TABLE b (x INTEGER, y INTEGER)")
    for name, predicate in PREDICATES.items():
        judge.sql(f"CREATE MATERIALIZED VIEW {name}_ AS SELECT x, y FROM a WHERE {predicate}")
    chance = random.Random(1700 + seed)
    held_a: list[dict[str, object]] = []
    held_b: list[dict[str, object]] = []
    for epoch in range(16):
        judge.tick({"a": random_rows(chance, held_a), "b": random_rows(chance, held_b)})
        judge.check(note=f"seed {seed} epoch {epoch}")


def test_case_17_not_in_and_the_one_null(judge: Judge) -> None:
    judge.sql("CREATE TABLE a (x INTEGER)")
    judge.sql("CREATE TABLE b (x INTEGER)")
    judge.sql("CREATE MATERIALIZED VIEW v AS SELECT x FROM a WHERE x NOT IN (SELECT x FROM b)")
    judge.sql("CREATE MATERIALIZED VIEW w AS SELECT x, x IN (SELECT x FROM b) AS is_in FROM a")
    judge.tick("a", [{"x": 1}, {"x": 2}, {"x": None}])
    judge.check()
    assert judge.rows("v") == [(1,), (2,), (None,)]  # NOT IN of nothing is true, of NULL too
    judge.tick("b", [{"x": 1}])
    judge.check()
    assert judge.rows("v") == [(2,)]
    judge.tick("b", [{"x": None}])
    judge.check()
    assert judge.rows("v") == []
    judge.tick("b", [{"x": None, "_weight": -1}, {"x": 1, "_weight": -1}])
    judge.check()
    assert judge.rows("v") == [(1,), (2,), (None,)]


def test_case_18_correlated_scalar_subqueries(judge: Judge) -> None:
    judge.sql("CREATE TABLE part (id INTEGER PRIMARY KEY, brand TEXT)")
    judge.sql("CREATE TABLE line (id INTEGER PRIMARY KEY, part INTEGER, qty INTEGER, price DECIMAL(8,2))")
    for name, query in {
        "cheapest": "SELECT p.id, l.id AS line FROM part p, line l WHERE l.part = p.id "
        "AND l.price = (SELECT min(price) FROM line m WHERE m.part = p.id)",
        "small": "SELECT sum(l.price) / 7.0 AS yearly FROM line l, part p WHERE p.id = l.part AND p.brand = 'b' "
        "AND l.qty < (SELECT 0.5 * avg(qty) FROM line m WHERE m.part = p.id)",
        "in_select": "SELECT id, (SELECT max(price) FROM line WHERE part = part.id) AS top, "
        "(SELECT count(*) FROM line WHERE line.part = part.id) AS n FROM part",
        "under_or": "SELECT id FROM part p WHERE brand = 'a' OR 2 < (SELECT sum(qty) FROM line WHERE part = p.id)",
        "uncorrelated": "SELECT id FROM line WHERE price > (SELECT avg(price) FROM line)",
        "nested": "SELECT id FROM part p WHERE id IN (SELECT part FROM line l WHERE qty > "
        "(SELECT 0.5 * sum(qty) FROM line m WHERE m.part = l.part))",
        "expression": "SELECT id, coalesce((SELECT sum(qty) FROM line WHERE line.part = p.id), 0) * 2 AS twice FROM part p",
    }.items():
        judge.sql(f"CREATE MATERIALIZED VIEW {name} AS {query}")
    judge.check()
    judge.sql("INSERT INTO part VALUES (1, 'a'), (2, 'b'), (3, 'b'), (4, NULL)")
    judge.check()
    judge.sql(
        "INSERT INTO line VALUES (1, 1, 5, 10.00), (2, 2, 1, 5.00), (3, 2, 9, 4.00), (4, 3, NULL, 4.50), (5, 9, 1, 1.00)"
    )
    judge.check()
    judge.sql("DELETE FROM line WHERE id = 3")
    judge.check()
    judge.sql("BEGIN")
    judge.sql("UPDATE line SET part = 3, qty = 20 WHERE id = 1")
    judge.sql("UPDATE part SET brand = 'b' WHERE id = 1")
    judge.sql("INSERT INTO line VALUES (6, 4, 2, NULL), (7, 1, 3, 2.00), (8, 1, 4, 2.00)")
    judge.sql("COMMIT")
    judge.check()
    judge.sql("DELETE FROM part WHERE id IN (1, 2)")
    judge.check()
    judge.sql("UPDATE line SET price = 5 - price")
    judge.check()
    judge.sql("DELETE FROM line")
    judge.check()
    assert judge.rows("expression") == [(3, 0), (4, 0)]


def test_case_18_a_scalar_subquery_with_two_rows_is_refused(judge: Judge) -> None:
    judge.sql("CREATE TABLE a (x INTEGER)")
    judge.sql("CREATE TABLE b (x INTEGER, y INTEGER)")
    judge.sql("CREATE MATERIALIZED VIEW v AS SELECT x, (SELECT y FROM b WHERE b.x = a.x) AS y FROM a")
    judge.sql("INSERT INTO a VALUES (1), (2)")
    judge.sql("INSERT INTO b VALUES (1, 10), (3, 30), (3, 31)")
    judge.check()
    with pytest.raises(penstock.PenstockError, match=r"(?i)more than one row"):
        judge.flow.sql("INSERT INTO b VALUES (1, 11)")
    judge.check()
    with pytest.raises(penstock.PenstockError, match=r"(?i)more than one row"):
        judge.flow.sql("INSERT INTO a VALUES (3)")
    judge.check()
    judge.sql("INSERT INTO b VALUES (2, 20)")
    judge.check()
    assert judge.rows("v") == [(1, 10), (2, 20)]


def test_case_19_the_old_winner_goes(judge: Judge) -> None:
    judge.sql("CREATE TABLE t (id INTEGER PRIMARY KEY, g INTEGER, x INTEGER)")
    judge.sql(
        "CREATE MATERIALIZED VIEW best AS WITH r AS (SELECT g, sum(x) AS total FROM t GROUP BY g) "
        "SELECT g, total FROM r WHERE total = (SELECT max(total) FROM r)"
    )
    judge.sql("CREATE MATERIALIZED VIEW newest AS SELECT id FROM t WHERE x = (SELECT max(x) FROM t)")
    judge.sql("INSERT INTO t VALUES (1, 1, 5), (2, 2, 7), (3, 3, 7)")
    judge.check()
    assert judge.rows("best") == [(2, 7), (3, 7)]
    judge.sql("INSERT INTO t VALUES (4, 1, 4)")
    judge.check()
    assert judge.rows("best") == [(1, 9)]
    judge.sql("UPDATE t SET g = 3 WHERE id = 4")
    judge.check()
    assert judge.rows("best") == [(3, 11)]
    judge.sql("DELETE FROM t WHERE g = 3")
    judge.check()
    assert judge.rows("best") == [(2, 7)]
    judge.sql("DELETE FROM t")
    judge.check()
    judge.sql("INSERT INTO t VALUES (1, 1, NULL)")
    judge.check()
    assert judge.rows("best") == []


def test_case_20_sum_of_case_when_in_under_update(judge: Judge) -> None:
    judge.sql("CREATE TABLE o (id INTEGER PRIMARY KEY, priority TEXT)")
    judge.sql("CREATE TABLE l (id INTEGER, n INTEGER, mode TEXT, PRIMARY KEY (id, n))")
    judge.sql(
        "CREATE MATERIALIZED VIEW v AS SELECT mode, sum(CASE WHEN priority IN ('1', '2') THEN 1 ELSE 0 END) AS high, "
        "sum(CASE WHEN priority NOT IN ('1', '2') THEN 1 ELSE 0 END) AS low "
        "FROM o JOIN l ON o.id = l.id WHERE mode IN ('MAIL', 'SHIP') GROUP BY mode"
    )
    judge.sql("INSERT INTO o VALUES (1, '1'), (2, '3'), (3, NULL)")
    judge.sql(
        "INSERT INTO l VALUES (1, 1, 'MAIL'), (1, 2, 'SHIP'), (2, 1, 'MAIL'), (3, 1, 'SHIP'), (2, 2, 'AIR')"
    )
    judge.check()
    assert judge.rows("v") == [("MAIL", 1, 1), ("SHIP", 1, 0)]
    for priority in ("3", "2", "5"):
        judge.sql(f"UPDATE o SET priority = '{priority}' WHERE id < 3")
        judge.check()
    judge.sql("UPDATE o SET priority = CASE WHEN id = 1 THEN '2' END")
    judge.check()
    assert judge.rows("v") == [("MAIL", 1, 0), ("SHIP", 1, 0)]
    judge.sql("UPDATE l SET mode = CASE mode WHEN 'AIR' THEN 'MAIL' WHEN 'MAIL' THEN 'AIR' ELSE mode END")
    judge.check()
    judge.sql("DELETE FROM l WHERE mode = 'SHIP'")
    judge.check()


def test_case_21_having_crossed_both_ways(judge: Judge) -> None:
    judge.sql("CREATE TABLE t (id INTEGER PRIMARY KEY, g INTEGER, x INTEGER)")
    judge.sql(
        "CREATE MATERIALIZED VIEW v AS SELECT g, sum(x) AS s FROM t GROUP BY g HAVING sum(x) > 10 AND count(*) < 4"
    )
    judge.sql(
        "CREATE MATERIALIZED VIEW w AS SELECT g FROM t GROUP BY g HAVING sum(x) > (SELECT avg(x) * 2 FROM t)"
    )
    judge.sql("CREATE MATERIALIZED VIEW nothing AS SELECT count(*) AS n FROM t HAVING count(*) > 2")
    for step, statement in enumerate((
        "INSERT INTO t VALUES (1, 1, 6), (2, 1, 4), (3, 2, 20)",
        "INSERT INTO t VALUES (4, 1, 1)",
        "UPDATE t SET x = 3 WHERE id = 2",
        "UPDATE t SET x = 30 WHERE id = 2",
        "INSERT INTO t VALUES (5, 1, 0)",
        "DELETE FROM t WHERE id = 5",
        "UPDATE t SET g = 3 - g",
        "UPDATE t SET x = NULL WHERE id = 3",
        "DELETE FROM t WHERE g = 2",
    )):  # fmt: skip
        judge.sql(statement)
        judge.check(note=f"step {step}")
    assert judge.rows("nothing") == []
