"""Spark DataFrames as deltas: checked in tasks, with the changes and the refusals of the same rows inline."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

import penstock
from beside import compare
from tests.partitions.test_frames_partitions import REFUSED, TABLES, VIEWS, one, t

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
    for what in ON_SPARK:
        epoch = pair.flow.epoch
        table, rows = REFUSED[what]
        pair.tick({table: rows})
        assert pair.flow.epoch == epoch, what
    pair.flow.use_engine("inline")
    pair.tick({"t": t(one(20))})  # its rows come to this process
    pair.tick({"t": pa.table({"id": [20, 21], "v": [3, 4]})}, mode="upsert")
