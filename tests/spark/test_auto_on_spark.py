"""engine="auto" on a real Spark: the load there, what trickles in here, the same views, each change of place told."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import penstock
from penstock.run import auto

VIEW = "SELECT k, sum(v) AS s, count(*) AS n, max(v) AS m FROM t GROUP BY k"


@pytest.mark.slow
def test_large_epochs_and_backfills_go_to_spark(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # As if a row took long here: what is decided is by the figures, whatever machine the test runs on.
    monkeypatch.setattr(auto, "INLINE_ROW_S", 1e-2)
    monkeypatch.setattr(auto, "SPARK_OVERHEAD", 1e-6)
    rows = pa.table(
        {"id": range(20_000), "k": [i % 50 for i in range(20_000)], "v": [i % 97 for i in range(20_000)]}
    )
    with penstock.Flow() as inline, penstock.Flow(tmp_path / "flow") as flow:
        assert flow.engine == "auto"  # since this process has a session
        for each in (inline, flow):
            each.sql(
                f"CREATE TABLE t (id BIGINT PRIMARY KEY, k INT, v INT); CREATE MATERIALIZED VIEW a AS {VIEW}"
            )
        jobs = []
        for delta in (rows, [{"id": -1, "k": 1, "v": 500}]):
            inline.tick("t", delta)
            jobs.append(flow.tick("t", delta).spark_jobs)
        assert jobs == [1, 0]
        for each in (inline, flow):
            each.sql(
                f"CREATE MATERIALIZED VIEW b AS {VIEW.replace('k, sum', 'k % 7 AS k, sum').replace('BY k', 'BY 1')}"
            )
        for view in ("a", "b"):
            found, expected = flow.snapshot(view).to_pylist(), inline.snapshot(view).to_pylist()
            assert Counter(map(repr, found)) == Counter(map(repr, expected))
        told = flow.sql("SELECT detail FROM penstock.audit_log WHERE event = 'engine'").to_pylist()
        moves = [json.loads(entry["detail"]) for entry in told]
        places = [(move["was"], move["to"]) for move in moves]
        assert places == [("inline", "auto"), ("inline", "spark"), ("spark", "inline"), ("inline", "spark")]
        assert moves[1]["figures"]["rows"] == 20_000
        assert moves[1]["figures"]["inline_seconds"] > moves[1]["figures"]["spark_seconds"]
        assert all(check.equal for check in flow.verify())


def test_a_data_frame_is_told_as_what_it_is_and_cores_are_the_sessions(spark: Any, tmp_path: Path) -> None:
    with penstock.Flow(tmp_path / "flow", engine="auto") as flow:
        flow.sql("CREATE TABLE t (id BIGINT, k BIGINT)")
        assert flow._engines._spark is not None
        assert flow._engines._spark.cores() == spark.sparkContext.defaultParallelism
        assert flow.tick("t", spark.range(10).selectExpr("id", "id % 2 AS k")).spark_jobs == 1
        told = flow.sql("SELECT detail FROM penstock.audit_log WHERE event = 'engine'").to_pylist()
        assert json.loads(told[-1]["detail"]) == {
            "to": "spark", "was": "inline", "why": "tasks read a DataFrame",
        }  # fmt: skip
