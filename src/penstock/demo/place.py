"""Where the demo's flow lives: with Spark its load is a Spark job over files, and what trickles in runs inline."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from penstock import Flow, Spark
from penstock.base.errors import PenstockError
from penstock.run.spark.ready import make_ready

SETTINGS = {"spark.ui.enabled": "false", "spark.driver.memory": "1g"}


def why_no_spark(wanted: bool) -> str | None:
    """Why the load does not run on Spark, in a few words; None if it does."""
    if not wanted:
        return "as asked for"
    try:
        make_ready()
    except PenstockError as missing:
        return missing.message
    return None


@contextmanager
def open_flow(on_spark: bool) -> Iterator[tuple[Flow, Path | None]]:
    """A flow in memory, or one in a folder that Spark's tasks can read too, gone with the demo."""
    if not on_spark:
        with Flow() as flow:
            yield flow, None
        return
    with tempfile.TemporaryDirectory(prefix="penstock-demo-") as name:
        folder = Path(name)
        with Flow(folder / "flow", engine=Spark(config=SETTINGS), commit="visible") as flow:
            yield flow, folder


def load(flow: Flow, tables: Mapping[str, pa.Table], folder: Path | None) -> tuple[float, str]:
    """Fill the tables as one epoch: seconds, and what ran it."""
    if folder is None:
        began = time.perf_counter()
        flow.tick(tables)
        return time.perf_counter() - began, "inline"
    frames: dict[str, Any] = {}
    for name, table in tables.items():
        path = str(folder / f"{name}.parquet")
        pq.write_table(table, path)
        frames[name] = flow.spark.read.parquet(path)
    began = time.perf_counter()
    summary = flow.tick(frames)
    seconds = time.perf_counter() - began
    flow.use_engine("inline")
    return seconds, f"{summary.spark_jobs} Spark job of {summary.spark_stages} stages"
