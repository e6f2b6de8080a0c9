"""Connectors: asked for by name, missed in one clear sentence. With PENSTOCK_CONNECTORS=1 also the real ones."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import penstock
from penstock.base.errors import BindError, InvalidOption, SinkFailed
from penstock.cli.main import main
from penstock.run.spark.connectors import CONNECTORS, EXTENSIONS, PACKAGES, with_connectors

STREAM = """
from pyspark.sql import SparkSession
from penstock import pipelines as dp

spark = SparkSession.active()


@dp.table
def raw():
    return spark.readStream.format("kafka").option("subscribe", "t").load()
"""


def test_settings_of_a_user_stay_beside_those_of_a_connector() -> None:
    mine = {EXTENSIONS: "my.Extension", "spark.sql.catalog.spark_catalog": "my.Catalog"}
    found = with_connectors(["delta", "iceberg"], mine)
    assert found[PACKAGES].split(",") == [CONNECTORS[c].package for c in ("delta", "iceberg")]
    assert found[EXTENSIONS].startswith("my.Extension,io.delta.")
    assert len(found[EXTENSIONS].split(",")) == 3
    assert found["spark.sql.catalog.spark_catalog"] == "my.Catalog"


def test_an_unknown_connector_is_refused() -> None:
    with pytest.raises(InvalidOption, match="no connector") as refused:
        penstock.Spark(connectors=["kafak"])
    assert "kafka, delta, iceberg" in str(refused.value.hint)


def test_a_session_that_is_given_or_runs_takes_no_libraries(spark: Any) -> None:
    with pytest.raises(InvalidOption, match="one was given"):
        penstock.Spark(spark, connectors=["kafka"])
    with pytest.raises(InvalidOption, match="runs already, without org"):
        penstock.Spark(connectors="kafka").session()


def test_a_pipeline_without_its_connector_says_which(
    spark: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "stream.py"
    file.write_text(STREAM)
    place = str(tmp_path / "flow")
    with penstock.Flow(place) as flow, pytest.raises(BindError, match="kafka") as missing:
        penstock.pipelines.run(flow, file)
    assert 'penstock.Spark(connectors=["kafka"])' in str(missing.value.hint)
    assert main(["pipelines", "run", str(file), place, "--yes"]) != 0
    told = capsys.readouterr().err
    assert "--connector kafka" in told
    assert "Traceback" not in told


def test_a_sink_without_its_connector_says_which(spark: Any, tmp_path: Path) -> None:
    with penstock.Flow(tmp_path / "flow", engine=penstock.Spark(spark)) as flow:
        flow.sql("CREATE TABLE t (a BIGINT)")
        flow.sink("t", lambda rows, epoch: rows.write.format("delta").save(str(tmp_path / "out")))
        with pytest.raises(SinkFailed) as failed:
            flow.tick("t", [{"a": 1}])
        assert 'connectors=["delta"]' in str(failed.value.hint)


@pytest.mark.slow
@pytest.mark.skipif(
    not os.environ.get("PENSTOCK_CONNECTORS"),
    reason="it fetches libraries from Maven Central: PENSTOCK_CONNECTORS=1 runs it",
)
@pytest.mark.parametrize("form", ["delta", "iceberg"])
def test_the_change_feed_of_a_real_lake_table(form: str, tmp_path: Path, spark_ready: None) -> None:
    program = str(Path(__file__).with_name("lake_feed.py"))
    found = subprocess.run(
        [sys.executable, program, form, str(tmp_path)], capture_output=True, text=True, check=False
    )
    assert found.returncode == 0, found.stderr[-4000:]
    assert found.stdout.splitlines()[-1] == "[{'customer': 'ann', 'sum': 18}]"
