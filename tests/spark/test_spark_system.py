"""Epochs on Spark in what a flow says of itself: penstock.epochs, the metrics, the audit log."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from penstock import Flow
from penstock.engine.metrics import metrics

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.mark.slow
def test_an_epoch_says_where_it_ran(spark: SparkSession, tmp_path: Path) -> None:
    with Flow(tmp_path / "f", engine="inline") as flow:
        flow.sql("CREATE TABLE t (id BIGINT PRIMARY KEY, v TEXT)")
        flow.tick("t", [{"id": 1, "v": "a"}])
        flow.use_engine("spark")
        flow.sql("CREATE MATERIALIZED VIEW n AS SELECT v, count(*) AS n FROM t GROUP BY v")
        flow.sql("INSERT INTO t VALUES (2, 'a')")
        flow.tick("t", [{"id": 3, "v": "b"}])
        flow.use_engine("inline")
        flow.sql("INSERT INTO t VALUES (4, 'a')")
        found = flow.sql("SELECT engine, rows_in, rows_out FROM penstock.epochs ORDER BY epoch").to_pylist()
        assert [row["engine"] for row in found] == ["inline", "spark", "spark", "inline"]
        assert [row["rows_in"] for row in found] == [1, 1, 1, 1]
        assert 'penstock_epochs_total{engine="spark"} 2' in metrics(flow)
        switches = flow.sql(
            "SELECT detail ->> 'was' AS was, detail ->> 'to' AS to_ FROM penstock.audit_log WHERE event = 'engine' "
            "ORDER BY number"
        ).to_pylist()
        assert switches == [{"was": "inline", "to_": "spark"}, {"was": "spark", "to_": "inline"}]
