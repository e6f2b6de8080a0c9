"""Watches: the changes of a view, epoch by epoch, for plain and for async loops."""

from __future__ import annotations

import asyncio
import threading
from collections import Counter
from typing import Any

import pyarrow as pa
import pytest

import penstock
from penstock.base import errors
from rows import rows_of


@pytest.fixture
def flow() -> Any:
    with penstock.Flow() as flow:
        flow.sql("CREATE TABLE t (g TEXT, x INTEGER)")
        flow.sql("CREATE MATERIALIZED VIEW sums AS SELECT g, sum(x) AS s FROM t GROUP BY g")
        yield flow


def changes(batch: pa.RecordBatch) -> list[tuple[Any, ...]]:
    assert isinstance(batch, pa.RecordBatch)
    assert batch.schema.names[-1] == "_weight"
    assert pa.types.is_integer(batch.schema.types[-1])
    return sorted(rows_of(pa.Table.from_batches([batch])))


def test_a_watch_gives_epoch_and_rows_with_weights(flow: penstock.Flow) -> None:
    flow.sql("INSERT INTO t VALUES ('old', 1)")
    watch = flow.watch("sums")
    first = flow.tick("t", [{"g": "a", "x": 1}, {"g": "b", "x": 2}])
    second = flow.tick("t", [{"g": "a", "x": 5}])
    flow.tick("t", [{"g": "a", "x": 0}])  # the sum stays the same: nothing to tell
    third = flow.tick("t", [{"g": "b", "x": 2, "_weight": -1}])
    watch.close()
    seen = [(change.epoch, changes(change.batch)) for change in watch]
    assert seen == [
        (first.epoch, [("a", 1, 1), ("b", 2, 1)]),
        (second.epoch, [("a", 1, -1), ("a", 6, 1)]),
        (third.epoch, [("b", 2, -1)]),
    ]


def test_a_loop_in_another_thread_ends_with_close(flow: penstock.Flow) -> None:
    watch = flow.watch("sums")
    seen: list[int] = []
    reader = threading.Thread(target=lambda: seen.extend(change.epoch for change in watch))
    reader.start()
    epochs = [flow.tick("t", [{"g": "a", "x": i + 1}]).epoch for i in range(20)]
    watch.close()
    reader.join(timeout=10)
    assert not reader.is_alive()
    assert seen == epochs[: len(seen)]


def test_async_for(flow: penstock.Flow) -> None:
    async def main() -> list[tuple[int, int]]:
        watch = flow.watch("sums")
        got: list[tuple[int, int]] = []

        async def read() -> None:
            async for change in watch:
                got.append((change.epoch, change.batch.num_rows))
                if len(got) == 5:
                    watch.close()

        task = asyncio.create_task(read())
        for i in range(5):
            await asyncio.to_thread(flow.tick, "t", [{"g": "a", "x": i + 1}])
            await asyncio.sleep(0)
        await asyncio.wait_for(task, timeout=10)
        return got

    got = asyncio.run(main())
    assert [rows for _, rows in got] == [1, 2, 2, 2, 2]
    assert [epoch for epoch, _ in got] == sorted({epoch for epoch, _ in got})


def test_a_cancelled_wait_loses_nothing_and_the_next_goes_on(flow: penstock.Flow) -> None:
    async def main() -> list[int]:
        watch = flow.watch("sums")
        changes = aiter(watch)
        got: list[int] = []
        for _ in range(3):
            with pytest.raises(asyncio.TimeoutError):
                await asyncio.wait_for(anext(changes), timeout=0.01)
            assert not watch._wakers
            for _ in range(2):
                flow.tick("t", [{"g": "a", "x": 1}])
            got.append((await asyncio.wait_for(anext(changes), timeout=10)).epoch)
            # Woken and cancelled in the same turn of the loop: what it was woken for stays.
            got.append((await asyncio.wait_for(anext(changes), timeout=10)).epoch)
            waiting = asyncio.ensure_future(anext(changes))
            await asyncio.sleep(0)
            flow.tick("t", [{"g": "a", "x": 1}])
            waiting.cancel()
            with pytest.raises(asyncio.CancelledError):
                await waiting
            got.append((await anext(changes)).epoch)
        watch.close()
        with pytest.raises(StopAsyncIteration):
            await anext(changes)
        assert not watch._wakers
        return got

    first = flow.epoch
    assert asyncio.run(main()) == list(range(first + 1, first + 10))


def test_closing_the_flow_ends_its_watches(flow: penstock.Flow) -> None:
    watch = flow.watch("sums")
    flow.tick("t", [{"g": "a", "x": 1}])
    reader = threading.Thread(target=lambda: list(watch))
    reader.start()
    flow.close()
    reader.join(timeout=10)
    assert not reader.is_alive()


def test_several_watches_see_the_same_and_a_closed_one_nothing_more(flow: penstock.Flow) -> None:
    one, two = flow.watch("sums"), flow.watch("sums")
    flow.tick("t", [{"g": "a", "x": 1}])
    one.close()
    flow.tick("t", [{"g": "a", "x": 1}])
    two.close()
    assert len(list(one)) == 1
    assert len(list(two)) == 2


def test_a_transaction_is_one_change(flow: penstock.Flow) -> None:
    watch = flow.watch("sums")
    flow.sql("BEGIN")
    flow.sql("INSERT INTO t VALUES ('a', 1)")
    flow.sql("INSERT INTO t VALUES ('a', 2)")
    flow.sql("DELETE FROM t WHERE x = 1")
    flow.sql("COMMIT")
    watch.close()
    assert [changes(change.batch) for change in watch] == [[("a", 2, 1)]]


def test_what_is_refused_is_not_seen(flow: penstock.Flow) -> None:
    flow.sql("CREATE MATERIALIZED VIEW q AS SELECT g, 10 / x AS q FROM t")
    watch = flow.watch("sums")
    with pytest.raises(errors.DivisionByZero):
        flow.tick("t", [{"g": "a", "x": 0}])
    flow.tick("t", [{"g": "b", "x": 1}])
    watch.close()
    assert [changes(change.batch) for change in watch] == [[("b", 1, 1)]]


def test_deltas_add_up_to_the_snapshot(flow: penstock.Flow) -> None:
    watch = flow.watch("sums")
    for i in range(30):
        flow.tick("t", [{"g": f"g{i % 4}", "x": i}, {"g": f"g{i % 3}", "x": -i}])
    flow.sql("DELETE FROM t WHERE x % 2 = 0")
    watch.close()
    total: Counter[tuple[Any, ...]] = Counter()
    for change in watch:
        for *row, weight in changes(change.batch):
            total[tuple(row)] += weight
    assert {row: n for row, n in total.items() if n} == Counter(rows_of(flow.snapshot("sums")))


def test_tables_can_be_watched_too(flow: penstock.Flow) -> None:
    watch = flow.watch("t")
    flow.sql("INSERT INTO t VALUES ('a', 1), ('a', 1)")
    flow.sql("UPDATE t SET x = 2")
    watch.close()
    assert [changes(change.batch) for change in watch] == [[("a", 1, 2)], [("a", 1, -2), ("a", 2, 2)]]


def test_a_plain_view_cannot_be_watched(flow: penstock.Flow) -> None:
    flow.sql("CREATE VIEW plain AS SELECT * FROM t")
    with pytest.raises(errors.WrongObjectType) as caught:
        flow.watch("plain")
    assert caught.value.hint


def test_a_watch_that_is_not_read_does_not_eat_the_memory(
    flow: penstock.Flow, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("penstock.engine.watch.WATCH_QUEUE_EPOCHS_MAX", 5)
    watch = flow.watch("sums")
    for i in range(10):
        flow.tick("t", [{"g": "a", "x": i + 1}])
    with pytest.raises(errors.WatchOverflow) as caught:
        list(watch)
    assert caught.value.hint
    assert flow.snapshot("sums").num_rows == 1


def test_replacing_a_view_ends_its_watches() -> None:
    with penstock.Flow() as flow:
        flow.sql("CREATE TABLE t (a INTEGER); CREATE MATERIALIZED VIEW v AS SELECT a FROM t")
        watch = flow.watch("v")
        flow.sql("CREATE OR REPLACE MATERIALIZED VIEW v AS SELECT a, a + 1 AS b FROM t")
        flow.sql("INSERT INTO t VALUES (1)")
        assert list(watch) == []
        assert flow.snapshot("v").to_pylist() == [{"a": 1, "b": 2}]
