"""History: AS OF and changes(), within a retention, in the writer, after opening again and in readers."""

from __future__ import annotations

import time
import uuid
from collections import Counter
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

import penstock
from penstock import Flow
from penstock.base.errors import HistoryGone, InvalidOption, SqlSyntaxError, UndefinedTable
from tests.durable.random_history import ALL, STORED, Bag, RandomHistory, bag, flush_state
from tests.slt.driver import MODES, Driver, read

START = datetime(2026, 1, 1, tzinfo=UTC)


class Clock:
    """Time that passes when it is told to."""

    def __init__(self) -> None:
        self.now = START

    def __call__(self) -> int:
        return int((self.now - datetime(1970, 1, 1, tzinfo=UTC)) / timedelta(microseconds=1))

    def forward(self, **length: float) -> None:
        self.now += timedelta(**length)


@pytest.fixture
def url() -> str:
    return f"memory://{uuid.uuid4().hex}"


@pytest.fixture
def clock() -> Clock:
    return Clock()


def rows(flow: Flow, sql: str) -> list[Any]:
    return sorted(flow.sql(sql).to_pylist(), key=repr)


# -- every epoch, every relation -------------------------------------------------------------------


def check_all(flow: Flow, history: dict[int, dict[str, Bag]]) -> None:
    """AS OF EPOCH n is what was there at epoch n, and the changes between two epochs are their difference."""
    for epoch, expected in history.items():
        for name in ALL:
            assert bag(flow.snapshot(name, as_of=epoch)) == expected[name], (name, epoch)
            assert bag(flow.sql(f"SELECT * FROM {name} AS OF EPOCH {epoch}")) == expected[name], (name, epoch)
    epochs = sorted(history)
    for first, last in [
        (epochs[0], epochs[-1]),
        *pairwise(epochs),
        (epochs[2], epochs[-2]),
    ]:
        for name in STORED:
            total = Counter(history[first][name])
            for change in flow.changes(name, first, last):
                assert first < change.epoch <= last
                for *row, weight in zip(*[c.to_pylist() for c in change.batch.columns], strict=True):
                    total[tuple(row)] += weight
            assert {r: n for r, n in total.items() if n} == dict(history[last][name]), (name, first, last)


def follow(reader: Flow, epoch: int) -> None:
    until = time.monotonic() + 20
    while reader.epoch < epoch:
        assert time.monotonic() < until, "the reader does not follow"
        time.sleep(0.02)


@pytest.mark.slow
@pytest.mark.parametrize("seed", [1, 2])
def test_every_epoch_can_be_read_again(seed: int, url: str, each_hash: str) -> None:
    with Flow(url) as flow, pytest.MonkeyPatch.context() as patch:
        patch.setattr("penstock.commit.journal.CHUNK_BYTES_MAX", 600)  # most deltas become files
        made = RandomHistory(flow, seed, large=150)
        with Flow(url, read_only=True) as early:
            for i in range(9):
                made.step()
                if i % 4 == seed:
                    flush_state(flow)
            check_all(flow, made.at)
            follow(early, flow.epoch)
            check_all(early, made.at)
        with Flow(url, read_only=True) as late:
            check_all(late, made.at)
    with Flow(url) as flow:
        check_all(flow, made.at)
        made.flow = flow
        made.step()
        check_all(flow, made.at)


def test_large_deltas_in_a_folder(tmp_path: Path) -> None:
    with Flow(tmp_path) as flow:
        made = RandomHistory(flow, 9, large=3_000)
        for kind in ("large", "update", "large", "delete", "note", "large"):
            getattr(made, f"_{kind}")()
            made.at[flow.epoch] = {name: bag(flow.snapshot(name)) for name in ALL}
        check_all(flow, made.at)
        flush_state(flow)
        check_all(flow, made.at)
    assert list(tmp_path.rglob("*.arrow"))
    with Flow(tmp_path) as flow:
        check_all(flow, made.at)


def test_the_file(url: str) -> None:
    """as_of.slt: its epochs are counted, so it runs as it is written."""
    with Flow(url) as flow:
        driver = Driver(flow, MODES[0])
        for record in read(Path(__file__).with_name("as_of.slt")):
            if record.kind == "error":
                with pytest.raises(penstock.PenstockError, match=record.argument):
                    driver.run(record)
            else:
                given = driver.run(record)
                assert record.kind == "ok" or given == record.expected, f"line {record.line}: {given}"


# -- in statements ---------------------------------------------------------------------------------


@pytest.fixture
def shop(url: str, clock: Clock) -> Any:
    with Flow(url, clock_us=clock) as flow:
        flow.sql("CREATE TABLE t (id BIGINT PRIMARY KEY, v TEXT)")
        for i in range(1, 5):
            clock.forward(minutes=1)
            flow.sql(f"INSERT INTO t VALUES ({i}, 'v{i}')")
        yield flow


def test_inside_a_transaction_the_past_is_what_was_committed(shop: Flow) -> None:
    shop.sql("BEGIN; DELETE FROM t")
    assert rows(shop, "SELECT id FROM t AS OF EPOCH 2 WHERE id NOT IN (SELECT id FROM t)") == [
        {"id": 1},
        {"id": 2},
    ]
    shop.sql("INSERT INTO t SELECT id + 10, v FROM t AS OF EPOCH 1")
    shop.sql("COMMIT")
    assert rows(shop, "SELECT id FROM t") == [{"id": 11}]


def test_undoing_a_mistake(shop: Flow) -> None:
    before = shop.epoch
    shop.sql("UPDATE t SET v = 'oops'; DELETE FROM t WHERE id = 3")
    shop.sql(
        f"INSERT INTO t SELECT * FROM t AS OF EPOCH {before} ON CONFLICT (id) DO UPDATE SET v = excluded.v"
    )
    assert rows(shop, "SELECT * FROM t") == rows(shop, f"SELECT * FROM t AS OF EPOCH {before}")


def test_nothing_is_left_of_a_statement_that_failed(shop: Flow) -> None:
    for _ in range(2):
        with pytest.raises(penstock.PenstockError, match="nothing_like_it"):
            shop.sql("SELECT nothing_like_it FROM t AS OF EPOCH 1, t AS OF EPOCH 2 AS u")
        with pytest.raises(UndefinedTable, match="as of 1"):
            shop.sql('SELECT * FROM "as of 1"')
    assert rows(shop, "SELECT id FROM t AS OF EPOCH 1") == [{"id": 1}]


def test_errors_point_into_what_was_written(shop: Flow) -> None:
    for sql, place in (
        ("SELECT 1; SELECT * FROM t, t AS OF EPOCH 99 AS u", "t AS OF"),
        ("SELECT 1; SELECT * FROM t AS OF EPOCH 1 LIMIT LIMIT", "LIMIT"),
        ("SELECT * FROM nope AS OF EPOCH 1", "nope"),
        ("SELECT * FROM t AS OF TIMESTAMP 'soon'", "t AS OF"),
    ):
        with pytest.raises(penstock.PenstockError) as caught:
            shop.sql(sql)
        assert caught.value.position is not None
        assert sql[caught.value.position :].startswith(place)


def test_the_name_that_stands_for_the_past_may_be_taken(shop: Flow) -> None:
    shop.sql('CREATE TABLE "as of 1" (x INTEGER)')
    with pytest.raises(penstock.PenstockError, match="name that AS OF needs"):
        shop.sql("SELECT * FROM t AS OF EPOCH 1")
    assert rows(shop, 'SELECT id FROM t AS OF EPOCH 1 WHERE NOT EXISTS (FROM "as of 1")') == [{"id": 1}]


def test_types_are_those_of_now(url: str) -> None:
    with Flow(url) as flow:
        flow.sql(
            "CREATE TABLE t (a HUGEINT, b UUID, c INTERVAL, d DECIMAL(30,4), e INTEGER[], f TIMESTAMPTZ, g JSON)"
        )
        flow.sql(
            "CREATE VIEW p AS SELECT sum(a) AS s, any_value(b) AS b, any_value(g) AS g, list(d) AS d FROM t"
        )
        flow.sql(
            "INSERT INTO t VALUES (10000000000000000000000000000000000000, uuid(), INTERVAL '1 month', 1.5, "
            "[1, NULL], '2026-01-01 00:00:00+00', '{\"a\": 1}'), (NULL, NULL, NULL, NULL, NULL, NULL, NULL)"
        )
        for name in ("t", "p"):
            past = f"SELECT * FROM {name} AS OF EPOCH 1"
            assert flow.sql(f"DESCRIBE {past}") == flow.sql(f"DESCRIBE SELECT * FROM {name}")
            assert flow.sql(past).schema == flow.sql(f"SELECT * FROM {name}").schema
            assert rows(flow, past) == rows(flow, f"SELECT * FROM {name}")


# -- times -----------------------------------------------------------------------------------------


def test_as_of_a_time(shop: Flow, clock: Clock) -> None:
    def count(moment: str) -> int:
        return shop.sql(f"SELECT count(*) AS n FROM t AS OF TIMESTAMP {moment}")["n"][0].as_py()

    assert count("'2026-01-01 00:02:00'") == 2
    assert count("'2026-01-01 00:02:59.999999+00:00'") == 2
    assert count("'2026-01-01T02:03:00+02:00'") == 0 + count("'2026-01-01 00:03:00Z'") == 3
    assert count("(TIMESTAMP '2026-01-01 00:04:30' - INTERVAL '1 minute')") == 3
    assert shop.snapshot("t", as_of=START + timedelta(minutes=1)).num_rows == 1
    with pytest.raises(InvalidOption, match="in the future"):
        count("'2026-01-01 00:04:00.000001'")
    clock.forward(seconds=1)
    assert count("'2026-01-01 00:04:00.000001'") == 4
    with pytest.raises(HistoryGone, match="the oldest epoch to be had is 0, of 2026-01-01"):
        count("'2025-12-31 23:59:59'")
    with pytest.raises(InvalidOption, match="NULL"):
        count("(NULL)")


# -- retention -------------------------------------------------------------------------------------


def test_a_relation_has_its_own_retention(url: str, clock: Clock) -> None:
    with Flow(url, clock_us=clock, retain_history="10 minutes") as flow:
        flow.sql("CREATE TABLE t (a INTEGER)")
        flow.sql("CREATE TABLE brief (a INTEGER) WITH (retain_history = '1 minute')")
        flow.sql("CREATE MATERIALIZED VIEW v WITH (RETAIN HISTORY FOR '1 hour') AS SELECT sum(a) AS s FROM t")
        for i in range(1, 4):
            flow.tick({"t": [{"a": i}], "brief": [{"a": i}]})
            clock.forward(seconds=50)
        assert flow.snapshot("v", as_of=1).to_pylist() == [{"s": 1}]
        assert flow.snapshot("t", as_of=1).num_rows == 1
        with pytest.raises(HistoryGone, match='the oldest epoch to be had of "brief" is 2'):
            flow.sql("SELECT * FROM brief AS OF EPOCH 1")
        assert flow.snapshot("brief", as_of=2).num_rows == 2  # it was current 50 seconds ago
        with pytest.raises(HistoryGone, match='of "brief" is 2'):
            flow.changes("brief", 1)
        clock.forward(minutes=30)
        with pytest.raises(HistoryGone, match='of "t" is 3'):
            flow.snapshot("t", as_of=2)
        assert flow.snapshot("t", as_of=3).num_rows == 3  # it is still current
        assert flow.snapshot("v", as_of=1).to_pylist() == [{"s": 1}]
        assert "history: retained for 1 hour" in flow.explain("v")
    with Flow(url, clock_us=clock) as flow:
        assert flow.snapshot("v", as_of=1).to_pylist() == [{"s": 1}]
        with pytest.raises(HistoryGone, match='of "brief" is 3'):
            flow.snapshot("brief", as_of=2)


def test_the_log_is_kept_for_the_longest_retention(url: str, clock: Clock) -> None:
    def age(flow: Flow) -> None:
        clock.forward(minutes=30)
        flow.sql("INSERT INTO t VALUES (1)")
        flush_state(flow)

    with Flow(url, clock_us=clock, retain_history="1 second") as flow:
        flow.sql("CREATE TABLE t (a INTEGER)")
        flow.sql(
            "CREATE MATERIALIZED VIEW v WITH (RETAIN HISTORY FOR '1 hour') AS SELECT count(*) AS n FROM t"
        )
        for _ in range(3):
            age(flow)
        assert flow.snapshot("v", as_of=1).to_pylist() == [{"n": 1}]
        age(flow)
        with pytest.raises(HistoryGone, match=r"the oldest epoch to be had .*is 1"):
            flow.snapshot("v", as_of=0)
        with Flow(url, read_only=True, clock_us=clock) as reader, pytest.raises(HistoryGone, match="is 1"):
            reader.snapshot("v", as_of=0)
        flow.sql("DROP MATERIALIZED VIEW v")
        age(flow)
        assert flow._store is not None
        assert flow._store.history.oldest == 4


def test_a_reader_reads_what_the_writer_retains(url: str, clock: Clock) -> None:
    with Flow(url, clock_us=clock, retain_history="1 day") as flow:
        flow.sql("CREATE TABLE t (a INTEGER)")
        for _ in range(3):
            flow.sql("INSERT INTO t VALUES (1)")
            clock.forward(hours=1)
        with Flow(url, read_only=True, clock_us=clock) as reader:
            assert reader.snapshot("t", as_of=1).num_rows == 1
            assert rows(reader, "SELECT count(*) AS n FROM t AS OF EPOCH 2") == [{"n": 2}]


def test_history_that_is_forgotten_while_it_is_read_is_not_read_by_half(url: str, clock: Clock) -> None:
    with Flow(url, clock_us=clock, retain_history="10 minutes") as flow:
        flow.sql("CREATE TABLE t (a INTEGER)")
        for i in range(4):
            flow.sql(f"INSERT INTO t VALUES ({i})")
        changes = flow.changes("t", 0)
        clock.forward(hours=1)
        flow.sql("INSERT INTO t VALUES (9)")
        flush_state(flow)
        with pytest.raises(HistoryGone, match="the oldest epoch to be had is 4"):
            list(changes)


def test_what_is_not_to_be_had(shop: Flow) -> None:
    with pytest.raises(InvalidOption, match="there is no epoch 5 yet: the last one is 4"):
        shop.sql("SELECT * FROM t AS OF EPOCH 5")
    with pytest.raises(InvalidOption, match="there is no epoch -1"):
        shop.sql("SELECT * FROM t AS OF EPOCH (0 - 1)")
    shop.sql("CREATE MATERIALIZED VIEW late AS SELECT count(*) AS n FROM t")
    shop.sql("CREATE VIEW over_late AS SELECT * FROM late")
    for name in ("late", "over_late"):
        with pytest.raises(
            HistoryGone, match='"late" was made at epoch 4: the oldest epoch to be had of it is 4'
        ):
            shop.sql(f"SELECT * FROM {name} AS OF EPOCH 3")
    with pytest.raises(InvalidOption, match="turn them round"):
        shop.changes("t", 3, 2)
    with pytest.raises(SqlSyntaxError, match="cannot depend on a table"):
        shop.sql("SELECT * FROM t AS OF EPOCH (SELECT max(id) FROM t)")


def test_a_flow_in_memory_has_no_history_to_retain() -> None:
    with Flow() as flow:
        flow.sql("CREATE TABLE t (a INTEGER)")
        for sql in (
            "CREATE TABLE u (a INTEGER) WITH (RETAIN HISTORY FOR '1 hour')",
            "CREATE TABLE u WITH (retain_history = '1 hour') AS SELECT 1 AS a",
            "CREATE MATERIALIZED VIEW v WITH (RETAIN HISTORY FOR '1 hour') AS FROM t",
        ):
            with pytest.raises(InvalidOption, match=r"(?s)a flow in memory keeps no history.*memory://name"):
                flow.sql(sql)
        with pytest.raises(HistoryGone, match=r"(?s)keeps no history.*memory://name"):
            flow.sql("SELECT * FROM t AS OF EPOCH 0")


def test_options_are_checked(url: str) -> None:
    with Flow(url) as flow:
        for options, message in (
            ("RETAIN HISTORY FOR 'a while'", "not a length of time"),
            ("RETAIN HISTORY FOR -1", "must not be negative"),
            ("colour = 'red'", "(?s)unknown option colour.*retain_history"),
        ):
            with pytest.raises(InvalidOption, match=message):
                flow.sql(f"CREATE TABLE t (a INTEGER) WITH ({options})")
            with pytest.raises(InvalidOption, match=message):
                flow.sql(f"CREATE MATERIALIZED VIEW v WITH ({options}) AS SELECT 1 AS a")
        with pytest.raises(InvalidOption, match="unknown option dedup"):
            flow.sql("CREATE MATERIALIZED VIEW v WITH (dedup = 'content') AS SELECT 1 AS a")
        flow.register_view("v", "SELECT 1 AS a", retain_history=timedelta(hours=2))
        assert "retained for 2 hours" in flow.explain("v")
        flow.register_view("v", "SELECT 2 AS a", replace=True, retain_history="90 s")
        assert "retained for 90 seconds" in flow.explain("v")


# -- OR REPLACE ------------------------------------------------------------------------------------


def test_a_view_whose_replacement_fails_keeps_its_history(url: str, clock: Clock) -> None:
    with Flow(url, clock_us=clock, retain_history="1 minute") as flow:
        flow.sql("CREATE TABLE t (a INTEGER)")
        flow.sql("CREATE MATERIALIZED VIEW v WITH (RETAIN HISTORY FOR '1 hour') AS SELECT sum(a) AS s FROM t")
        flow.sql("INSERT INTO t VALUES (0)")
        clock.forward(minutes=5)
        flow.sql("INSERT INTO t VALUES (5)")
        with pytest.raises(penstock.PenstockError, match="division by zero"):
            flow.sql("CREATE OR REPLACE MATERIALIZED VIEW v AS SELECT CAST(1 AS DECIMAL) % a AS s FROM t")
        assert flow.snapshot("v", as_of=1).to_pylist() == [{"s": 0}]
        assert "1 hour" in flow.explain("v")
    with Flow(url, clock_us=clock) as flow:
        assert flow.snapshot("v", as_of=1).to_pylist() == [{"s": 0}]
        flow.sql("CREATE OR REPLACE MATERIALIZED VIEW v AS SELECT max(a) AS s FROM t")
        with pytest.raises(HistoryGone, match="made at epoch 2"):
            flow.snapshot("v", as_of=1)


def test_a_table_whose_replacement_fails_is_still_there(url: str) -> None:
    with Flow(url) as flow:
        flow.sql("CREATE TABLE t (a INTEGER CHECK (t.a > 0)); INSERT INTO t VALUES (1)")
        for body in ("(a nothing)", "(a INTEGER DEFAULT CAST('x' AS INTEGER))", "(a INTEGER, CHECK (b > 0))",
                     "(a INTEGER UNIQUE)", "AS SELECT b FROM t", "AS SELECT 1 AS a, 2 AS a",
                     "(a INTEGER) WITH (colour = 1)"):  # fmt: skip
            with pytest.raises(penstock.PenstockError):
                flow.sql(f"CREATE OR REPLACE TABLE t {body}")
        assert rows(flow, "SELECT * FROM t AS OF EPOCH 1") == [{"a": 1}]
        flow.sql("CREATE OR REPLACE TABLE t AS SELECT a + 1 AS a FROM t")
        assert rows(flow, "SELECT * FROM t") == [{"a": 2}]
        flow.sql("CREATE OR REPLACE TABLE t (a INTEGER CHECK (t.a > 0))")
        assert rows(flow, "SELECT * FROM t") == []
