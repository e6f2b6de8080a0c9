"""Rows that tasks read and check by themselves, as they do with DataBeside: the same changes and refusals as inline."""

from __future__ import annotations

import datetime
import random
from collections.abc import Iterator
from contextlib import nullcontext
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

import penstock
from beside import Beside, few
from penstock.base.errors import InvalidDelta
from penstock.run.partitioned import Partitioned
from penstock.run.ranges import Ranges

TABLES = (
    "CREATE TABLE t (id BIGINT PRIMARY KEY, g TEXT NOT NULL DEFAULT 'none', v INTEGER, amount DECIMAL(9,2) DEFAULT 1.5, "
    "CHECK (v < 100), CHECK (amount >= 0))",
    "CREATE TABLE two (a TEXT, b DATE, v DOUBLE, PRIMARY KEY (a, b))",
    "CREATE TABLE bag (g TEXT, v INTEGER, note TEXT DEFAULT 'x')",
    "CREATE TABLE log (g TEXT NOT NULL, v INTEGER, CHECK (v < 100))",
)
VIEWS = (
    "SELECT g, count(*) n, sum(v) s, max(amount) m FROM t GROUP BY g",
    "SELECT t.id, bag.note FROM t JOIN bag ON t.g = bag.g",
    "SELECT g FROM bag EXCEPT SELECT g FROM t",
    "SELECT a, count(DISTINCT b) d, min(v) lo FROM two GROUP BY a",
    "SELECT id, 100 / v AS share FROM t",
    "SELECT t.id FROM t WHERE EXISTS (SELECT 1 FROM two WHERE two.a = t.g)",
    "SELECT g, count(*) n, sum(v) s, min(v) lo FROM log GROUP BY g",
    "SELECT g, 100 / v AS share FROM log WHERE g <> 'z' UNION ALL SELECT g, v FROM bag",
    "SELECT DISTINCT log.v, bag.note FROM log JOIN bag ON log.g = bag.g",
)


@pytest.fixture(params=["plain", "small"])
def flow(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[Beside]:
    monkeypatch.setattr("penstock.engine.flow_ticks.is_data_frame", lambda data: isinstance(data, pa.Table))
    monkeypatch.setattr("penstock.engine.flow_ticks.read_change_feed", lambda data, feed, own: data)
    if request.param == "small":
        request.getfixturevalue("colliding_hash")
    with few() if request.param == "small" else nullcontext():
        made = Beside(request.node.name)
        for statement in TABLES:
            made.sql(statement)
        for number, query in enumerate(VIEWS):
            made.sql(f"CREATE MATERIALIZED VIEW v{number} AS {query}")
        yield made
        made.close()


T = {
    "id": pa.int64(),
    "g": pa.string(),
    "v": pa.int32(),
    "amount": pa.decimal128(9, 2),
    "_weight": pa.int64(),
}


def t(*rows: tuple[Any, ...]) -> pa.Table:
    """Rows of t, with their weight."""
    columns = list(zip(*rows, strict=True))
    return pa.table([pa.array(c, k) for c, k in zip(columns, T.values(), strict=True)], names=list(T))


def one(
    id: int, g: str | None = "a", v: int | None = 1, amount: str = "1.00", weight: int = 1
) -> tuple[Any, ...]:
    return id, g, v, Decimal(amount), weight


@pytest.mark.parametrize("seed", range(3))
def test_random_changes(flow: Beside, seed: int) -> None:
    chance = random.Random(seed)
    held: dict[int, tuple[Any, ...]] = {}
    bag: list[tuple[Any, ...]] = []
    for _ in range(8):
        delta = []
        for id in chance.sample(range(20), chance.randint(0, 8)):
            if id in held:
                delta.append((*held.pop(id)[:4], -1))
            if chance.random() < 0.7:
                held[id] = one(
                    id, chance.choice("abcd"), chance.choice((1, 2, 5, None)), chance.choice(("0.50", "9.99"))
                )
                delta.append(held[id])
        chance.shuffle(delta)
        changes: dict[str, Any] = {"t": t(*delta)} if delta else {}
        rows = [(chance.choice("abcde"), chance.choice((1, 2, None)), 1) for _ in range(chance.randint(0, 5))]
        gone = [bag.pop(chance.randrange(len(bag))) for _ in range(min(len(bag), chance.randint(0, 3)))]
        bag += rows
        rows += [(*row[:2], -1) for row in gone]
        if rows:
            g, v, w = zip(*rows, strict=True)
            table = pa.table({"g": g, "v": pa.array(v, pa.int32()), "_weight": pa.array(w, pa.int64())})
            # As rows in this process, or as rows that tasks read: both in one epoch.
            changes["bag"] = table if chance.random() < 0.6 else table.to_pylist()
        if changes:
            flow.tick(changes)


def test_upserts_and_defaults(flow: Beside) -> None:
    flow.tick("t", t(one(1), one(2, "b", 2), one(3)))
    flow.tick("t", pa.table({"id": [2, 4], "v": pa.array([7, None], pa.int32())}), mode="upsert")
    assert flow.sql("SELECT * FROM t WHERE id IN (2, 4) ORDER BY id").to_pylist() == [
        {"id": 2, "g": "none", "v": 7, "amount": Decimal("1.50")},
        {"id": 4, "g": "none", "v": None, "amount": Decimal("1.50")},
    ]
    flow.tick("t", t(one(2, "z", weight=1), (4, "none", None, Decimal("1.50"), -1)), mode="upsert")
    day = datetime.date(2024, 2, 29)
    flow.tick(
        "two", pa.table({"a": ["x", "x", "y"], "b": [day, day.replace(day=1), day], "v": [1.5, 2.5, None]})
    )
    flow.tick("two", pa.table({"A": ["x"], "B": [day], "V": [-0.0]}), mode="upsert")


def test_rows_that_come_and_go_in_one_delta(flow: Beside) -> None:
    flow.tick("t", t(one(1), one(1, weight=-1), one(2)))
    flow.tick("t", t(one(2, weight=-1), one(2, "b"), one(2, "b", weight=-1), one(2, "c")))
    flow.tick("t", t(one(5, weight=0)))
    flow.tick("bag", pa.table({"g": ["a"] * 4, "v": [1, 1, 1, 1], "_weight": [2, -1, 1, -2]}))


def added(*rows: tuple[str | None, int | None]) -> pa.Table:
    """Rows of log or bag that come without weights: nothing is removed."""
    g, v = zip(*rows, strict=True)
    return pa.table({"g": pa.array(g, pa.string()), "v": pa.array(v, pa.int32())})


@pytest.mark.parametrize("seed", range(3))
def test_rows_that_are_only_added(flow: Beside, seed: int) -> None:
    """Tasks check these where they read them, so that a table's batches have any hashes; then some are removed."""
    chance = random.Random(seed)
    held: list[tuple[str, int | None]] = []
    for _ in range(6):
        rows = [(chance.choice("abcz"), chance.choice((1, 2, 5, None))) for _ in range(chance.randint(1, 9))]
        held += rows
        changes: dict[str, Any] = {"log": added(*rows)}
        if chance.random() < 0.5:  # both without a shuffle, or as rows of this process
            more = added(*rows[: chance.randint(1, len(rows))])
            changes["bag"] = more if chance.random() < 0.6 else more.to_pylist()
        if chance.random() < 0.3:  # with a table that has a key, so that all rows are shuffled first
            changes["two"] = pa.table({"a": ["x"], "b": [datetime.date(2024, 1, 1 + flow.epoch % 28)]})
        flow.tick(changes)
        gone = [held.pop(chance.randrange(len(held))) for _ in range(chance.randint(0, len(held) // 2))]
        if gone:
            table = added(*gone)
            flow.tick("log", table.append_column("_weight", pa.array([-1] * len(gone), pa.int64())))


REFUSED_WHERE_READ = {
    "NULL": added(("a", 1), (None, 1), ("b", 2)),
    "CHECK": added(("a", 1), ("b", 100), ("c", 3)),
    "text for a number": pa.table({"g": ["a"], "v": ["1"]}),
    "too large": pa.table({"g": ["a", "b"], "v": [1, 2**40]}),
    "unknown column": pa.table({"g": ["a"], "other": [5]}),
    "a column twice": pa.table([pa.array(["a"]), pa.array(["a"])], names=["g", "g"]),
    "a division by zero in a view": added(("a", 1), ("b", 0)),
}


@pytest.mark.parametrize("what", REFUSED_WHERE_READ)
def test_refusals_of_rows_that_are_only_added(flow: Beside, what: str) -> None:
    flow.tick("log", added(("a", 1), ("b", 2)))
    epoch = flow.epoch
    for _ in range(4):  # in other partitions each time
        with pytest.raises(penstock.PenstockError):
            flow.tick({"log": REFUSED_WHERE_READ[what], "bag": added(("q", 1))})
        assert flow.epoch == epoch
    flow.tick("log", added(("c", 3)))


REFUSED = {
    "a key twice": ("t", t(one(7), one(7, "b"))),
    "a key that is there": ("t", t(one(1, "other"))),
    "a row that is not there": ("t", t(one(8, weight=-1))),
    "another row under its key": ("t", t(one(1, "other", weight=-1))),
    "NULL": ("t", t(one(7, None))),
    "no key": ("t", pa.table({"g": ["a"], "v": [1]})),
    "CHECK": ("t", t(one(6), one(7, v=100))),
    "CHECK of another column": ("t", t(one(7, amount="-0.01"))),
    "text for a number": ("t", pa.table({"id": ["1"], "g": ["a"]})),
    "number for a text": ("t", pa.table({"id": [9], "g": [5]})),
    "too large": ("t", pa.table({"id": [9], "v": [2**40]})),
    "not exact": ("t", pa.table({"id": [9], "amount": [Decimal("1.005")]})),
    "unknown column": ("t", pa.table({"id": [9], "other": [5]})),
    "a column twice": ("t", pa.table([pa.array([9]), pa.array([9])], names=["id", "id"])),
    "weights of a wrong type": ("t", pa.table({"id": [9], "_weight": [1.5]})),
    "a weight that is NULL": ("t", pa.table({"id": [9], "_weight": pa.array([None], pa.int64())})),
    "a weight of two for a key": ("t", t(one(9, weight=2))),
    "more of a bag than there are": ("bag", pa.table({"g": ["a"], "v": [1], "_weight": [-3]})),
    "a division by zero in a view": ("t", t(one(11), one(12, v=0))),
}  # fmt: skip


def test_refusals(flow: Beside) -> None:
    """`Beside` compares the class, the message and the hint with those of the inline flow, and what is held."""
    flow.tick({"t": t(one(1), one(2, "b")), "bag": [{"g": "a", "v": 1}, {"g": "a", "v": 1}]})
    also = pa.table({"a": ["q"], "b": [datetime.date(2020, 1, 1)]})
    epoch = flow.epoch
    for table, delta in [*REFUSED.values(), *REFUSED.values()]:  # in other partitions each time
        with pytest.raises(penstock.PenstockError):
            flow.tick({table: delta, "two": also})
        assert flow.epoch == epoch
    flow.tick("t", t(one(20)))


def test_which_of_two_upserts_is_the_last_must_be_known(flow: Beside) -> None:
    """Rows of a list have an order, those of a DataFrame have none: the one thing that inline takes and tasks do not."""
    flow._core.executor = Partitioned(Ranges.even(2))
    with pytest.raises(InvalidDelta, match="several rows for one key"):
        penstock.Flow.tick(flow, "t", t(one(3), one(3, "b")), mode="upsert")
    flow.tick("t", t(one(3)))


def test_upserts_without_a_key_are_refused(flow: Beside) -> None:
    with pytest.raises(Exception, match="no primary key"):
        flow.tick("bag", pa.table({"g": ["a"]}), mode="upsert")
