"""The audit log: what is in it, that storage keeps it, and that it stays small."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tomllib
from collections.abc import Callable
from pathlib import Path

import pytest

import penstock
from penstock import Flow
from penstock.base import limits
from penstock.engine import audit as audit_module
from penstock.engine.audit import AuditLog

VIEW = "CREATE MATERIALIZED VIEW totals AS SELECT v, count(*) AS n FROM t GROUP BY v"


def events(flow: Flow) -> list[tuple[str, object]]:
    return [(e.event, e.detail.get("name")) for e in flow._core.audit.entries()]


def test_definitions_are_in_it() -> None:
    with Flow(clock_us=lambda: 5_000_000) as flow:
        flow.sql("CREATE TABLE t (id BIGINT PRIMARY KEY, v TEXT)")
        flow.sql("CREATE TABLE IF NOT EXISTS t (id BIGINT)")
        flow.sql("INSERT INTO t VALUES (1, 'a')")
        flow.sql(VIEW)
        flow.sql("CREATE OR REPLACE VIEW plain AS SELECT 1 AS one")
        flow.sql("CREATE OR REPLACE VIEW plain AS SELECT 2 AS two")
        flow.sql("CREATE TABLE copy AS SELECT * FROM t")
        with pytest.raises(penstock.DuplicateObject):
            flow.sql("CREATE TABLE copy (id BIGINT)")
        flow.sql("DROP TABLE t CASCADE")
        assert events(flow) == [
            ("opened", None), ("create", "t"), ("create", "totals"), ("create", "plain"),
            ("replace", "plain"), ("create", "copy"), ("drop", "t"), ("drop", "totals"),
        ]  # fmt: skip
        made = flow._core.audit.entries()[2]
        assert (made.time_us, made.epoch, made.actor) == (5_000_000, 1, None)
        assert {k: made.detail[k] for k in ("kind", "rows")} == {"kind": "materialized view", "rows": 1}


def test_storage_keeps_it(tmp_path: Path) -> None:
    with Flow(tmp_path / "f") as flow:
        flow.sql("CREATE TABLE t (id BIGINT PRIMARY KEY, v TEXT)")
        flow.sql("INSERT INTO t VALUES (1, 'a')")
        flow.verify()
    with Flow(tmp_path / "f") as flow:
        assert events(flow) == [
            ("opened", None), ("create", "t"), ("verify", None), ("closed", None), ("opened", None),
        ]  # fmt: skip
        numbers = [e.number for e in flow._core.audit.entries()]
        assert numbers == sorted(set(numbers))
        with Flow(tmp_path / "f", read_only=True) as reader:
            assert events(reader)[:4] == events(flow)[:4]
            reader.verify()
            assert events(reader)[-1] == ("verify", None)


CRASH = """
import os, signal, sys
from penstock import Flow
flow = Flow(sys.argv[1])
flow.sql("CREATE TABLE t (id BIGINT PRIMARY KEY, v TEXT)")
flow.sql("INSERT INTO t VALUES (1, 'a')")
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_a_definition_is_there_with_its_entry_after_a_kill(tmp_path: Path) -> None:
    done = subprocess.run([sys.executable, "-c", CRASH, str(tmp_path / "f")], env=os.environ.copy())
    assert done.returncode == -signal.SIGKILL
    with Flow(tmp_path / "f") as flow:
        assert events(flow) == [("opened", None), ("create", "t"), ("recovered", None)]
        assert flow._core.audit.entries()[-1].detail["epochs_run_again"] == 1


def test_copies_begin_a_log_of_their_own(tmp_path: Path) -> None:
    with Flow(tmp_path / "f") as flow:
        flow.sql("CREATE TABLE t (id BIGINT PRIMARY KEY)")
        flow.checkpoint(tmp_path / "c")
        flow.branch(tmp_path / "b")
        assert [e for e, _ in events(flow)] == ["opened", "create", "checkpoint", "branch"]
        assert flow._core.audit.entries()[-1].detail["place"] == str(tmp_path / "b")
    Flow.restore(tmp_path / "c", tmp_path / "r")
    for place, event in (("b", "branched"), ("r", "restored")):
        with Flow(tmp_path / place) as copy:
            assert [e for e, _ in events(copy)] == [event, "opened"]


def test_fencing_and_failures_are_in_it(tmp_path: Path) -> None:
    first = Flow(tmp_path / "f")
    first.sql("CREATE TABLE t (id BIGINT PRIMARY KEY)")
    with Flow(tmp_path / "f") as second:
        with pytest.raises(penstock.Fenced):
            first.sql("INSERT INTO t VALUES (1)")
        assert events(first)[-1] == ("fenced", None)
        assert "fenced" not in [e for e, _ in events(second)]
        assert events(second)[-1] == ("recovered", None)
    first.close()
    with Flow() as flow:
        flow.sql("CREATE TABLE t (id BIGINT PRIMARY KEY)")
        flow._core._commit_tables = lambda _: (_ for _ in ()).throw(OSError("no more"))  # type: ignore[method-assign]
        with pytest.raises(OSError, match="no more"):
            flow.sql("INSERT INTO t VALUES (1)")
        stopped = flow._core.audit.entries()[-1]
        assert (stopped.event, stopped.detail) == ("stopped", {"error": "no more"})


def clock(times: list[int]) -> Callable[[], int]:
    return lambda: times.pop(0)


def test_it_is_bounded(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(audit_module, "AUDIT_ENTRIES_MAX", 3)
    with Flow(tmp_path / "f") as flow:
        for i in range(6):
            flow.sql(f"CREATE TABLE t{i} (id BIGINT PRIMARY KEY)")
        assert events(flow) == [("create", f"t{i}") for i in (3, 4, 5)]
    with Flow(tmp_path / "f", read_only=True) as reader:  # storage has no more than memory
        assert [e for e, _ in events(reader)] == ["create", "create", "closed"]
    month = limits.AUDIT_SECONDS_MAX * 1_000_000
    log = AuditLog(clock([1, 2, month + 2, month + 3]))
    for i in range(4):
        log.record("role", number=i)
    assert [e.detail["number"] for e in log.entries()] == [1, 2, 3][1:]
    log = AuditLog(lambda: 1)
    log.record("role", long="x" * 10_000, short=1)
    (entry,) = log.entries()
    assert len(entry.encode()) < limits.AUDIT_DETAIL_BYTES_MAX * 2
    assert entry.detail["short"] == "1"


def test_an_event_has_a_known_name() -> None:
    with pytest.raises(AssertionError):
        AuditLog().record("whatever")


def test_the_version_stands_in_two_places() -> None:
    project = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())
    assert project["project"]["version"] == penstock.__version__
