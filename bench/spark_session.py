"""The Spark that we and our peer run on in turns: one session, on all cores of this machine."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq

import penstock

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

CORES = os.cpu_count() or 1
PARQUET_FILES = 2 * CORES  # a table's, so that a plain Spark job has all cores to read it

# Settings that make a peer on one machine quick: by default it would cut every shuffle into 200 parts.
CONFIG = {
    "spark.driver.memory": "4g",
    "spark.driver.host": "127.0.0.1",
    "spark.ui.enabled": "false",
    "spark.sql.shuffle.partitions": str(CORES),
    "spark.default.parallelism": str(CORES),
}


@contextmanager
def spark_engine() -> Iterator[penstock.Spark]:
    engine = penstock.Spark(master=f"local[{CORES}]", config=CONFIG)
    engine.session()
    yield engine
    engine.close()


def write_parquet(table: pa.Table, folder: Path) -> Path:
    """A table as Parquet, compressed as Spark would (snappy)."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    size = -(-len(table) // PARQUET_FILES)
    for i in range(PARQUET_FILES):
        pq.write_table(table.slice(i * size, size), folder / f"{i}.parquet", compression="snappy")
    return folder


def read_parquet(session: SparkSession, folder: Path, name: str) -> DataFrame:
    """The table as a view of Spark's, read anew by every query."""
    frame = session.read.parquet(str(folder.absolute()))
    frame.createOrReplaceTempView(name)
    return frame


def work_out(session: SparkSession, query: str) -> None:
    """Have Spark compute all rows of a query, and throw them away."""
    session.sql(query).write.format("noop").mode("overwrite").save()
