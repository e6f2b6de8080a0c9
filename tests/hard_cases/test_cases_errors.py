"""Hard cases 37 and 38: overflow and division by zero are refused, and the flow is as it was."""

from __future__ import annotations

from decimal import Decimal

import pytest

import penstock
from judge import Judge
from penstock.base.errors import NumericOutOfRange
from penstock.circuit.operators import look_up_few
from penstock.zset import weights

TOP = 2**63 - 1


def test_case_37_sum_of_bigint_is_wider(judge: Judge) -> None:
    judge.sql("CREATE TABLE t (g INTEGER, x BIGINT, d DECIMAL(18,2))")
    judge.sql(
        "CREATE MATERIALIZED VIEW v AS SELECT g, sum(x) AS s, avg(x) AS a, sum(d) AS d FROM t GROUP BY g"
    )
    judge.sql("CREATE MATERIALIZED VIEW w AS SELECT sum(s) AS s FROM v")
    rows = [{"g": i % 2, "x": TOP, "d": Decimal("9999999999999999.99")} for i in range(10)]
    judge.tick("t", rows)
    judge.check()
    assert judge.rows("w") == [(10 * TOP,)]
    assert judge.rows("v")[0][3] == 5 * Decimal("9999999999999999.99")
    judge.tick("t", [{"g": 0, "x": -TOP - 1, "d": None}])
    judge.check()
    judge.tick("t", [{**row, "_weight": -1} for row in rows[1:]])
    judge.check()
    assert judge.rows("w") == [(-1,)]


def test_case_37_large_weights_do_not_wrap(judge: Judge) -> None:
    judge.flow.sql("CREATE TABLE t (x BIGINT)")
    judge.flow.sql("CREATE MATERIALIZED VIEW v AS SELECT sum(x) AS s, count(*) AS n FROM t")
    judge.flow.tick("t", [{"x": TOP, "_weight": 1_000_000}])
    assert judge.flow.snapshot("v").to_pylist() == [{"s": Decimal(TOP) * 1_000_000, "n": 1_000_000}]
    judge.flow.tick("t", [{"x": TOP, "_weight": -999_999}])
    assert judge.flow.snapshot("v").to_pylist() == [{"s": Decimal(TOP), "n": 1}]


@pytest.mark.parametrize("rows", [1, 9])
def test_case_37_weights_that_a_join_multiplies_do_not_wrap(judge: Judge, rows: int) -> None:
    for table in "abc":
        judge.sql(f"CREATE TABLE {table} (x INTEGER)")
    judge.sql(
        "CREATE MATERIALIZED VIEW n AS SELECT count(*) AS n FROM a JOIN b ON a.x = b.x JOIN c ON c.x = b.x"
    )
    judge.sql("CREATE MATERIALIZED VIEW d AS SELECT DISTINCT a.x FROM a, b, c")
    flow, times = judge.flow, 2**22
    for table in "ab":
        flow.tick(table, [{"x": x, "_weight": times} for x in range(rows)])
    with pytest.raises(NumericOutOfRange, match="JOINED_WEIGHT_MAX") as raised:
        flow.tick("c", [{"x": x, "_weight": times} for x in range(rows)])
    assert raised.value.hint
    assert flow.snapshot("n").to_pylist() == [{"n": 0}]
    flow.tick("c", [{"x": x} for x in range(rows)])
    assert flow.snapshot("n").to_pylist() == [{"n": rows * times**2}]
    flow.tick("a", [{"x": x, "_weight": -times} for x in range(rows)])
    assert flow.snapshot("n").to_pylist() == [{"n": 0}]
    assert flow.snapshot("d").num_rows == 0


@pytest.mark.parametrize("rows", [1, 9])
def test_case_37_a_count_beyond_bigint_is_refused(rows: int, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (weights, look_up_few):
        monkeypatch.setattr(module, "JOINED_WEIGHT_MAX", 2**62)
    with penstock.Flow() as flow:
        for table in "ab":
            flow.sql(f"CREATE TABLE {table} (x INTEGER)")
        flow.sql("CREATE MATERIALIZED VIEW n AS SELECT count(*) AS n FROM a, b")
        many = [{"x": 1, "_weight": 2**31 - 100}] + [{"x": x} for x in range(2, rows + 1)]
        flow.tick({"a": many, "b": many})
        flow.tick("a", many)
        before = flow.snapshot("n").to_pylist()
        with pytest.raises(NumericOutOfRange):
            flow.tick("b", many)
        assert flow.snapshot("n").to_pylist() == before


@pytest.mark.parametrize(
    ("column", "expression", "good", "bad"),
    [
        ("BIGINT", "x + 1", "5", str(TOP)),
        ("BIGINT", "x * x", "5", str(TOP)),
        ("BIGINT", "-x", "5", "-9223372036854775808"),
        ("INTEGER", "x - 1", "5", "-2147483648"),
        ("SMALLINT", "x * x", "5", "30000"),
        ("BIGINT", "abs(x)", "5", "-9223372036854775808"),
        ("BIGINT", "CAST(x AS INTEGER)", "5", "2147483648"),
        ("TEXT", "CAST(x AS INTEGER)", "'5'", "'five'"),
        ("DECIMAL(18,2)", "CAST(x AS SMALLINT)", "5", "40000.00"),
    ],
)
def test_case_37_overflow_is_a_clear_error(
    judge: Judge, column: str, expression: str, good: str, bad: str
) -> None:
    judge.sql(f"CREATE TABLE t (id INTEGER, x {column})")
    judge.sql(f"CREATE MATERIALIZED VIEW v AS SELECT id, {expression} AS y FROM t")
    judge.sql("CREATE MATERIALIZED VIEW n AS SELECT count(*) AS n FROM t")
    judge.sql(f"INSERT INTO t VALUES (1, {good})")
    judge.check()
    with pytest.raises(penstock.PenstockError) as caught:
        judge.flow.sql(f"INSERT INTO t VALUES (2, {good}), (3, {bad})")
    assert "Traceback" not in str(caught.value)
    judge.check()
    judge.sql(f"INSERT INTO t VALUES (4, {good})")
    judge.check()
    assert judge.rows("n") == [(2,)]


DIVISIONS = {
    "divided": "SELECT id, 10 / y AS q FROM t",
    "modulo": "SELECT id, 10 % y AS q FROM t",
    "filtered": "SELECT id FROM t WHERE 10 / y > 1",
    "summed": "SELECT g, sum(10 / y) AS s FROM t GROUP BY g",
    "joined": "SELECT t.id FROM t JOIN u ON u.id = t.id AND u.z / t.y = 1",
    "after": "SELECT g, sum(id) / sum(y) AS q FROM t GROUP BY g",
    "fraction": "SELECT id, f / y AS q FROM t",
    "exact": "SELECT id, d / y AS q FROM t",
}


@pytest.mark.parametrize("name", DIVISIONS)
def test_case_38_division_by_zero_refuses_the_tick(judge: Judge, name: str) -> None:
    judge.sql(
        "CREATE TABLE t (id INTEGER, g INTEGER, y INTEGER, f DOUBLE DEFAULT 1.5, d DECIMAL(8,2) DEFAULT 2.5)"
    )
    judge.sql("CREATE TABLE u (id INTEGER, z INTEGER)")
    judge.sql("CREATE MATERIALIZED VIEW first_of_all AS SELECT g, count(*) AS n FROM t GROUP BY g")
    judge.sql(f"CREATE MATERIALIZED VIEW v AS {DIVISIONS[name]}")
    judge.sql("CREATE MATERIALIZED VIEW last_of_all AS SELECT t.id, u.z FROM t LEFT JOIN u ON u.id = t.id")
    judge.sql("INSERT INTO t (id, g, y) VALUES (1, 1, 5), (2, 2, 3)")
    judge.sql("INSERT INTO u VALUES (1, 5), (3, 1)")
    judge.check()
    epoch = judge.flow.tick("u", []).epoch
    with pytest.raises(penstock.PenstockError, match=r"(?i)division by zero") as caught:
        judge.flow.sql("INSERT INTO t (id, g, y) VALUES (4, 1, 2), (3, 3, 0)")
    message = str(caught.value)
    assert "v" in message
    assert "Traceback" not in message
    assert caught.value.hint
    judge.check()
    with pytest.raises(penstock.PenstockError, match=r"(?i)division by zero"):
        judge.flow.sql("UPDATE t SET y = 0 WHERE id = 1")
    judge.check()
    with pytest.raises(penstock.PenstockError, match=r"(?i)division by zero"):
        judge.flow.tick({"u": [{"id": 3, "z": 9}], "t": [{"id": 3, "g": 3, "y": 0, "f": 1.0, "d": 1}]})
    judge.check()
    judge.sql("INSERT INTO t (id, g, y) VALUES (4, 1, 2)")
    judge.check()
    assert judge.flow.tick("u", []).epoch > epoch


def test_case_38_the_message_names_the_row_and_the_expression(judge: Judge) -> None:
    judge.flow.sql("CREATE TABLE parcels (id INTEGER, pieces INTEGER)")
    judge.flow.sql("CREATE MATERIALIZED VIEW v AS SELECT id, 100 / pieces AS share FROM parcels")
    with pytest.raises(penstock.PenstockError) as caught:
        judge.flow.tick("parcels", [{"id": 41, "pieces": 2}, {"id": 42, "pieces": 0}])
    message = str(caught.value)
    assert "parcels" in message, message
    assert "pieces" in message, message
    assert "100" in message, message
    assert caught.value.sqlstate == "22012"


def test_case_38_a_guarded_division_is_fine(judge: Judge) -> None:
    judge.sql("CREATE TABLE t (id INTEGER, y INTEGER)")
    judge.sql(
        "CREATE MATERIALIZED VIEW v AS SELECT id, CASE WHEN y <> 0 THEN 10 / y END AS q, 10 / NULLIF(y, 0) AS r FROM t"
    )
    judge.sql("CREATE MATERIALIZED VIEW w AS SELECT id FROM t WHERE y <> 0 AND 10 / y > 1")
    judge.sql("INSERT INTO t VALUES (1, 0), (2, 3), (3, NULL)")
    judge.check()
    judge.sql("UPDATE t SET y = 3 - y")
    judge.check()
