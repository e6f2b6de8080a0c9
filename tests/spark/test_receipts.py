"""What tasks say of the files that they used, against what storage was asked."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pytest

import penstock
from store.s3_server import S3Server

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ROWS = 20_000


@pytest.fixture(scope="module")
def s3() -> Iterator[S3Server]:
    server = S3Server()
    server.make_bucket("receipts")
    yield server
    server.close()


def rows(first: int, count: int) -> pa.Table:
    ids = np.arange(first, first + count)
    return pa.table({"id": ids, "customer": ids % 5_000, "amount": ids % 100})


def epochs(flow: penstock.Flow) -> tuple[penstock.TickSummary, ...]:
    """A load that tasks write to files, and two small epochs that look into them."""
    flow.sql("CREATE TABLE orders (id BIGINT, customer BIGINT, amount BIGINT)")
    flow.sql("CREATE MATERIALIZED VIEW v AS SELECT customer, sum(amount) AS s FROM orders GROUP BY customer")
    load = flow.tick("orders", rows(0, ROWS))
    first = flow.tick("orders", rows(ROWS, 10))
    return load, first, flow.tick("orders", rows(ROWS + 10, 10))


def test_files_of_a_folder_are_counted_and_ask_nothing_of_remote_storage(
    spark: SparkSession, tmp_path: Path
) -> None:
    with penstock.Flow(tmp_path / "flow", engine=penstock.Spark(spark, partitions=1)) as flow:
        load, first, second = epochs(flow)
    written = sum(task.files_written for task in load.spark_tasks)
    names = list((tmp_path / "flow").rglob("*.arrow"))
    assert written > 0
    assert sum(task.bytes_written for task in load.spark_tasks) <= sum(name.stat().st_size for name in names)
    assert sum(task.bytes_written for task in load.spark_tasks) > ROWS * 8
    assert sum(task.files_read for task in first.spark_tasks) > 0
    assert sum(task.files_written for task in first.spark_tasks) == 0  # its rows came with the receipts
    assert sum(t.requests + t.bytes_fetched for s in (load, first, second) for t in s.spark_tasks) == 0


def test_a_file_is_one_request_to_write_and_one_to_read(
    spark: SparkSession, s3: S3Server, tmp_path: Path
) -> None:
    options = dict(s3.location("receipts").options)
    engine = penstock.Spark(spark, partitions=2)
    with penstock.Flow(
        "s3://receipts/flow", storage_options=options, cache_dir=tmp_path / "cache", engine=engine
    ) as flow:
        for summary in epochs(flow):
            tasks = summary.spark_tasks
            assert sum(t.requests for t in tasks) == sum(t.files_read + t.files_written for t in tasks)
            assert (sum(t.bytes_fetched for t in tasks) > 0) == any(t.files_read for t in tasks)
