"""The Flow: SQL, sources and views from Arrow schemas, snapshots, what a tick reports, closing."""

from __future__ import annotations

import time
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

import penstock
from penstock.base import errors
from rows import rows_of


@pytest.fixture
def flow() -> Any:
    with penstock.Flow() as flow:
        flow.sql("CREATE TABLE orders (id BIGINT PRIMARY KEY, customer TEXT, amount DECIMAL(12,2))")
        flow.sql(
            "CREATE MATERIALIZED VIEW totals AS SELECT customer, SUM(amount) AS total FROM orders GROUP BY customer"
        )
        yield flow


def test_the_example_of_the_readme(flow: penstock.Flow) -> None:
    flow.sql("INSERT INTO orders VALUES (1, 'ann', 10.00)")
    answer = flow.sql("SELECT * FROM totals WHERE total > 5")
    assert isinstance(answer, pa.Table)
    assert answer.to_pylist() == [{"customer": "ann", "total": Decimal("10.00")}]
    assert flow.sql("SELECT * FROM totals WHERE total > 50").num_rows == 0


def test_a_source_from_an_arrow_schema_is_a_table(flow: penstock.Flow) -> None:
    schema = pa.schema([("user", pa.int64()), pa.field("page", pa.string(), nullable=False)])
    flow.register_source("clicks", schema, key=None)
    flow.register_view("top", "SELECT page, count(*) AS n FROM clicks GROUP BY page")
    flow.tick("clicks", pa.table({"user": [1, 2], "page": ["/", "/"]}, schema=schema))
    flow.sql("INSERT INTO clicks VALUES (3, '/about')")
    assert sorted(rows_of(flow.snapshot("top"))) == [("/", 2), ("/about", 1)]
    with pytest.raises(errors.NotNullViolation):
        flow.tick("clicks", [{"user": 1, "page": None}])
    with pytest.raises(errors.DuplicateObject):
        flow.register_source("clicks", schema)


@pytest.mark.parametrize("key", ["id", ["id"], ("id",)])
def test_a_source_with_a_key(key: Any) -> None:
    with penstock.Flow() as flow:
        flow.register_source("t", pa.schema([("id", pa.int64()), ("x", pa.string())]), key=key)
        flow.tick("t", [{"id": 1, "x": "a"}])
        with pytest.raises(errors.UniqueViolation):
            flow.tick("t", [{"id": 1, "x": "b"}])
        flow.tick("t", [{"id": 1, "x": "b"}], mode="upsert")
        assert rows_of(flow.snapshot("t")) == [(1, "b")]


def test_a_key_must_be_a_column() -> None:
    with penstock.Flow() as flow, pytest.raises(penstock.PenstockError):
        flow.register_source("t", pa.schema([("id", pa.int64())]), key="nope")


def test_what_a_tick_reports(flow: penstock.Flow) -> None:
    flow.sql("CREATE TABLE other (x INTEGER)")
    flow.sql("CREATE MATERIALIZED VIEW calm AS SELECT count(*) AS n FROM other")
    began = time.perf_counter()
    first = flow.tick(
        "orders", [{"id": 1, "customer": "ann", "amount": 1}, {"id": 2, "customer": "ann", "amount": 2}]
    )
    spent_ms = (time.perf_counter() - began) * 1000
    second = flow.tick("orders", [{"id": 3, "customer": "bob", "amount": 1}])
    assert second.epoch == first.epoch + 1
    assert (first.rows_in, first.rows_out) == (2, 1)
    assert 0 < first.duration_ms <= spent_ms
    assert "totals" in first.views
    assert "calm" not in [name for name in first.views if first.views[name]]
    changed = flow.tick("orders", [{"id": 4, "customer": "ann", "amount": 5}])
    assert changed.rows_out == 2  # the old total goes, the new one comes


def test_an_epoch_may_be_empty(flow: penstock.Flow) -> None:
    summary = flow.tick("orders", [])
    assert (summary.rows_in, summary.rows_out) == (0, 0)
    assert flow.tick({}).rows_in == 0


def test_a_snapshot_has_one_row_for_each_multiplicity(flow: penstock.Flow) -> None:
    flow.sql("CREATE TABLE bag (x INTEGER)")
    flow.register_view("twice", "SELECT x * 2 AS y FROM bag")
    flow.tick("bag", [{"x": 1, "_weight": 3}, {"x": 2}])
    assert sorted(flow.snapshot("twice")["y"].to_pylist()) == [2, 2, 2, 4]
    assert sorted(flow.snapshot("bag")["x"].to_pylist()) == [1, 1, 1, 2]
    assert flow.sql("SELECT count(*) AS n FROM twice").to_pylist() == [{"n": 4}]


def test_a_snapshot_does_not_change_afterwards(flow: penstock.Flow) -> None:
    flow.tick("orders", [{"id": 1, "customer": "ann", "amount": 1}])
    before = flow.snapshot("totals")
    flow.tick("orders", [{"id": 2, "customer": "ann", "amount": 1}])
    assert before.to_pylist() == [{"customer": "ann", "total": Decimal("1.00")}]


def test_names_are_found_in_any_case(flow: penstock.Flow) -> None:
    flow.tick("ORDERS", [{"ID": 1, "Customer": "ann", "amount": 1}])
    assert flow.snapshot("Totals").num_rows == 1
    assert flow.sql("SELECT TOTAL FROM Totals").num_rows == 1


def test_a_select_sees_tables_views_and_functions_of_duckdb(flow: penstock.Flow) -> None:
    flow.tick("orders", [{"id": i, "customer": f"c{i % 3}", "amount": i} for i in range(9)])
    answer = flow.sql(
        "WITH ranked AS (SELECT *, row_number() OVER (ORDER BY total DESC) AS place FROM totals) "
        "SELECT r.place, o.id FROM ranked r JOIN orders o USING (customer) WHERE r.place = 1 ORDER BY o.id"
    )
    assert answer.to_pylist() == [{"place": 1, "id": 2}, {"place": 1, "id": 5}, {"place": 1, "id": 8}]
    assert flow.sql("SELECT 1 + 1 AS two").to_pylist() == [{"two": 2}]
    assert flow.sql("VALUES (1), (2)").num_rows == 2


def test_explain_says_the_law_or_the_reason(flow: penstock.Flow) -> None:
    flow.register_view(
        "extremes", "SELECT customer, max(amount) AS m FROM orders WHERE amount > 0 GROUP BY customer"
    )
    flow.register_view(
        "pairs", "SELECT a.id, b.id AS other FROM orders a JOIN orders b ON a.customer = b.customer"
    )
    flow.tick("orders", [{"id": i, "customer": f"c{i % 3}", "amount": i} for i in range(9)])
    totals, extremes, pairs = flow.explain("totals"), flow.explain("extremes"), flow.explain("pairs")
    assert "accumulator_sum" in totals
    assert "v1" in totals
    assert "extremum_requires_rmw" in extremes
    assert "stateless" in extremes
    assert "join" in pairs.lower()
    assert "customer" in pairs
    for text in (totals, extremes, pairs):
        assert ("rows" in text and "bytes" in text) or " B" in text or "KB" in text
    by_sql = flow.sql("EXPLAIN INCREMENTAL totals")
    assert "accumulator_sum" in "\n".join(str(v) for row in by_sql.to_pylist() for v in row.values())
    assert flow.sql("EXPLAIN SELECT * FROM totals").num_rows > 0


def test_a_closed_flow_refuses_everything() -> None:
    flow = penstock.Flow()
    flow.sql("CREATE TABLE t (x INTEGER)")
    flow.close()
    flow.close()
    for call in (
        lambda: flow.sql("SELECT 1"),
        lambda: flow.tick("t", []),
        lambda: flow.snapshot("t"),
        lambda: flow.watch("t"),
        lambda: flow.explain("t"),
        lambda: flow.register_view("v", "SELECT 1 AS one"),
        lambda: flow.register_source("s", pa.schema([("x", pa.int32())])),
    ):
        with pytest.raises(errors.FlowClosed):
            call()


def test_a_flow_is_a_context_manager() -> None:
    with penstock.Flow() as flow:
        flow.sql("CREATE TABLE t (x INTEGER)")
    with pytest.raises(errors.FlowClosed):
        flow.sql("SELECT 1")


def test_two_flows_know_nothing_of_each_other() -> None:
    with penstock.Flow() as one, penstock.Flow() as two:
        one.sql("CREATE TABLE t (x INTEGER)")
        two.sql("CREATE TABLE t (y TEXT)")
        one.sql("INSERT INTO t VALUES (1)")
        assert two.snapshot("t").column_names == ["y"]
        assert two.snapshot("t").num_rows == 0


def test_a_view_over_rows_that_are_there_starts_right(flow: penstock.Flow) -> None:
    flow.tick("orders", [{"id": i, "customer": f"c{i % 7}", "amount": i} for i in range(1_000)])
    flow.register_view("late", "SELECT customer, count(*) AS n, min(id) AS lo FROM orders GROUP BY customer")
    assert sorted(rows_of(flow.snapshot("late")))[:2] == [("c0", 143, 0), ("c1", 143, 1)]
