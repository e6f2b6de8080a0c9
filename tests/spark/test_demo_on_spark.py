"""The demo with its load as a Spark job."""

from __future__ import annotations

from typing import Any

import pytest

from penstock.demo.lines import Lines
from penstock.demo.run import run_demo


@pytest.mark.slow
def test_the_load_is_a_spark_job_and_the_views_are_right(
    spark: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    run = run_demo(0.5, 2, Lines())
    assert run.no_spark is None
    assert run.changes > 0
    assert run.views_wrong == []
    assert "by 1 Spark job of" in capsys.readouterr().out
    assert run.changes_on_spark == 0  # auto has moved what trickles in to this process by itself
