"""Ctrl-C at any moment: it arrives as KeyboardInterrupt, and what was being done is done or not begun.

`at_line` sends SIGINT to this process before one line of penstock is run, so that every line can be tried.
"""

from __future__ import annotations

import itertools
import random
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from types import FrameType
from typing import Any

import pytest

import penstock
from penstock.base.undivided import Undivided, interruptible
from penstock.engine.core import Core
from penstock.engine.flow_commits import CommitSide
from penstock.evaluate.fallback import _Feed
from penstock.run.inline import Epoch

# Some tenths of a second. Not for ever: where rows come as Arrow, DuckDB 2.0 looks for signals when it is done.
LONG = "SELECT count(*) AS n FROM range(200000000) t(a) WHERE a % 7 = 3"


@pytest.fixture(autouse=True)
def ctrl_c() -> Iterator[None]:
    """Python's own handler, whatever the runner of the tests has set; and nobody leaves another behind."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    alarm = signal.signal(signal.SIGALRM, lambda *_: signal.raise_signal(signal.SIGINT))
    try:
        yield
        assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, alarm)
        signal.signal(signal.SIGINT, before)


def press() -> None:
    signal.raise_signal(signal.SIGINT)


def at_line(number: int, work: Callable[[], object]) -> int:
    """Press Ctrl-C before the line of this number; how many lines were run. KeyboardInterrupt goes on its way."""
    lines = 0

    def on_line(frame: FrameType, event: str, _: Any) -> Any:
        nonlocal lines
        if event == "line":
            lines += 1
            if lines == number:
                press()
        return on_line

    def on_call(frame: FrameType, event: str, _: Any) -> Any:
        name = frame.f_code.co_filename
        # Not in the shield itself: there Python looks for signals at some places only, and a trace at all of them.
        return on_line if "/penstock/" in name and not name.endswith("undivided.py") else None

    tracing = sys.gettrace()
    sys.settrace(on_call)
    try:
        work()
    finally:
        sys.settrace(tracing)
    return lines


def is_stopped(work: Callable[[], object]) -> bool:
    try:
        work()
    except KeyboardInterrupt:
        return True
    return False


def made() -> penstock.Flow:
    flow = penstock.Flow()
    flow.sql("CREATE TABLE t (id BIGINT PRIMARY KEY, k INT, v DOUBLE)")
    flow.sql("CREATE TABLE bag (k INT)")
    flow.sql("CREATE MATERIALIZED VIEW m AS SELECT k, count(*) AS n, max(v) AS v FROM t GROUP BY k")
    flow.sql("CREATE MATERIALIZED VIEW b AS SELECT k, count(*) AS n FROM bag GROUP BY k")
    flow.tick({"t": [{"id": i, "k": i % 3, "v": i / 2} for i in range(40)], "bag": [{"k": 1}, {"k": 1}]})
    return flow


def check(flow: penstock.Flow) -> None:
    """The flow is whole and goes on."""
    assert all(c.equal for c in flow.verify())
    before = flow.snapshot("t").num_rows
    flow.tick("t", [{"id": 10_000_000 + flow.epoch, "k": 1, "v": 0.5}])
    assert flow.sql("SELECT sum(n) AS n FROM m").to_pylist() == [{"n": before + 1}]
    for text in (
        "CREATE TABLE another (a INT)",
        "CREATE MATERIALIZED VIEW one_more AS SELECT a FROM another",
        "DROP TABLE another CASCADE",
    ):
        flow.sql(text)


# -- the shield ------------------------------------------------------------------------------------


def test_a_signal_is_heard_when_the_outermost_shield_comes_down() -> None:
    steps: list[str] = []

    def work() -> None:
        with Undivided():
            with Undivided():
                press()
                steps.append("inner")
            steps.append("outer")
        steps.append("never")

    assert is_stopped(work)
    assert steps == ["inner", "outer"]


def test_what_is_interruptible_is_stopped_and_what_follows_is_not() -> None:
    steps: list[str] = []

    def work() -> None:
        with Undivided(), Undivided():
            try:
                interruptible(press)
            except KeyboardInterrupt:
                press()
                steps.append("taken back")
                raise

    assert is_stopped(work)
    assert steps == ["taken back"]
    with pytest.raises(KeyboardInterrupt), Undivided():
        press()
        interruptible(lambda: steps.append("never begun"))
    assert steps == ["taken back"]


def test_a_handler_that_is_set_meanwhile_stays() -> None:
    heard: list[int] = []
    with Undivided():
        interruptible(lambda: signal.signal(signal.SIGINT, lambda *_: heard.append(1)))
        press()
        assert heard == []
    assert heard == [1]
    signal.signal(signal.SIGINT, signal.default_int_handler)


def test_a_shield_leaves_other_threads_and_other_dispositions_alone() -> None:
    seen: list[object] = []

    def work() -> None:
        with Undivided():
            seen.append(signal.getsignal(signal.SIGINT))

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    work()
    assert seen == [signal.default_int_handler, signal.SIG_IGN]
    signal.signal(signal.SIGINT, signal.default_int_handler)


# -- epochs ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("owner", "step"),
    [
        (Core, "_commit_tables"),
        (Epoch, "commit"),
        (Core, "_commit_views"),
        (CommitSide, "_push"),
        (CommitSide, "_measure"),
    ],
)
@pytest.mark.parametrize("after", [False, True])
def test_an_epoch_is_applied_whole(
    owner: Any, step: str, after: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    flow = made()
    watch = flow.watch("m")
    real, epoch = getattr(owner, step), flow.epoch

    def stepped(*args: Any) -> Any:
        if not after:
            press()
        result = real(*args)
        if after:
            press()
        return result

    with monkeypatch.context() as patch:
        patch.setattr(owner, step, stepped)
        with pytest.raises(KeyboardInterrupt):
            flow.tick("t", [{"id": 100, "k": 7, "v": 1.0}])
    assert flow.epoch == epoch + 1
    assert flow.sql("SELECT n FROM m WHERE k = 7").to_pylist() == [{"n": 1}]
    assert watch.reached == flow.epoch
    check(flow)


def test_what_is_being_worked_out_is_stopped_without_a_trace(monkeypatch: pytest.MonkeyPatch) -> None:
    flow = made()
    epoch = flow.epoch
    with monkeypatch.context() as patch:
        patch.setattr(Core, "propose", lambda *_: press())
        with pytest.raises(KeyboardInterrupt):
            flow.tick("t", [{"id": 100, "k": 7, "v": 1.0}], idempotency_key="one")
    assert flow.epoch == epoch
    assert flow.tick("t", [{"id": 100, "k": 7, "v": 1.0}], idempotency_key="one").views == {"m": 1}
    check(flow)


def test_a_tick_can_be_stopped_at_every_line() -> None:
    flow = made()

    def rows(id: int) -> Any:
        return {"t": [{"id": id, "k": 1, "v": 1.0}], "bag": [{"k": id % 5}]}

    lines = at_line(0, lambda: flow.tick(rows(1000)))
    assert lines > 100
    outcomes = set()
    for number in range(1, lines + 1):
        epoch, there = flow.epoch, flow.snapshot("t").num_rows
        stopped = is_stopped(lambda n=number: at_line(n, lambda: flow.tick(rows(2000 + n))))  # type: ignore[misc]
        applied = flow.epoch - epoch
        assert flow.snapshot("t").num_rows == there + applied, number
        assert flow.sql("SELECT sum(n) AS n FROM m").to_pylist() == [{"n": there + applied}], number
        outcomes.add((stopped, applied))
    assert outcomes >= {(True, 0), (True, 1)}
    check(flow)


def test_a_read_can_be_stopped_at_any_line_and_loses_no_rows() -> None:
    """Reading arranges what was appended: that must not be stopped between taking and putting."""
    flow = made()
    text = "SELECT k, count(*) AS n FROM bag GROUP BY k ORDER BY k"
    lines = at_line(0, lambda: flow.sql(text))
    for number in range(1, lines + 1, max(lines // 150, 1)):
        flow.tick("bag", [{"k": 2}, {"k": 3}])
        is_stopped(lambda n=number: at_line(n, lambda: flow.sql(text)))  # type: ignore[misc]
        assert flow.sql(text).to_pylist() == flow.sql("SELECT k, n FROM b ORDER BY k").to_pylist(), number
    check(flow)


# -- definitions -----------------------------------------------------------------------------------

DEFINITIONS = (
    "CREATE TABLE y (a INT PRIMARY KEY, b TEXT DEFAULT upper('x'), CHECK (a > 0))",
    "CREATE OR REPLACE TABLE bag2 (k INT DEFAULT 3, j INT)",
    "CREATE TABLE y AS SELECT k FROM bag",
    "CREATE VIEW y AS SELECT k FROM bag",
    "CREATE OR REPLACE VIEW plain AS SELECT k + 1 AS k FROM bag",
    "CREATE MATERIALIZED VIEW y AS SELECT k, sum(v) AS v FROM t GROUP BY k",
    "CREATE OR REPLACE MATERIALIZED VIEW old AS SELECT k, min(v) AS v FROM t GROUP BY k",
    "DROP MATERIALIZED VIEW old",
    "EXPLAIN INCREMENTAL SELECT k, min(v) AS v FROM t GROUP BY k",
)


def shape(flow: penstock.Flow) -> dict[str, list[Any]]:
    """All relations with their rows, as far as anybody can see."""
    names = [r["name"] for what in ("TABLES", "VIEWS") for r in flow.sql(f"SHOW {what}").to_pylist()]
    return {name: sorted(map(str, flow.sql(f"SELECT * FROM {name}").to_pylist())) for name in names}


def for_definitions() -> penstock.Flow:
    flow = made()
    flow.sql("CREATE TABLE bag2 (k INT)")
    flow.sql("INSERT INTO bag2 VALUES (5)")
    flow.sql("CREATE VIEW plain AS SELECT k FROM bag")
    flow.sql("CREATE MATERIALIZED VIEW old AS SELECT k, max(v) AS v FROM t GROUP BY k")
    return flow


@pytest.mark.slow
@pytest.mark.parametrize("text", DEFINITIONS)
def test_a_definition_is_made_whole_or_not_at_all(text: str) -> None:
    """At some thirty lines of each: all that stopping can leave is what was there before, or what it defines."""
    flow = for_definitions()
    before = shape(flow)
    lines = at_line(0, lambda: flow.sql(text))
    after = shape(flow)
    choice = random.Random(text)
    outcomes = set()
    flow = for_definitions()
    for number in sorted({*choice.sample(range(1, lines), 20), *range(max(lines - 10, 1), lines)}):
        # Some are not reached: what was parsed or compiled for the first time is remembered.
        stopped = is_stopped(lambda n=number, f=flow: at_line(n, lambda: f.sql(text)))  # type: ignore[misc]
        found = shape(flow)
        assert found in ((before, after) if stopped else (after,)), number
        outcomes.add((stopped, "before" if found == before else "after"))
        if found != before:
            check(flow)
            flow = for_definitions()
    assert (True, "before") in outcomes
    check(flow)
    flow = for_definitions()
    flow.sql(text)
    assert shape(flow) == after


def test_a_view_that_is_not_replaced_after_all_is_maintained(monkeypatch: pytest.MonkeyPatch) -> None:
    flow = for_definitions()
    text = "SELECT k, count(*) AS n, min(v) AS v FROM t GROUP BY k"
    with monkeypatch.context() as patch:
        patch.setattr(Core, "_fill", lambda *_: press())
        with pytest.raises(KeyboardInterrupt):
            flow.sql(f"CREATE OR REPLACE MATERIALIZED VIEW old AS {text}")
    flow.tick("t", [{"id": 500, "k": 9, "v": 4.0}])
    assert flow.sql("SELECT * FROM old WHERE k = 9").to_pylist() == [{"k": 9, "v": 4.0}]
    with pytest.raises(penstock.UndefinedTable):  # it is not built on itself
        flow.sql("CREATE OR REPLACE MATERIALIZED VIEW old AS SELECT * FROM old WHERE k = 9")
    assert flow.sql("SELECT * FROM old WHERE k = 9").to_pylist() == [{"k": 9, "v": 4.0}]
    flow.sql(f"CREATE OR REPLACE MATERIALIZED VIEW old AS {text}")
    flow.tick("t", [{"id": 501, "k": 9, "v": 3.0}])
    assert flow.sql("SELECT * FROM old WHERE k = 9").to_pylist() == [{"k": 9, "n": 2, "v": 3.0}]
    check(flow)


# -- while DuckDB works ----------------------------------------------------------------------------


@pytest.mark.parametrize("of_a_session", [False, True])
@pytest.mark.parametrize("text", [LONG, f"CREATE TABLE y AS {LONG}", f"INSERT INTO bag {LONG}"])
def test_a_query_of_duckdb_is_stopped_by_ctrl_c(text: str, of_a_session: bool) -> None:
    flow = made()
    before = shape(flow)
    asked = flow.session() if of_a_session else flow
    signal.setitimer(signal.ITIMER_REAL, 0.05)
    with pytest.raises(KeyboardInterrupt):
        asked.sql(text)
    assert asked.sql("SELECT 1 AS a").to_pylist() == [{"a": 1}]
    assert shape(flow) == before
    check(flow)


def test_ctrl_c_while_duckdb_reads_our_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever Python raises in there, DuckDB makes an error of its own of it."""
    flow = made()
    flow.sql("CREATE MATERIALIZED VIEW f AS SELECT id, list_sum([id, k]) AS s FROM t")
    real, epoch = _Feed.__arrow_c_stream__, flow.epoch

    def stopped(feed: _Feed, requested_schema: Any = None) -> Any:
        press()
        return real(feed, requested_schema)

    with monkeypatch.context() as patch:
        patch.setattr(_Feed, "__arrow_c_stream__", stopped)
        with pytest.raises(KeyboardInterrupt):
            flow.tick("t", [{"id": 100, "k": 7, "v": 1.0}])
    assert flow.epoch == epoch
    check(flow)


# -- at random times -------------------------------------------------------------------------------


def test_ctrl_c_at_random_times() -> None:
    choice = random.Random(7)
    flow = for_definitions()
    ids, ends = itertools.count(20_000), time.monotonic() + 3
    texts = (*DEFINITIONS, "tick", "tick", "tick", "UPDATE t SET v = v + 1 WHERE k = 1", "DROP TABLE y")

    def work(text: str) -> None:
        signal.setitimer(signal.ITIMER_REAL, choice.random() * 0.015 + 0.0003)
        try:
            while text == "tick":
                flow.tick("t", [{"id": next(ids), "k": 1, "v": 1.0}])
            flow.sql(text)
        except (penstock.DuplicateObject, penstock.UndefinedTable, penstock.WrongObjectType):
            pass  # what is there already, or is not, or is something else
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)

    while time.monotonic() < ends:
        text = choice.choice(texts)
        is_stopped(lambda t=text: work(t))  # type: ignore[misc]
        shape(flow)
    check(flow)
