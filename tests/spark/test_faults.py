"""Faults on a cluster: tasks, workers and executors that fail or die in each wave, copies that both finish."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from spark.cluster import Cluster

pytestmark = [
    pytest.mark.slow,
    pytest.mark.long,
    pytest.mark.skipif(sys.platform != "linux", reason="finds an executor's process in /proc"),
]


@pytest.fixture(scope="module")
def cluster(spark_ready: None) -> Iterator[Cluster]:
    cluster = Cluster(speculation=False)
    yield cluster
    cluster.close()


@pytest.mark.parametrize("kind", ["fails once", "fails three times", "the worker dies", "the executor dies"])
def test_an_epoch_survives(cluster: Cluster, tmp_path: Path, kind: str) -> None:
    """In each wave, after its files were written: nothing is lost, nothing counts twice, and no file is left that
    nothing names."""
    assert cluster.run("survives", tmp_path, kind=kind, waves=[1, 2, 3]) == ""


@pytest.mark.parametrize("kind", ["fails once", "the worker dies", "the executor dies"])
def test_an_epoch_of_a_data_frame_survives(cluster: Cluster, tmp_path: Path, kind: str) -> None:
    """Those that read it write the table's files: the same holds for them."""
    assert cluster.run("survives_with_frames", tmp_path, kind=kind) == ""


def test_an_epoch_that_fails_is_not_applied(cluster: Cluster, tmp_path: Path) -> None:
    assert cluster.run("is_refused", tmp_path) == ""


@pytest.mark.parametrize("harm", ["gone", "spoiled"])
def test_a_state_file_that_cannot_be_read(cluster: Cluster, tmp_path: Path, harm: str) -> None:
    assert cluster.run("cannot_read", tmp_path, harm=harm) == ""


def test_copies_that_both_finish(spark_ready: None, tmp_path: Path) -> None:
    """Spark takes one of two attempts that have done the same work; the files of the other are never named."""
    cluster = Cluster(speculation=True)
    try:
        assert cluster.run("survives", tmp_path, kind="a copy finishes too", waves=[1, 2, 3]) == ""
        again = tmp_path / "again"
        again.mkdir()
        assert cluster.run("survives_with_frames", again, kind="a copy finishes too") == ""
    finally:
        cluster.close()
