"""Spark DataFrames as deltas: checked in tasks, with the changes and the refusals of the same rows inline."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

import penstock
from beside import compare
from tests.partitions.test_frames_partitions import (
    REFUSED,
    REFUSED_WHERE_READ,
    TABLES,
    VIEWS,
    added,
    one,
    t,
)

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.slow

# What Arrow has and Spark has not: columns of one name, weights that are NULL are tested without Spark.
ON_SPARK = ("a key twice", "another row under its key", "NULL", "CHECK", "text for a number", "unknown column",
            "more of a bag than there are", "a division by zero in a view")  # fmt: skip


class Pair:
    """A flow on Spark that gets DataFrames and one inline that gets the same rows."""

    def __init__(self, session: SparkSession, folder: Path) -> None:
        self.session = session
        self.flow = penstock.Flow(folder, engine=penstock.Spark(session, partitions=2), sync=False)
        self.twin = penstock.Flow(engine="inline")
        for flow, engine in ((self.flow, "inline"), (self.twin, "inline")):
            flow.use_engine(engine)
            for statement in TABLES:
                flow.sql(statement)
            for number, query in enumerate(VIEWS):
                flow.sql(f"CREATE MATERIALIZED VIEW v{number} AS {query}")
        self.flow.use_engine(penstock.Spark(session, partitions=2))

    def tick(self, changes: dict[str, pa.Table], **options: Any) -> None:
        frames = {name: self.session.createDataFrame(rows) for name, rows in changes.items()}
        said: list[object] = []
        for flow, given in ((self.twin, changes), (self.flow, frames)):
            try:
                flow.tick(given, **options)
                said.append(None)
            except penstock.PenstockError as error:
                said.append((type(error), error.message, error.hint))
        assert said[0] == said[1]
        compare(self.flow, self.twin)


@pytest.fixture
def pair(spark: SparkSession, tmp_path: Path) -> Iterator[Pair]:
    made = Pair(spark, tmp_path / "flow")
    yield made
    made.flow.close()
    with penstock.Flow(tmp_path / "flow", engine="inline") as opened:
        compare(opened, made.twin, "opened again")
        assert all(check.equal for check in opened.verify())
    made.twin.close()


def test_changes_and_refusals(pair: Pair) -> None:
    pair.tick({"t": t(one(1), one(2, "b"), one(3, "c", 5)), "bag": pa.table({"g": ["a", "a"], "v": [1, 1]})})
    pair.tick(
        {
            "t": t(one(2, "b", weight=-1), one(2, "z"), one(4)),
            "bag": pa.table({"g": ["a"], "v": [1], "_weight": [-1]}),
        }
    )
    pair.tick({"t": pa.table({"id": [2, 9], "v": pa.array([7, None], pa.int32())})}, mode="upsert")
    pair.tick({"log": added(("a", 1), ("b", 2), ("a", None)), "bag": added(("a", 7), ("c", 2))})
    for what in ("NULL", "CHECK", "text for a number", "unknown column", "a division by zero in a view"):
        epoch = pair.flow.epoch
        pair.tick({"log": REFUSED_WHERE_READ[what]})
        assert pair.flow.epoch == epoch, what
    for what in ON_SPARK:
        epoch = pair.flow.epoch
        table, rows = REFUSED[what]
        pair.tick({table: rows})
        assert pair.flow.epoch == epoch, what
    pair.flow.use_engine("inline")
    pair.tick({"t": t(one(20))})  # its rows come to this process
    pair.tick({"t": pa.table({"id": [20, 21], "v": [3, 4]})}, mode="upsert")


def test_rows_that_are_only_added_are_shuffled_once(spark: SparkSession, tmp_path: Path) -> None:
    """To be grouped. Those that might be removed, or have a key, have to meet the table's first; and what has come
    together may show which keys of a join are hot."""
    flow = penstock.Flow(tmp_path / "flow", engine=penstock.Spark(spark, partitions=2))
    with flow:
        flow.sql("CREATE TABLE log (g TEXT, v INTEGER)")
        flow.sql("CREATE TABLE joined (g TEXT, v INTEGER)")
        flow.sql("CREATE TABLE keyed (g TEXT PRIMARY KEY, v INTEGER)")
        for name in ("log", "keyed"):
            flow.sql(
                f"CREATE MATERIALIZED VIEW by_v_of_{name} AS SELECT v, count(*) n FROM {name} GROUP BY v"
            )
        rows = added(*((f"{i}", i % 3) for i in range(100)))
        weighted = rows.append_column("_weight", pa.array([1] * 100, pa.int64()))
        given = {
            "added": ("log", rows),
            "with weights": ("log", weighted),
            "with a key": ("keyed", rows),
        }
        done = {
            what: flow.tick(table, spark.createDataFrame(data).repartition(5))
            for what, (table, data) in given.items()
        }
        flow.sql(
            "CREATE MATERIALIZED VIEW sums AS SELECT g, joined.v + log.v AS s FROM joined JOIN log USING (g)"
        )
        done["to be joined"] = flow.tick("joined", spark.createDataFrame(rows).repartition(5))
        assert all(summary.rows_in == 100 for summary in done.values())
        assert all(summary.spark_jobs == 1 for summary in done.values())
        shuffles = {
            what: summary.spark_stages - 2 for what, summary in done.items()
        }  # one is the frame's own
        assert shuffles == {"added": 1, "with weights": 2, "with a key": 2, "to be joined": 2}


def test_a_data_frame_of_many_partitions_is_read_by_few_tasks(spark: SparkSession, tmp_path: Path) -> None:
    """Each of them leaves a file."""
    with penstock.Flow(tmp_path / "flow", engine=penstock.Spark(spark, partitions=2)) as flow:
        flow.sql("CREATE TABLE log (g TEXT, v INTEGER)")
        rows = added(*((f"{i}", i % 3) for i in range(100)))
        most = 4 * max(2, spark.sparkContext.defaultParallelism)
        summary = flow.tick("log", spark.createDataFrame(rows).repartition(most + 10))
        readers = [task for task in summary.spark_tasks if not task.placed and task.rows]
        assert 1 < len(readers) <= most
        assert sum(task.rows for task in readers) == 100


def test_what_spark_has_shuffled_is_read_by_few_tasks(spark: SparkSession, tmp_path: Path) -> None:
    """Adaptive execution, which is off for the job, would have put its many small partitions together."""
    from pyspark import TaskContext
    from pyspark.sql.functions import udf

    @udf("int")
    def task() -> int:
        context = TaskContext.get()
        assert context is not None
        return context.partitionId()

    with penstock.Flow(tmp_path / "flow", engine=penstock.Spark(spark, partitions=2)) as flow:
        flow.sql("CREATE TABLE keyed (g TEXT PRIMARY KEY, v INTEGER)")
        most = 4 * max(2, spark.sparkContext.defaultParallelism)
        rows = spark.range(200).selectExpr("string(id) AS g").repartition(most + 20)
        flow.tick("keyed", rows.withColumn("v", task()))
        tasks = flow.sql("SELECT count(DISTINCT v) AS n FROM keyed").to_pylist()[0]["n"]
        assert 1 < tasks <= most
