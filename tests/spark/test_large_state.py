"""What only large state meets: runs put together by Spark, hot keys dealt out, partitions that are split."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import penstock
from penstock.commit import flusher
from penstock.run import hot_keys
from penstock.run.spark import engine

pytestmark = pytest.mark.slow

ROWS = 20_000
EPOCHS = 5


def _orders(spark: Any, number: int) -> Any:
    """Half of them are of one customer."""
    return spark.range(number * ROWS, (number + 1) * ROWS).selectExpr(
        "id",
        "CASE WHEN id % 2 = 0 THEN 7 ELSE id % 1000 END AS customer",
        "CAST(id % 100 AS DECIMAL(12,2)) AS amount",
    )


def test_runs_are_put_together_on_spark_and_hot_keys_are_dealt_out(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(flusher, "MERGE_HERE_ROWS_MAX", ROWS)
    monkeypatch.setattr(hot_keys, "HOT_KEY_ROWS_MIN", 1_000)
    merged: list[int] = []
    plain = engine.SparkEngine.merge

    def counted(self: Any, layout: Any, batches: Any) -> Any:
        merged.append(len(batches))
        return plain(self, layout, batches)

    monkeypatch.setattr(engine.SparkEngine, "merge", counted)
    with penstock.Flow(tmp_path / "flow", engine=penstock.Spark(spark, partitions=2)) as flow:
        flow.sql(
            "CREATE TABLE orders (id BIGINT PRIMARY KEY, customer BIGINT, amount DECIMAL(12,2));"
            "CREATE TABLE customers (id BIGINT, region TEXT)"
        )
        flow.sql(
            "CREATE MATERIALIZED VIEW totals AS SELECT customer, sum(amount) s, count(*) n FROM orders GROUP BY 1"
        )
        flow.sql(
            "CREATE MATERIALIZED VIEW regions AS "
            "SELECT orders.id, region FROM orders JOIN customers ON orders.customer = customers.id"
        )
        flow.tick("customers", [{"id": i % 50, "region": f"r{i}"} for i in range(60)])
        dealt = 0
        for number in range(EPOCHS):
            summary = flow.tick("orders", _orders(spark, number))
            assert (summary.rows_in, summary.spark_jobs) == (ROWS, 1)
            dealt += sum(sum(task.hot.values()) for task in summary.spark_tasks)
        assert dealt >= EPOCHS * ROWS // 2
        flow._store._join_background()  # type: ignore[union-attr]
        flow.tick("orders", [{"id": 1, "customer": 1, "amount": 1, "_weight": -1}])
        assert merged
        assert min(merged) > 1
        # Merges happen beside epochs: they leave alone what is noted of those.
        on_spark, keyed = flow._engines.on_spark, flow._core.table("orders").keyed
        assert keyed is not None
        noted = on_spark.figures, on_spark._ran
        plain(on_spark, keyed.layout, keyed.batches)
        assert (on_spark.figures, on_spark._ran) == noted
        assert all(check.equal for check in flow.verify())
    with penstock.Flow(tmp_path / "flow") as flow:
        assert all(check.equal for check in flow.verify())
        assert flow.sql("SELECT count(*) AS n FROM orders").to_pylist() == [{"n": EPOCHS * ROWS - 1}]
        assert flow.sql("SELECT n FROM totals WHERE customer = 7").to_pylist()[0]["n"] > EPOCHS * ROWS // 2


@pytest.fixture
def splitting(spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[penstock.Flow]:
    """A flow of three partitions, which it splits when they have some thousand rows."""
    monkeypatch.setattr(engine, "SPLIT_ROWS_MIN", 1_000)
    with penstock.Flow(tmp_path / "flow", engine=penstock.Spark(spark, partitions=3)) as flow:
        flow.sql("CREATE TABLE t (k BIGINT, v BIGINT)")
        yield flow


def test_a_partition_that_has_too_much_is_split(spark: Any, splitting: penstock.Flow) -> None:
    flow = splitting
    flow.sql("CREATE MATERIALIZED VIEW m AS SELECT k, max(v) m FROM t GROUP BY k")
    partitions = []
    for number in range(3):
        # MAX wants the rows themselves, so all of these go to one partition.
        rows = spark.range(number * 5_000, number * 5_000 + 5_000).selectExpr("7 AS k", "id AS v")
        tasks = flow.tick("t", rows).spark_tasks
        partitions.append(1 + max(task.partition for task in tasks if task.placed))
    assert partitions[0] == 3
    assert partitions[-1] > 3
    assert flow.sql("SELECT * FROM m").to_pylist() == [{"k": 7, "m": 14_999}]
    assert all(check.equal for check in flow.verify())


def test_what_the_driver_does_itself_splits_no_partition(splitting: penstock.Flow) -> None:
    """It adds the rows up before it sends them: partitions get ten sums."""
    splitting.sql("CREATE MATERIALIZED VIEW s AS SELECT k, sum(v) s FROM t GROUP BY k")
    rows = pa.table({"k": np.arange(6_000) % 10, "v": np.arange(6_000)})
    for _ in range(2):
        tasks = splitting.tick("t", rows).spark_tasks
        assert {task.partition for task in tasks if task.placed} == {0, 1, 2}
        assert [task.rows for task in tasks if not task.placed] == [6_000]
