"""Freshness of views: lag, compliance and the one reason, under a clock that the test holds."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import penstock
from penstock import Flow
from penstock.commit import journal as journals
from penstock.engine import meter as meters
from penstock.engine.freshness import REASONS, Freshness


class Clock:
    """Microseconds that pass when the test says so, and by one each time somebody looks, so that times differ."""

    def __init__(self) -> None:
        self.now = 1_000_000_000_000_000

    def __call__(self) -> int:
        return self.now

    def wait(self, seconds: float) -> None:
        self.now += int(seconds * 1_000_000)


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def flow(clock: Clock) -> Iterator[Flow]:
    with Flow(clock_us=clock) as flow:
        prepare(flow)
        yield flow


def prepare(flow: Flow) -> None:
    flow.sql("CREATE TABLE t (id BIGINT PRIMARY KEY, v TEXT)")
    flow.sql("CREATE TABLE other (id BIGINT PRIMARY KEY)")
    flow.sql(
        "CREATE MATERIALIZED VIEW quick WITH (freshness = '1s') AS SELECT v, count(*) AS n FROM t GROUP BY v"
    )
    flow.sql("CREATE MATERIALIZED VIEW easy WITH (freshness = '1 minute') AS SELECT count(*) AS n FROM quick")
    flow.sql("CREATE MATERIALIZED VIEW apart WITH (freshness = 1) AS SELECT count(*) AS n FROM other")
    flow.sql("CREATE MATERIALIZED VIEW free AS SELECT count(*) AS n FROM t")


def of(flow: Flow, view: str) -> Freshness:
    return next(f for f in flow.freshness() if f.view == view)


def slow_epoch(flow: Flow, clock: Clock, seconds: float, table: str = "t", rows: int = 1) -> None:
    """An epoch that takes this long to be visible."""
    core = flow._core
    true_commit = core.commit

    def commit(*args: Any) -> Any:
        clock.wait(seconds)
        return true_commit(*args)

    core.commit = commit  # type: ignore[method-assign]
    try:
        first = clock.now
        flow.tick(table, [{"id": first + i} for i in range(rows)])
    finally:
        del core.commit  # type: ignore[method-assign]


def test_a_view_that_keeps_up_is_healthy(flow: Flow, clock: Clock) -> None:
    clock.wait(10)
    flow.sql("INSERT INTO t VALUES (1, 'a')")
    clock.wait(10)
    assert of(flow, "quick") == Freshness("quick", 1.0, 0.0, 0.0, 0.0, 1.0, 20.0, "HEALTHY")
    assert of(flow, "free") == Freshness("free", None, 0.0, 0.0, 0.0, None, 20.0, "HEALTHY")
    assert of(flow, "apart").p50_s is None  # none of its tables has changed


def test_late_epochs_cost_compliance_and_name_a_reason(flow: Flow, clock: Clock) -> None:
    clock.wait(10)
    slow_epoch(flow, clock, 3)
    clock.wait(7)
    quick = of(flow, "quick")
    assert (quick.compliance, quick.window_s, quick.reason) == (0.9, 20.0, "STRESSED")  # 2 of 20 s late
    assert quick.p50_s == pytest.approx(3, rel=1 / 8)
    assert of(flow, "easy").reason == of(flow, "apart").reason == of(flow, "free").reason == "HEALTHY"
    clock.wait(400)
    assert (of(flow, "quick").compliance, of(flow, "quick").reason) == (1.0, "HEALTHY")
    assert of(flow, "quick").p50_s is None


def test_one_late_epoch_in_a_while_is_not_news(flow: Flow, clock: Clock) -> None:
    clock.wait(290)
    slow_epoch(flow, clock, 2)
    clock.wait(8)
    quick = of(flow, "quick")
    assert quick.compliance == pytest.approx(1 - 1 / 300)
    assert quick.reason == "HEALTHY"


def test_changes_that_wait_are_its_lag(flow: Flow, clock: Clock) -> None:
    with flow.meter.accepting(frozenset(("t",))):
        clock.wait(0.5)
        assert (of(flow, "quick").lag_s, of(flow, "quick").reason) == (0.5, "HEALTHY")
        clock.wait(3.5)
        quick, easy, apart = of(flow, "quick"), of(flow, "easy"), of(flow, "apart")
    assert (quick.lag_s, quick.compliance, quick.reason) == (4.0, 0.25, "STRESSED")  # 3 of 4 s late
    assert (easy.lag_s, easy.reason) == (4.0, "HEALTHY")
    assert (apart.lag_s, apart.reason) == (0.0, "HEALTHY")
    assert of(flow, "quick").lag_s == 0.0


def test_a_writer_that_waits_for_its_turn_is_counted(flow: Flow, clock: Clock) -> None:
    arrived = threading.Event()
    meter = flow.meter
    true_accepting = meter.accepting

    def accepting(tables: frozenset[str] | None = None) -> Any:
        arrived.set()
        return true_accepting(tables)

    meter.accepting = accepting  # type: ignore[method-assign]
    with flow._lock:
        thread = threading.Thread(target=flow.tick, args=("t", [{"id": 1}]))
        thread.start()
        assert arrived.wait(30)
        while not meter.waiting:
            time.sleep(0.01)
        clock.wait(2)
        assert (of(flow, "quick").lag_s, of(flow, "quick").reason) == (2.0, "STRESSED")
    thread.join()
    assert flow.meter.epochs[-1].visible_us - flow.meter.epochs[-1].arrived_us == 2_000_000


def test_a_load_is_a_backfill(flow: Flow, clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(meters, "LOAD_ROWS_MIN", 100)
    slow_epoch(flow, clock, 5, rows=100)
    assert of(flow, "quick").reason == "BACKFILLING"


def test_a_view_that_is_being_made_is_building(flow: Flow, clock: Clock) -> None:
    seen: list[Freshness] = []
    core = flow._core
    true_fill = core._fill

    def fill(*args: Any) -> Any:
        clock.wait(7)
        seen.extend(f for f in flow.freshness() if f.view in ("made", "quick"))
        return true_fill(*args)

    core._fill = fill  # type: ignore[method-assign]
    flow.sql("CREATE MATERIALIZED VIEW made WITH (freshness = '2s') AS SELECT v FROM t")
    made = next(f for f in seen if f.view == "made")
    assert (made.target_s, made.lag_s, made.reason) == (2.0, 7.0, "BUILDING")
    assert next(f for f in seen if f.view == "quick").reason == "HEALTHY"
    assert (of(flow, "made").compliance, of(flow, "made").reason) == (1.0, "HEALTHY")  # it is there since now

    seen.clear()
    clock.wait(13)
    flow.sql("CREATE OR REPLACE MATERIALIZED VIEW made WITH (freshness = '2s') AS SELECT v, id FROM t")
    assert next(f for f in seen if f.view == "made").reason == "REPLACING"
    assert (of(flow, "made").compliance, of(flow, "made").reason) == (0.75, "REPLACING")  # 5 of 20 s

    with pytest.raises(penstock.PenstockError):
        flow.sql("CREATE MATERIALIZED VIEW failing AS SELECT nope FROM t")
    assert not flow.meter.building


def test_pause_and_resume(flow: Flow, clock: Clock) -> None:
    flow.sql("ALTER SYSTEM PAUSE")
    flow.sql("ALTER SYSTEM PAUSE")  # it is paused already: nothing changes
    clock.wait(3)
    for change in (
        "INSERT INTO t VALUES (1, 'a')",
        "BEGIN; DELETE FROM t; INSERT INTO t VALUES (1, 'a'); COMMIT",
    ):
        with pytest.raises(penstock.FlowPaused) as caught:
            flow.sql(change)
        assert (caught.value.sqlstate, caught.value.retry) == ("55000", True)
    with pytest.raises(penstock.FlowPaused):
        flow.tick("t", [{"id": 1}])
    assert (of(flow, "quick").lag_s, of(flow, "quick").reason) == (3.0, "PAUSED")
    assert flow.sql("SELECT count(*) AS n FROM t").to_pylist() == [{"n": 0}]
    flow.sql("ALTER SYSTEM RESUME")
    flow.sql("INSERT INTO t VALUES (1, 'a')")
    clock.wait(1)
    assert (of(flow, "quick").lag_s, of(flow, "quick").compliance) == (0.0, 0.5)
    assert of(flow, "quick").reason == "PAUSED"  # of the last seconds most were lost to it
    assert [e.event for e in flow._core.audit.entries()][-3:] == ["pause", "pause", "resume"]


def test_recovery_is_counted_and_a_clean_opening_is_not(tmp_path: Path, clock: Clock) -> None:
    first = Flow(tmp_path / "f", clock_us=clock)
    prepare(first)

    class Slow(Clock):
        def __call__(self) -> int:  # opening takes a second for each look at the clock
            self.now += 1_000_000
            return self.now

    slow = Slow()
    slow.now = clock.now
    with Flow(tmp_path / "f", clock_us=slow) as second:  # the first one has not been closed
        quick = of(second, "quick")
        assert quick.reason == "RECOVERING"
        assert quick.compliance is not None
        assert quick.compliance < 0.99
    with pytest.raises(penstock.Fenced):
        first.tick("t", [{"id": 1}])
    clock.wait(5)
    assert (of(first, "quick").reason, of(first, "quick").lag_s) == ("BLOCKED", 5.0)
    first.close()
    with Flow(tmp_path / "f", clock_us=slow) as third:
        assert of(third, "quick").reason == "HEALTHY"


def test_a_full_queue_to_storage_throttles(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[str] = []
    with Flow(tmp_path / "f", commit="visible", commit_interval="1 hour") as flow:
        prepare(flow)
        true_submit = flow._store.journal.submit  # type: ignore[union-attr]

        def submit(entry: Any) -> None:
            seen.append(of(flow, "quick").reason)
            true_submit(entry)

        flow._store.journal.submit = submit  # type: ignore[union-attr, method-assign]
        flow.tick("t", [{"id": 1}])
        monkeypatch.setattr(journals, "JOURNAL_BYTES_MAX", 1)
        flow.tick("t", [{"id": 2}])
        assert seen == ["HEALTHY", "THROTTLED"]
        assert of(flow, "quick").reason == "HEALTHY"


def test_storage_that_does_not_answer_blocks(tmp_path: Path, clock: Clock) -> None:
    answers = threading.Event()
    begun = threading.Event()
    with Flow(tmp_path / "f", commit="visible", commit_interval=0, clock_us=clock) as flow:
        prepare(flow)
        truth = flow._store.truth  # type: ignore[union-attr]
        true_write = truth.write

        def write(*args: Any) -> None:
            begun.set()
            answers.wait()
            true_write(*args)

        truth.write = write  # type: ignore[method-assign]
        flow.tick("t", [{"id": 1}])
        assert begun.wait(30)
        assert of(flow, "quick").reason == "HEALTHY"
        clock.wait(6)
        assert (of(flow, "quick").reason, of(flow, "quick").lag_s) == ("BLOCKED", 6.0)
        answers.set()
        flow.flush()
        assert of(flow, "quick").reason == "HEALTHY"


def test_a_reader_measures_how_far_it_is_behind(tmp_path: Path) -> None:
    with Flow(tmp_path / "f") as writer:
        prepare(writer)
        with Flow(tmp_path / "f", read_only=True) as reader:
            writer.sql("INSERT INTO t VALUES (1, 'a')")
            while reader.epoch < writer.epoch:
                time.sleep(0.01)
            while not reader.meter.epochs:
                time.sleep(0.01)
            assert (reader.meter.epochs[-1].rows_in, reader.meter.epochs[-1].epoch) == (1, writer.epoch)
            assert of(reader, "quick").p50_s is not None


def test_the_target_is_an_option_that_storage_keeps(tmp_path: Path) -> None:
    with Flow(tmp_path / "f") as flow:
        prepare(flow)
        flow.register_view("more", "SELECT * FROM t", freshness="90 s")
        flow.sql("ALTER MATERIALIZED VIEW quick SET (freshness = '5 s')")
        flow.sql("ALTER MATERIALIZED VIEW easy RESET (freshness)")
        with pytest.raises(penstock.InvalidOption, match="too short"):
            flow.sql("ALTER MATERIALIZED VIEW quick SET (freshness = '1 ms')")
        with pytest.raises(penstock.InvalidOption, match="cannot be changed"):
            flow.sql("ALTER MATERIALIZED VIEW quick SET (retain_history = '1 h')")
        with pytest.raises(penstock.WrongObjectType):
            flow.sql("ALTER MATERIALIZED VIEW t SET (freshness = '1 s')")
        with pytest.raises(penstock.InvalidOption, match="not a length of time"):
            flow.sql("CREATE MATERIALIZED VIEW x WITH (freshness = 'soon') AS SELECT * FROM t")
        with pytest.raises(penstock.SqlSyntaxError):
            flow.sql("ALTER MATERIALIZED VIEW quick SET ()")
    with Flow(tmp_path / "f") as flow:
        assert {f.view: f.target_s for f in flow.freshness()} == {
            "quick": 5.0, "easy": None, "apart": 1.0, "free": None, "more": 90.0,
        }  # fmt: skip
        assert [e.event for e in flow._core.audit.entries()].count("alter") == 2


def test_every_reason_has_been_seen() -> None:
    """The list in the documentation, in this file, and in the engine are the same."""
    text = Path(__file__).read_text()
    docs = (Path(__file__).parents[2] / "docs" / "freshness.md").read_text()
    for reason in (*REASONS, "HEALTHY"):
        assert f'"{reason}"' in text
        assert f"| {reason} |" in docs
