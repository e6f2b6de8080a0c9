"""Tables, views and their changes as DataFrames; sinks; streams whose micro-batches are epochs."""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import penstock
from penstock.run.spark.engine import SparkEngine

pytestmark = pytest.mark.slow


@pytest.fixture
def flow(spark: Any, tmp_path: Path) -> Iterator[penstock.Flow]:
    with penstock.Flow(tmp_path / "flow", engine=penstock.Spark(spark)) as flow:
        flow.sql("CREATE TABLE orders (id BIGINT, customer TEXT, amount DECIMAL(12,2), day DATE, note TEXT)")
        flow.sql(
            "CREATE MATERIALIZED VIEW totals AS "
            "SELECT customer, sum(amount) AS total, count(*) AS n, max(day) AS last FROM orders GROUP BY customer"
        )
        yield flow


def _load(spark: Any, flow: penstock.Flow, rows: int = 30_000, customers: int = 11_000) -> Any:
    return flow.tick(
        "orders",
        spark.range(rows).selectExpr(
            "id", f"concat('c', id % {customers}) AS customer", "2 AS amount", "DATE '2020-01-01' AS day"
        ),
    )


def _rows(frame: Any) -> Counter[tuple[object, ...]]:
    return Counter(tuple(row) for row in frame.collect())


def _arrow_rows(table: Any) -> Counter[tuple[object, ...]]:
    return Counter(tuple(row.values()) for row in table.to_pylist())


def test_a_snapshot_is_the_same_as_a_data_frame(spark: Any, flow: penstock.Flow) -> None:
    _load(spark, flow)
    flow.sql("INSERT INTO orders VALUES (1, 'c5', 3, '2021-01-01', NULL), (1, 'c5', 3, '2021-01-01', NULL)")
    flow.sql("DELETE FROM orders WHERE id = 7")
    for name in ("orders", "totals"):
        frame = flow.snapshot(name, as_="spark")
        expected = _arrow_rows(flow.snapshot(name))
        assert _rows(frame) == expected
        assert _rows(flow.snapshot(name, as_of=1, as_="spark")) == _arrow_rows(flow.snapshot(name, as_of=1))
    before = flow.snapshot("orders", as_="spark")
    flow.sql("DELETE FROM orders WHERE id < 100")
    assert before.count() == 30_001  # as it was when it was asked for


def test_changes_are_the_same_as_a_data_frame(spark: Any, flow: penstock.Flow) -> None:
    _load(spark, flow)
    flow.sql("UPDATE orders SET amount = 5 WHERE id = 7")
    flow.sql("DELETE FROM orders WHERE id = 8")
    expected: Counter[tuple[object, ...]] = Counter()
    for change in flow.changes("totals", 0):
        for row in change.batch.to_pylist():
            weight = row.pop("_weight")
            expected[(*row.values(), change.epoch)] += weight
    found: Counter[tuple[object, ...]] = Counter()
    for row in flow.changes("totals", 0, as_="spark").collect():
        *values, weight = tuple(row)
        found[tuple(values)] += weight
    assert {k: v for k, v in found.items() if v} == {k: v for k, v in expected.items() if v}


def test_a_column_that_spark_has_no_type_for_is_named(flow: penstock.Flow) -> None:
    flow.sql("CREATE TABLE spans (id BIGINT, span INTERVAL)")
    with pytest.raises(penstock.TypeMismatch, match='"span"'):
        flow.snapshot("spans", as_="spark")


def test_a_sink_gets_every_epoch_in_order(spark: Any, flow: penstock.Flow) -> None:
    got: list[tuple[int, Counter[tuple[object, ...]]]] = []
    failing = [False]

    def write(frame: Any, epoch: int) -> None:
        if failing[0]:
            raise OSError("disk full")
        got.append((epoch, Counter({tuple(r)[:-1]: r["_weight"] for r in frame.drop("_epoch").collect()})))

    sink = flow.sink("totals", write)
    flow.sql("INSERT INTO orders VALUES (1, 'ann', 3, NULL, NULL)")
    failing[0] = True
    with pytest.raises(penstock.SinkFailed, match="disk full"):
        flow.sql("INSERT INTO orders VALUES (2, 'ann', 3, NULL, NULL)")
    assert flow.epoch == 2  # it is committed all the same
    failing[0] = False
    flow.sql("INSERT INTO orders VALUES (3, 'bob', 3, NULL, NULL)")
    assert [epoch for epoch, _ in got] == [1, 2, 3]
    total: Counter[tuple[object, ...]] = Counter()
    for _, delta in got:
        for row, weight in delta.items():
            total[row] += weight
    assert Counter({k: v for k, v in total.items() if v}) == _arrow_rows(flow.snapshot("totals"))
    sink.close()
    flow.sql("INSERT INTO orders VALUES (4, 'bob', 3, NULL, NULL)")
    assert len(got) == 3
    flow.sink("totals", write, from_epoch=3)  # as after a restart: the writer knows how far it was
    assert [epoch for epoch, _ in got] == [1, 2, 3, 4]


def _put(folder: Path, name: str, *rows: dict[str, object]) -> None:
    draft = folder / f".{name}"
    draft.write_text("".join(json.dumps(row) + "\n" for row in rows))
    draft.rename(folder / name)


def test_a_stream_goes_on_where_it_was(spark: Any, flow: penstock.Flow, tmp_path: Path) -> None:
    folder = tmp_path / "in"
    folder.mkdir()

    def source() -> Any:
        return spark.readStream.schema("id long, customer string, amount decimal(12,2)").json(str(folder))

    _put(folder, "a.json", {"id": 1, "customer": "s", "amount": 1.5})
    assert flow.stream({"orders": source()}, trigger="available now").await_termination(60)
    first = flow.epoch
    _put(folder, "b.json", {"id": 2, "customer": "s", "amount": 2.5})
    assert flow.stream({"orders": source()}, trigger="available now").await_termination(60)
    assert flow.epoch == first + 1
    assert flow.sql("SELECT total, n FROM totals").to_pylist()[0]["n"] == 2
    # The last batch comes again, as after a crash between our commit and Spark's note of it.
    commits = sorted((tmp_path / "flow" / "streams" / "orders" / "commits").glob("[0-9]*"))
    commits[-1].unlink()
    (commits[-1].parent / f".{commits[-1].name}.crc").unlink()
    assert flow.stream({"orders": source()}, trigger="available now").await_termination(60)
    assert flow.epoch == first + 1
    assert flow.sql("SELECT total, n FROM totals").to_pylist()[0]["n"] == 2


def test_a_stream_that_fails_says_why(spark: Any, flow: penstock.Flow, tmp_path: Path) -> None:
    folder = tmp_path / "in"
    folder.mkdir()
    flow.sql("CREATE TABLE keyed (id BIGINT PRIMARY KEY)")
    _put(folder, "a.json", {"id": 1}, {"id": 1})
    source = spark.readStream.schema("id long").json(str(folder))
    streams = flow.stream({"keyed": source}, trigger="available now")
    with pytest.raises(penstock.UniqueViolation, match="id = 1"):
        streams.await_termination(60)
    assert not flow.sql("SELECT * FROM keyed").to_pylist()
    with pytest.raises(penstock.InvalidOption, match="not a stream"):
        flow.stream({"keyed": spark.range(1)})
    with pytest.raises(penstock.UndefinedTable):
        flow.stream({"nowhere": source})


def test_a_change_feed_is_a_source(spark: Any, flow: penstock.Flow) -> None:
    flow.sql("CREATE TABLE accounts (id BIGINT PRIMARY KEY, balance BIGINT)")
    feed = "_change_type string, _commit_version long, id long, balance long"
    flow.tick("accounts", spark.createDataFrame([("insert", 1, 1, 10), ("insert", 1, 2, 20)], feed))
    rows = [("update_preimage", 2, 1, 10), ("update_postimage", 2, 1, 15), ("delete", 2, 2, 20)]
    flow.tick("accounts", spark.createDataFrame(rows, feed), change_feed="delta")
    assert flow.sql("SELECT * FROM accounts").to_pylist() == [{"id": 1, "balance": 15}]


def test_a_sink_that_fails_is_told_of_by_changes_alone(spark: Any, flow: penstock.Flow) -> None:
    def write(frame: Any, epoch: int) -> None:
        raise OSError("disk full")

    sink = flow.sink("totals", write)
    with pytest.raises(penstock.SinkFailed, match="disk full"):
        flow.sql("INSERT INTO orders VALUES (1, 'ann', 3, NULL, NULL)")
    assert flow.sql("SELECT n FROM totals").to_pylist() == [{"n": 1}]
    sink.close()
    sink.close()


@pytest.mark.parametrize(
    ("statement", "why"),
    [
        ("DROP MATERIALIZED VIEW totals", "was dropped"),
        ("CREATE OR REPLACE MATERIALIZED VIEW totals AS SELECT count(*) AS n FROM orders", "was replaced"),
    ],
)
def test_a_sink_ends_with_its_view(spark: Any, flow: penstock.Flow, statement: str, why: str) -> None:
    got: list[int] = []
    sink = flow.sink("totals", lambda frame, epoch: got.append(epoch))
    flow.sql("INSERT INTO orders VALUES (1, 'ann', 3, NULL, NULL)")
    flow.sql(statement)
    flow.sql("INSERT INTO orders VALUES (2, 'ann', 3, NULL, NULL)")
    assert got == [1]
    with pytest.raises(penstock.SinkFailed, match=why):
        sink.deliver()


def test_a_sink_that_history_has_left_behind_ends(spark: Any, tmp_path: Path) -> None:
    with penstock.Flow(tmp_path / "short", engine="inline", retain_history="1 second") as flow:
        flow.sql("CREATE TABLE t (a BIGINT)")
        sink = flow.sink("t", lambda frame, epoch: print(1 / 0))
        with pytest.raises(penstock.SinkFailed, match="division by zero"):
            flow.tick("t", [{"a": 1}])
        deadline = time.monotonic() + 60
        while sink.ended is None and time.monotonic() < deadline:
            time.sleep(0.5)
            with pytest.raises(penstock.SinkFailed):
                flow.tick("t", [{"a": 2}])
        assert sink.ended is not None
        flow.tick("t", [{"a": 3}])


def test_streams_into_one_table_repeat_their_own_batches(spark: Any, tmp_path: Path) -> None:
    """And each batch is durable when Spark takes note of it, in a flow that does not wait for that by itself."""
    place = tmp_path / "flow"
    options = {"commit": "visible", "commit_interval": 600.0}
    flow = penstock.Flow(place, engine=penstock.Spark(spark), **options)  # type: ignore[arg-type]
    flow.sql("CREATE TABLE t (a BIGINT)")

    def stream(name: str) -> None:
        folder = tmp_path / name
        folder.mkdir(exist_ok=True)
        _put(folder, "a.json", {"a": len(name)})
        source = spark.readStream.schema("a long").json(str(folder))
        streams = flow.stream({"t": source}, trigger="available now", checkpoint=tmp_path / f"at {name}")
        assert streams.await_termination(60)
        assert flow.durable_epoch == flow.epoch

    stream("one")
    commits = tmp_path / "at one" / "t" / "commits"
    for note in ("0", ".0.crc"):
        (commits / note).unlink()
    stream("other")
    stream("one")  # its last batch again, as after a crash
    assert sorted(row["a"] for row in flow.snapshot("t").to_pylist()) == [3, 5]
    flow.close()


def test_two_flows_stream_into_tables_of_one_name(spark: Any, tmp_path: Path) -> None:
    flows = [penstock.Flow(tmp_path / name, engine=penstock.Spark(spark)) for name in ("a", "b")]
    source = spark.readStream.format("rate").load().selectExpr("value AS a")
    running = []
    for flow in flows:
        flow.sql("CREATE TABLE t (a BIGINT)")
        running.append(flow.stream({"t": source}))
    assert all(streams.is_active for streams in running)
    for flow in flows:
        flow.close()


def test_files_that_only_tasks_see_are_no_epoch(
    spark: Any, flow: penstock.Flow, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As on a cluster whose machines each have a folder of that name."""
    run = SparkEngine._run

    def elsewhere(self: SparkEngine, *given: Any) -> Any:
        before = set((tmp_path / "flow").rglob("*.arrow"))
        found = run(self, *given)
        new = set((tmp_path / "flow").rglob("*.arrow")) - before
        assert new
        for file in new:
            file.unlink()
        return found

    with monkeypatch.context() as patched:
        patched.setattr(SparkEngine, "_run", elsewhere)
        with pytest.raises(penstock.SparkFailed, match="this folder is another one"):
            _load(spark, flow)
    assert flow.epoch == 0
    assert _load(spark, flow).rows_in == 30_000
    assert all(check.equal for check in flow.verify())
