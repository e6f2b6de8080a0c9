"""Sessions: who starts one, who shares it and who ends it; what a stopped one, another master or no Java does."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import penstock
from penstock.base.errors import InvalidOption, SparkUnavailable
from penstock.commit import flusher
from penstock.run import auto
from penstock.run.spark import ready, session
from penstock.run.spark.engine import _one_job
from penstock.run.spark.java import Java

NO_JAVA = "Spark needs Java 17 or newer, and there is none here"
ADAPTIVE = "spark.sql.adaptive.enabled"


class Context:
    """A SparkContext that only runs, or does not."""

    def __init__(self, master: str) -> None:
        self._jsc: object | None = object()
        self.master = master
        self.defaultParallelism = 8
        self.listFiles: list[str] = []

    def addPyFile(self, path: str) -> None:
        name = Path(path).name
        assert not any(file.endswith(f"/{name}") for file in self.listFiles), "Spark refuses a second one"
        self.listFiles.append(f"spark://driver:1/files/{name}")

    def stop(self) -> None:
        self._jsc = None

    def getConf(self) -> dict[str, str]:
        return {}


class Conf(dict[str, str]):
    def set(self, name: str, value: str) -> None:
        self[name] = value


class FakeSession:
    """What penstock asks of a SparkSession when it shares, starts and ends one."""

    def __init__(self, master: str = "local[*]") -> None:
        self.sparkContext = Context(master)
        self.conf = Conf({ADAPTIVE: "true"})
        self._jsparkSession = self
        self.sessionUUID = lambda: str(id(self))

    def stop(self) -> None:
        self.sparkContext.stop()


class Process:
    """The one Spark that a process can have, as PySpark keeps it."""

    def __init__(self) -> None:
        self.sessions: list[FakeSession] = []
        self.settings: list[dict[str, str]] = []
        self.bare: Context | None = None  # a SparkContext without a session
        self.fails = False

    def active(self) -> Any:
        return self.sessions[-1] if self.sessions and self.sessions[-1].sparkContext._jsc else None

    def built(self, settings: dict[str, str]) -> Any:
        self.settings.append(settings)
        if self.fails:
            self.bare = Context(settings["spark.master"])
            raise RuntimeError("An error occurred while calling None.X.\n: Y: all masters are unresponsive\n")
        if self.active() is None:
            self.sessions.append(FakeSession(settings["spark.master"]))
            if self.bare is not None:
                self.sessions[-1].sparkContext = self.bare
        return self.active()


@pytest.fixture
def process(monkeypatch: pytest.MonkeyPatch) -> Process:
    made = Process()
    monkeypatch.setattr(session, "_active", made.active)
    monkeypatch.setattr(session, "_built", made.built)
    monkeypatch.setattr(session, "_context", lambda: made.bare)
    monkeypatch.setattr(session, "make_ready", lambda master: None)
    monkeypatch.setattr(session, "_STARTED", session._Started())
    return made


def test_the_last_who_uses_a_session_ends_it(process: Process) -> None:
    a, b = penstock.Spark(), penstock.Spark()
    c = penstock.Spark(a.session())
    shared = b.session()
    assert a.session() is shared
    a.close()
    assert b.session() is shared
    b.close()
    assert c.is_ready  # it was given the session, and has not used it yet
    c.close()
    assert process.active() is None


def test_penstock_is_sent_to_a_cluster_once(process: Process) -> None:
    given: Any = FakeSession("spark://far:7077")
    for engine in (penstock.Spark(given), penstock.Spark(given)):
        assert engine.session() is given
    assert len(given.sparkContext.listFiles) == 1
    here: Any = FakeSession("local[*]")
    penstock.Spark(here).session()
    assert here.sparkContext.listFiles == []


def test_flows_that_share_an_engine_close_it_together(process: Process, tmp_path: Path) -> None:
    engine = penstock.Spark()
    a, b = penstock.Flow(tmp_path / "a", engine=engine), penstock.Flow(tmp_path / "b", engine=engine)
    shared = a.spark
    a.use_engine("inline")
    a.use_engine(engine)  # the same flow again, and no other user
    a.close()
    assert b.spark is shared
    b.close()
    assert process.active() is None


def test_a_flow_that_changes_its_engine_keeps_the_session_that_it_goes_on_with(
    process: Process, tmp_path: Path
) -> None:
    with penstock.Flow(tmp_path / "a", engine="spark") as flow:
        shared = flow.spark
        flow.use_engine(penstock.Spark(shared, partitions=3))
        assert flow.spark is shared
        assert process.active() is shared
    assert process.active() is None


def test_a_session_of_the_user_is_never_ended(process: Process) -> None:
    theirs = process.built({"spark.master": "local[2]"})
    engine = penstock.Spark()
    assert engine.session() is theirs
    engine.close()
    assert process.active() is theirs


def test_a_context_of_the_user_that_had_no_session_is_never_ended(process: Process) -> None:
    process.bare = Context("local[2]")
    engine = penstock.Spark(master="local[2]")
    engine.session()
    engine.close()
    assert process.active() is not None
    process.sessions.clear()
    with pytest.raises(InvalidOption, match="runs already"):
        penstock.Spark(master="local[3]").session()


def test_half_of_a_spark_is_not_left_behind(process: Process) -> None:
    process.fails = True
    with pytest.raises(SparkUnavailable, match="did not start: Y: all masters are unresponsive"):
        penstock.Spark(master="spark://nowhere:7077").session()
    assert process.bare is not None
    assert process.bare._jsc is None


def test_who_forgets_to_close_keeps_no_session(process: Process) -> None:
    penstock.Spark().session()
    b = penstock.Spark()
    b.session()
    b.close()
    assert process.active() is None


def test_after_the_user_has_stopped_it_a_new_one_is_started(process: Process) -> None:
    a, b = penstock.Spark(), penstock.Spark()
    first = a.session()
    b.session()
    first.stop()
    assert not a.is_ready
    assert a.cores() is None
    second = a.session()
    assert second is not first
    b.close()  # it knew the first one only
    assert a.is_ready
    a.close()
    assert process.active() is None


def test_a_given_session_that_was_stopped_is_named(process: Process) -> None:
    theirs = process.built({"spark.master": "local[2]"})
    engine = penstock.Spark(theirs)
    assert engine.is_ready
    theirs.stop()
    assert not engine.is_ready
    with pytest.raises(SparkUnavailable, match="has been stopped") as refused:
        engine.session()
    assert engine.failure is refused.value


def test_another_master_is_refused_while_one_runs(process: Process) -> None:
    process.built({"spark.master": "local[2]"})
    for far in (
        penstock.Spark(master="spark://nowhere:7077"),
        penstock.Spark(config={"spark.master": "spark://nowhere:7077"}),
    ):
        with pytest.raises(InvalidOption, match=r"on local\[2\] and not on spark://nowhere:7077"):
            far.session()
    assert penstock.Spark(master="local[2]").session() is process.active()


def test_settings_for_a_session_that_runs_are_those_that_were_given(process: Process) -> None:
    process.built({"spark.master": "local[2]"})
    penstock.Spark(config={"spark.sql.shuffle.partitions": "3"}).session()
    assert process.settings[-1] == {"spark.sql.shuffle.partitions": "3"}


def test_a_start_in_the_background_says_why_it_failed(
    process: Process, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(master: str) -> None:
        raise SparkUnavailable(NO_JAVA)

    monkeypatch.setattr(session, "make_ready", fail)
    engine = penstock.Spark()
    engine.start_in_background()
    engine.close()  # waits for it
    assert engine.failure is not None
    assert engine.failure.message == NO_JAVA
    monkeypatch.setattr(session, "make_ready", lambda master: None)
    engine.session()
    assert engine.failure is None


def test_only_tasks_on_this_machine_are_told_to_use_this_python(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ready, "find_java", lambda: Java(Path("/java"), 17))
    monkeypatch.setattr(ready, "find_spec", lambda name: name)
    monkeypatch.setattr(os, "environ", found := dict[str, str]())
    ready.make_ready("spark://far:7077")
    assert "PYSPARK_PYTHON" not in found
    ready.make_ready("local[4]")
    assert found["PYSPARK_PYTHON"] == sys.executable


def test_adaptive_execution_is_off_until_the_last_epoch_is_done() -> None:
    shared: Any = FakeSession()
    first, second = _one_job(shared), _one_job(shared)
    first.__enter__()
    second.__enter__()
    first.__exit__(None, None, None)
    assert shared.conf[ADAPTIVE] == "false"  # the second is being planned
    second.__exit__(None, None, None)
    assert shared.conf[ADAPTIVE] == "true"


def test_adaptive_execution_comes_back_after_many_epochs_at_once() -> None:
    shared: Any = FakeSession()
    begin = threading.Barrier(4)
    seen: list[str] = []

    def epochs() -> None:
        begin.wait()
        for _ in range(200):
            with _one_job(shared):
                seen.append(shared.conf[ADAPTIVE])

    threads = [threading.Thread(target=epochs) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert set(seen) == {"false"}
    assert shared.conf[ADAPTIVE] == "true"


def test_auto_does_without_a_spark_that_cannot_be_started(
    process: Process, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(master: str) -> None:
        raise SparkUnavailable(NO_JAVA)

    monkeypatch.setattr(session, "make_ready", fail)
    monkeypatch.setattr(auto, "INLINE_ROW_S", 1.0)  # as if Spark were by far the quicker one
    monkeypatch.setattr(auto, "SPARK_OVERHEAD", 1e-6)
    monkeypatch.setattr(flusher, "MERGE_HERE_ROWS_MAX", 1)  # and all state too much for this process
    rows = pa.table({"id": range(20_000), "k": [i % 7 for i in range(20_000)]})
    with penstock.Flow(tmp_path / "flow", engine="auto") as flow:
        flow.sql("CREATE TABLE t (id BIGINT, k INT)")
        flow.tick("t", rows)
        flow.sql("CREATE MATERIALIZED VIEW v AS SELECT k, count(*) AS n FROM t GROUP BY k")
        for _ in range(6):
            flow.tick("t", rows)
            flow._store.flush_state()  # type: ignore[union-attr]
        assert flow.snapshot("v").num_rows == 7
        assert sum(row["n"] for row in flow.snapshot("v").to_pylist()) == 7 * 20_000
        told = flow.sql("SELECT detail FROM penstock.audit_log WHERE event = 'engine'").to_pylist()
        moves = [json.loads(entry["detail"]) for entry in told]
        assert [move["why"] for move in moves] == ["asked for", f"Spark cannot be used: {NO_JAVA}"]
        assert moves[1]["to"] == "inline"
        assert "figures" not in moves[1]
        with pytest.raises(SparkUnavailable):
            _ = flow.spark


ON_SPARK = """
import sys
import penstock
from penstock.base.errors import InvalidOption, SparkUnavailable

settings = {"spark.ui.enabled": "false", "spark.log.level": "ERROR"}
a = penstock.Flow(sys.argv[1] + "/a", engine=penstock.Spark(master="local[1]", config=settings))
b = penstock.Flow(sys.argv[1] + "/b", engine="spark")
for flow in (a, b):
    flow.sql("CREATE TABLE t (k INT); CREATE MATERIALIZED VIEW v AS SELECT k, count(*) AS n FROM t GROUP BY k")
    flow.tick("t", [{"k": 1}])
assert a.spark.sparkContext is b.spark.sparkContext
try:
    penstock.Spark(master="spark://nowhere:7077").session()
    raise SystemExit("another master was not refused")
except InvalidOption:
    a.close()
assert b.tick("t", [{"k": 1}]).spark_jobs == 1

first = b.spark
first.stop()
assert b.tick("t", [{"k": 1}]).spark_jobs == 1  # on a new one
assert b.spark is not first

b.use_engine(penstock.Spark(b.spark))
b.spark.stop()
try:
    b.tick("t", [{"k": 1}])
except SparkUnavailable as stopped:
    print(stopped.message)
b.use_engine("inline")
b.tick("t", [{"k": 1}])
print(b.snapshot("v").to_pylist())
last = penstock.Spark(master="local[1]", config=settings)
last.session()
last.close()
from pyspark import SparkContext
print(SparkContext._active_spark_context)
"""


@pytest.mark.slow
def test_flows_that_share_a_real_session(spark_ready: None, tmp_path: Path) -> None:
    found = subprocess.run(
        [sys.executable, "-c", ON_SPARK, str(tmp_path)],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "SPARK_LOCAL_IP": "127.0.0.1"},
    )
    assert found.returncode == 0, found.stderr[-4000:]
    assert found.stdout.splitlines() == [
        "the Spark session that the flow was given has been stopped",
        "[{'k': 1, 'n': 4}]",
        "None",
    ]


def test_a_flow_in_memory_is_inline_whatever_session_there_is() -> None:
    """It is what the default comes to when the process has a Spark session."""
    with penstock.Flow("memory://inline", engine="auto") as flow:
        flow.sql("CREATE TABLE t (id BIGINT)")
        assert flow.tick("t", [{"id": 1}]).spark_jobs == 0
    with pytest.raises(InvalidOption, match="memory://"):
        penstock.Flow("memory://inline", engine="spark")
