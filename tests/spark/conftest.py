"""One Spark session for all tests of a worker, in this process: two cores, no web page, quiet."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from penstock.base.errors import SparkUnavailable
from penstock.run.spark.ready import make_ready

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

HERE = Path(__file__).parent
collect_ignore = ["pipeline"]  # its files are declarations: they are run by the tests, not imported

# PySpark leaves the sockets that rows come through to the garbage collector.
QUIET = (r"ignore:unclosed <socket\.socket:ResourceWarning",)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if HERE in item.path.parents:
            for warning in QUIET:
                item.add_marker(pytest.mark.filterwarnings(warning))


@pytest.fixture(scope="session")
def spark_ready() -> None:
    """Skips what needs Spark where there is no Java, with the sentence that says so."""
    try:
        make_ready()
    except SparkUnavailable as missing:
        pytest.skip(missing.message)


@pytest.fixture(scope="session")
def spark(spark_ready: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """The session. Its settings are those of Spark, but for what makes small jobs on one machine quick."""
    from pyspark.sql import SparkSession

    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")  # tests need no network
    settings = {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.log.level": "ERROR",
        "spark.driver.memory": "1g",
        "spark.sql.shuffle.partitions": "2",
        "spark.default.parallelism": "2",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.warehouse.dir": str(tmp_path_factory.mktemp("warehouse")),
    }
    builder = SparkSession.builder.master("local[2]").appName("penstock tests")
    for name, value in settings.items():
        builder = builder.config(name, value)
    session = builder.getOrCreate()
    yield session
    session.stop()
