"""Subscriptions: a snapshot, and then each epoch once, in order, none left out."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import penstock
from penstock.base import errors
from penstock.engine.subscription import Subscription
from penstock.engine.watch import Change
from rows import rows_of

WAIT_S = 60  # for something that happens at once, on a machine that is busy


@pytest.fixture
def flow() -> Iterator[penstock.Flow]:
    with penstock.Flow() as flow:
        define(flow)
        yield flow


def define(flow: penstock.Flow) -> None:
    flow.sql("CREATE TABLE t (g TEXT, x INTEGER)")
    flow.sql("CREATE MATERIALIZED VIEW sums AS SELECT g, sum(x) AS s FROM t GROUP BY g")


def insert(flow: penstock.Flow, *rows: tuple[str, int]) -> int:
    return flow.tick("t", [{"g": g, "x": x} for g, x in rows]).epoch


def told(change: Change | None) -> tuple[int, list[tuple[Any, ...]]]:
    assert change is not None
    return change.epoch, sorted(tuple(row.values()) for row in change.batch.to_pylist())


def added_up(changes: list[Change]) -> Counter[tuple[Any, ...]]:
    total: Counter[tuple[Any, ...]] = Counter()
    for change in changes:
        for *row, weight in (tuple(r.values()) for r in change.batch.to_pylist()):
            total[tuple(row)] += weight
    return Counter({row: n for row, n in total.items() if n})


def waited(subscription: Subscription) -> Change:
    """The next change; it may take a moment."""
    until = time.monotonic() + WAIT_S
    while time.monotonic() < until:
        change = subscription.poll()
        if change is not None:
            return change
        time.sleep(0.01)
    raise AssertionError("no change has come")


def test_a_snapshot_and_then_every_change(flow: penstock.Flow) -> None:
    first = insert(flow, ("a", 1), ("b", 2))
    with flow.subscribe("sums") as subscription:
        assert subscription.frontier == first
        assert told(subscription.poll()) == (first, [("a", 1, 1), ("b", 2, 1)])
        assert subscription.poll() is None
        assert subscription.frontier == first + 1
        second = insert(flow, ("a", 5))
        insert(flow, ("a", 0))  # the view stays as it is
        assert told(subscription.poll()) == (second, [("a", 1, -1), ("a", 6, 1)])
        assert subscription.poll() is None
        assert subscription.frontier == second + 2
    assert flow._watches == {}


def test_without_a_snapshot(flow: penstock.Flow) -> None:
    epoch = insert(flow, ("a", 1))
    with flow.subscribe("t", snapshot=False) as subscription:
        assert (subscription.poll(), subscription.frontier) == (None, epoch + 1)
        epoch = insert(flow, ("a", 1), ("a", 1))
        assert told(subscription.poll()) == (epoch, [("a", 1, 2)])


def test_as_of_an_epoch(tmp_path: Path) -> None:
    """From each past epoch: its rows, then what came after it, then what comes."""
    with penstock.Flow(tmp_path / "flow") as flow:
        define(flow)
        epochs = [insert(flow, ("a", i), ("b", 1)) for i in range(6)]
        for start in (*epochs, flow.epoch):
            for snapshot in (True, False):
                subscription = flow.subscribe("sums", snapshot=snapshot, as_of=start)
                changes = list(iter(subscription.poll, None))
                assert [c.epoch for c in changes] == [
                    *([start] if snapshot else []),
                    *[e for e in epochs if e > start],
                ]
                now = Counter(rows_of(flow.snapshot("sums")))
                if not snapshot:
                    now.subtract(Counter(rows_of(flow.snapshot("sums", as_of=start))))
                assert added_up(changes) == Counter({row: n for row, n in now.items() if n})
                epochs.append(insert(flow, ("a", 1)))
                assert waited(subscription).epoch == epochs[-1]
                subscription.close()
        with pytest.raises(errors.InvalidOption, match="no epoch"):
            flow.subscribe("sums", as_of=flow.epoch + 1)
        flow.sql("CREATE MATERIALIZED VIEW late AS SELECT count(*) AS n FROM t")
        with pytest.raises(errors.HistoryGone, match="was made at epoch"):
            flow.subscribe("late", as_of=epochs[0])
    with penstock.Flow() as flow:
        define(flow)
        epoch = insert(flow, ("a", 1))
        assert told(flow.subscribe("t", as_of=epoch).poll()) == (epoch, [("a", 1, 1)])
        insert(flow, ("a", 1))
        with pytest.raises(errors.HistoryGone, match="memory"):
            flow.subscribe("t", as_of=epoch)


@pytest.mark.parametrize("stored", [False, True])
def test_opened_while_others_write(tmp_path: Path, stored: bool) -> None:
    """Whenever it is opened, each epoch comes once and the sum is what the view holds at that epoch."""
    with penstock.Flow(tmp_path / "flow" if stored else None, **({"sync": False} if stored else {})) as flow:  # type: ignore[arg-type]
        define(flow)
        insert(flow, ("a", 1))
        last: list[int] = []
        started = threading.Event()

        def write() -> None:
            for i in range(60):
                last.append(insert(flow, (f"g{i % 3}", i), ("a", -i)))
                started.set()

        writer = threading.Thread(target=write)
        writer.start()
        started.wait()
        subscriptions = []
        for _ in range(8):
            subscriptions.append(flow.subscribe("sums"))
            time.sleep(0.005)
        writer.join()
        for subscription in subscriptions:
            changes = [waited(subscription)]
            while changes[-1].epoch < last[-1]:
                changes.append(waited(subscription))
            epochs = [c.epoch for c in changes]
            assert epochs == list(range(epochs[0], last[-1] + 1))
            assert added_up(changes) == Counter(rows_of(flow.snapshot("sums")))
            if stored:
                for i, change in enumerate(changes):
                    then = flow.snapshot("sums", as_of=change.epoch)
                    assert added_up(changes[: i + 1]) == Counter(rows_of(then))


def test_an_epoch_is_told_when_it_cannot_be_lost(tmp_path: Path) -> None:
    with penstock.Flow(tmp_path / "flow", commit="visible", commit_interval="1 hour") as flow:
        define(flow)
        early = insert(flow, ("a", 1))
        subscription = flow.subscribe("sums")
        later = insert(flow, ("a", 1))
        assert flow.snapshot("sums").num_rows == 1
        assert not subscription.ready()
        assert subscription.poll() is None
        flow.flush()
        assert subscription.ready()
        assert told(subscription.poll()) == (early, [("a", 1, 1)])
        assert told(subscription.poll()) == (later, [("a", 1, -1), ("a", 2, 1)])


def test_iterating_ends_with_close(flow: penstock.Flow) -> None:
    subscription = flow.subscribe("sums", snapshot=False)
    seen: list[int] = []
    reader = threading.Thread(target=lambda: seen.extend(change.epoch for change in subscription))
    reader.start()
    epochs = [insert(flow, ("a", 1)) for _ in range(5)]
    until = time.monotonic() + WAIT_S
    while len(seen) < 5 and time.monotonic() < until:
        time.sleep(0.01)
    subscription.close()
    reader.join(WAIT_S)
    assert not reader.is_alive()
    assert seen == epochs


@pytest.mark.parametrize(
    ("statement", "why"),
    [
        ("DROP MATERIALIZED VIEW sums", "dropped"),
        ("DROP TABLE t CASCADE", "dropped"),
        ("CREATE OR REPLACE MATERIALIZED VIEW sums AS SELECT g FROM t", "replaced"),
    ],
)
def test_what_is_dropped_ends_it_after_its_last_change(flow: penstock.Flow, statement: str, why: str) -> None:
    subscription = flow.subscribe("sums", snapshot=False)
    epoch = insert(flow, ("a", 1))
    flow.sql(statement)
    assert told(subscription.poll()) == (epoch, [("a", 1, 1)])
    for _ in range(2):
        with pytest.raises(errors.SubscriptionEnded, match=why):
            subscription.poll()


def test_what_cannot_be_subscribed_to(flow: penstock.Flow) -> None:
    flow.sql("CREATE VIEW plain AS SELECT * FROM t")
    with pytest.raises(errors.WrongObjectType, match="plain view"):
        flow.subscribe("plain")
    with pytest.raises(errors.UndefinedTable):
        flow.subscribe("nope")
    with pytest.raises(errors.WrongObjectType) as caught:
        flow.sql("SUBSCRIBE sums")
    assert "flow.subscribe('sums')" in (caught.value.hint or "")
    flow.close()
    with pytest.raises(errors.FlowClosed):
        flow.subscribe("sums")


@pytest.mark.parametrize("limit", ["WATCH_QUEUE_EPOCHS_MAX", "WATCH_QUEUE_ROWS_MAX"])
def test_a_slow_reader_gets_an_error_and_holds_nothing(
    flow: penstock.Flow, monkeypatch: pytest.MonkeyPatch, limit: str
) -> None:
    monkeypatch.setattr(f"penstock.engine.watch.{limit}", 5)
    slow, fast = flow.subscribe("t", snapshot=False), flow.subscribe("t", snapshot=False)
    for i in range(10):
        insert(flow, ("a", i))
        assert fast.poll() is not None
    assert not slow._watch._queue
    with pytest.raises(errors.WatchOverflow, match=limit):
        slow.poll()
    large = insert(flow, *[("a", i) for i in range(20)])  # alone it is taken, whatever its size
    change = fast.poll()
    assert change is not None
    assert (change.epoch, change.batch.num_rows) == (large, 20)


def test_a_reader_of_another_process_s_flow_misses_nothing(tmp_path: Path) -> None:
    """Also when the writer's catalog changes and the reader reads everything anew."""
    with penstock.Flow(tmp_path / "flow") as writer:
        define(writer)
        insert(writer, ("a", 1))
        with penstock.Flow(tmp_path / "flow", read_only=True) as reader:
            subscription = reader.subscribe("sums")
            changes = [waited(subscription)]
            epochs = [changes[0].epoch]
            for i in range(4):
                epochs += [insert(writer, ("a", j + 1)) for j in range(3)]
                writer.sql(f"CREATE TABLE other{i} (a INT)")
                epochs += [insert(writer, ("b", j + 1)) for j in range(3)]
                while changes[-1].epoch < epochs[-1]:
                    changes.append(waited(subscription))
            assert [c.epoch for c in changes] == epochs
            assert added_up(changes) == Counter(rows_of(writer.snapshot("sums")))
            writer.sql("DROP MATERIALIZED VIEW sums")
            with pytest.raises(errors.SubscriptionEnded, match="dropped"):
                waited(subscription)


def test_flows_have_names_that_last(tmp_path: Path) -> None:
    with penstock.Flow(tmp_path / "flow") as flow:
        name = flow.id
        define(flow)
        with penstock.Flow(tmp_path / "flow", read_only=True) as reader:
            assert reader.id == name
        flow.branch(tmp_path / "branch")
    with penstock.Flow(tmp_path / "flow") as flow, penstock.Flow(tmp_path / "branch") as branch:
        assert flow.id == name
        assert branch.id != name
    with penstock.Flow() as one, penstock.Flow() as two:
        assert one.id != two.id
