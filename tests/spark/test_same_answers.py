"""The same answers on Spark as inline: SQL files, random queries and TPC-H, every relation at every epoch."""

from __future__ import annotations

from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from beside import FEW, few
from spark.beside_spark import BesideSpark
from spark.tasks_with import tasks_with
from tests.random.scenario import Outcome, run_case
from tests.slt.driver import Driver, run_file
from tests.slt.test_slt import FILES
from tpch import beside_tpch, data

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.slow

SEEDS = 2


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_sql_files(path: Path, spark: SparkSession, tmp_path: Path) -> None:
    assert not run_file(path, Driver(BesideSpark(tmp_path, spark, path.stem), "as written"))


@pytest.mark.parametrize("limits", ["plain limits", "small limits"])
@pytest.mark.parametrize("seed", range(SEEDS))
def test_random_queries(
    seed: int, limits: str, spark: SparkSession, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    """With small limits the hash collides as well: files, cut packets and hot keys for a few rows."""
    small = limits == "small limits"
    if small:
        request.getfixturevalue("colliding_hash")
    with few() if small else nullcontext(), tasks_with(FEW if small else None):
        run_case(4_000_000 + seed, Outcome(), flow=BesideSpark(tmp_path, spark, seed))


def test_tpch(spark: SparkSession, tmp_path: Path) -> None:
    flow = BesideSpark(tmp_path, spark, "tpch", inline_every=6)
    beside_tpch.run(flow, data.generate(0.01, tmp_path), epochs=3, seed=4)
    flow.close()
