"""`penstock pipelines run`: the command, on a file as its users write it."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Any

import pytest

import penstock
from penstock import pipelines
from penstock.cli.main import main
from penstock.cli.pipelines import _await
from penstock.run.spark.streams import Streams

PIPELINE = """
from pyspark.sql import SparkSession
from penstock import pipelines as dp

spark = SparkSession.active()


@dp.materialized_view
def total():
    return spark.table("orders").groupBy().sum("amount")
"""


@pytest.mark.slow
def test_a_file_becomes_views_that_stay_fresh(
    spark: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    place = str(tmp_path / "flow")
    with penstock.Flow(place, engine="inline") as flow:
        flow.sql("CREATE TABLE orders (id INT, amount INT); INSERT INTO orders VALUES (1, 2), (2, 3)")
    good, bad = tmp_path / "good.py", tmp_path / "bad.py"
    good.write_text(PIPELINE)
    bad.write_text("x = 1\ny = x / 0\n")
    assert main(["pipelines", "run", str(good), place, "--yes"]) == 0
    assert "total: materialized view" in capsys.readouterr().out
    assert main(["pipelines", "run", str(good), place, "--yes"]) == 0  # after a crash, say
    assert "total: materialized view, as before" in capsys.readouterr().out
    with penstock.Flow(place, engine="inline") as flow:
        flow.sql("INSERT INTO orders VALUES (3, 5)")
        assert flow.sql("SELECT * FROM total").to_pylist() == [{"sum(amount)": 10}]
    assert main(["pipelines", "run", str(bad), place, "--yes"]) != 0
    assert "bad.py, line 2: ZeroDivisionError" in capsys.readouterr().err


@pytest.mark.slow
def test_the_checkpoint_is_handed_on(spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    given: list[Any] = []

    def run(flow: penstock.Flow, source: str, *, checkpoint: str | None) -> pipelines.Made:
        given.append(checkpoint)
        return pipelines.Made({})

    monkeypatch.setattr(pipelines, "run", run)
    for more in ([], ["--checkpoint", "s3a://bucket/streams"]):
        assert main(["pipelines", "run", "pipeline.py", str(tmp_path / "flow"), "--yes", *more]) == 0
    assert given == [None, "s3a://bucket/streams"]


class Query:
    """A streaming query, as far as waiting for it goes."""

    def __init__(self, failure: Exception | None = None) -> None:
        self.failure = failure
        self.isActive = failure is None

    def exception(self) -> Exception | None:
        return self.failure

    def stop(self) -> None:
        self.isActive = False

    def awaitTermination(self, timeout: float | None = None) -> None:
        assert not self.isActive, "it would wait for ever"
        if self.failure is not None:
            raise self.failure


def streams(**queries: Any) -> Streams:
    made = Streams()
    made.queries.update(queries)
    return made


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interruption_ends_the_streams(number: int) -> None:
    class Interrupted(Query):
        def exception(self) -> None:  # asked for while it is waited for
            os.kill(os.getpid(), number)

    before = signal.getsignal(number)
    running = streams(a=Query(), b=Interrupted())
    with pytest.raises(KeyboardInterrupt):
        _await(running)
    assert not running.is_active
    assert signal.getsignal(number) == before


def test_a_stream_that_fails_is_told_of_while_others_run() -> None:
    running = streams(a=Query(), b=Query(ValueError("no such topic")))
    with pytest.raises(penstock.SparkFailed, match='the stream of "b" failed: no such topic'):
        _await(running)
