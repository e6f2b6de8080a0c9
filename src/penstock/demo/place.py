"""Where the demo's flow lives: with Spark it is on files, and `engine="auto"` decides what runs where.

The load is read from DataFrames, so it is a Spark job; what trickles in is a few rows at a time, and runs inline.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
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
def open_flow(on_spark: bool, say: Callable[[str], None]) -> Iterator[tuple[Flow, Path | None]]:
    """A flow in memory, or one in a folder that Spark's tasks can read too, gone with the demo."""
    if not on_spark:
        with Flow() as flow:
            yield flow, None
        return
    with (
        tempfile.TemporaryDirectory(prefix="penstock-demo-") as name,
        closing(Spark(config=SETTINGS)) as spark,
    ):
        folder = Path(name)
        say("Starting Spark for the load; what comes after it needs none ...")
        spark.session()  # the flow takes the session that is there
        with Flow(folder / "flow", engine="auto", commit="visible") as flow:
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
    return seconds, f"{summary.spark_jobs} Spark job of {summary.spark_stages} stages"
