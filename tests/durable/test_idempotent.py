"""The same tick twice: by its offset, by its key, by its content; refused ticks; after a crash."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pytest

import penstock
from penstock import Flow
from penstock.base.errors import InvalidDelta, InvalidOption, ReadOnly, TransactionError
from penstock.base.limits import IDEMPOTENCY_KEY_BYTES_MAX

SCHEMA = pa.schema([pa.field("id", pa.int64()), pa.field("v", pa.string())])


@pytest.fixture(params=["in memory", "on storage"])
def flow(request: pytest.FixtureRequest) -> Iterator[Flow]:
    url = None if request.param == "in memory" else f"memory://{uuid.uuid4().hex}"
    with Flow(url) as flow:
        flow.register_source("a", SCHEMA, "id")
        flow.register_source("b", SCHEMA)
        yield flow


def row(id: int, v: str = "x") -> list[dict[str, Any]]:
    return [{"id": id, "v": v}]


def ids(flow: Flow, table: str) -> list[int]:
    return sorted(flow.snapshot(table)["id"].to_pylist())


# -- offsets ---------------------------------------------------------------------------------------


def test_an_offset_is_applied_once(flow: Flow) -> None:
    assert flow.offset("a") is None
    first = flow.tick("a", row(1), offset=10)
    again = flow.tick("a", row(1), offset=10)
    assert (first.repeated, again.repeated, again.rows_in, again.epoch) == ((), ("a",), 0, first.epoch)
    assert flow.tick("a", row(9), offset=7).repeated == ("a",)  # it goes backwards: it was applied before
    assert flow.tick("a", row(2), offset=11).repeated == ()
    assert (ids(flow, "a"), flow.offset("A"), flow.epoch) == ([1, 2], 11, 2)
    flow.tick("a", row(3))  # a tick without an offset leaves it as it is
    assert flow.offset("a") == 11


def test_an_offset_of_text_is_only_compared_with_the_last(flow: Flow) -> None:
    flow.tick("a", row(1), offset="file-2:10")
    assert flow.tick("a", row(1), offset="file-2:10").repeated == ("a",)
    assert flow.tick("a", row(2), offset="file-1:99").repeated == ()
    with pytest.raises(InvalidDelta, match="not of the kind of the last one"):
        flow.tick("a", row(3), offset=5)
    assert (ids(flow, "a"), flow.offset("a")) == ([1, 2], "file-1:99")


def test_several_sources_each_with_its_offset(flow: Flow) -> None:
    flow.tick({"a": row(1), "b": row(1)}, offset={"a": 1, "B": 100})
    done = flow.tick({"A": row(1), "b": row(2)}, offset={"a": 1, "b": 101})
    assert done.repeated == ("a",)
    assert (ids(flow, "a"), ids(flow, "b")) == ([1], [1, 2])
    assert (flow.offset("a"), flow.offset("b")) == (1, 101)
    flow.tick({"a": row(2), "b": row(3)}, offset=200)  # one for all
    assert (flow.offset("a"), flow.offset("b")) == (200, 200)
    with pytest.raises(InvalidDelta, match='"b" has a delta but no offset'):
        flow.tick({"a": row(7), "b": row(7)}, offset={"a": 201})
    with pytest.raises(InvalidDelta, match=r'(?s)"b" has an offset but no delta.*"b": '):
        flow.tick({"a": row(7)}, offset={"a": 201, "b": 201})
    assert (ids(flow, "a"), flow.offset("a")) == ([1, 2], 200)


def test_an_offset_without_rows_is_an_epoch(flow: Flow) -> None:
    done = flow.tick({"a": [], "b": row(1)}, offset={"a": 5, "b": 1})
    assert (done.epoch, flow.offset("a")) == (1, 5)
    done = flow.tick("a", [], offset=6)
    assert (done.epoch, done.rows_in, flow.epoch, flow.offset("a")) == (2, 0, 2, 6)
    assert flow.tick("a", row(1), offset=6).repeated == ("a",)
    assert flow.tick("a", []).epoch == flow.epoch == 2  # nothing at all is none


def test_what_is_no_offset(flow: Flow) -> None:
    for offset in (1.5, True, b"x", [1], {"a": None}):
        with pytest.raises(InvalidDelta, match="an offset is a whole number or text"):
            flow.tick("a", row(1), offset=offset)  # type: ignore[arg-type]
    assert flow.epoch == 0


# -- keys ------------------------------------------------------------------------------------------


def test_a_key_is_applied_once(flow: Flow) -> None:
    first = flow.tick("a", row(1), idempotency_key="é-1")
    flow.tick("a", row(2))
    again = flow.tick("a", row(1), idempotency_key="é-1")
    assert (again.epoch, again.repeated, again.rows_in, again.views) == (first.epoch, ("a",), 0, {})
    other = flow.tick({"a": row(3), "b": row(3)}, idempotency_key="é-1")  # the key decides, not the content
    assert (other.epoch, other.repeated) == (first.epoch, ("a", "b"))
    assert (ids(flow, "a"), ids(flow, "b"), flow.epoch) == ([1, 2], [], 2)
    for key in ("", "k" * (IDEMPOTENCY_KEY_BYTES_MAX + 1), 5, b"x"):
        with pytest.raises(InvalidDelta, match="an idempotency key is text"):
            flow.tick("a", row(4), idempotency_key=key)  # type: ignore[arg-type]


def test_a_key_and_an_offset_in_one_tick(flow: Flow) -> None:
    flow.tick("a", row(1), idempotency_key="k1", offset=1)
    assert flow.tick("a", row(2), idempotency_key="k1", offset=2).repeated == ("a",)
    assert flow.offset("a") == 1  # that tick was not applied, so nor was its offset
    done = flow.tick("a", row(1), idempotency_key="k2", offset=1)
    assert (done.repeated, ids(flow, "a")) == (("a",), [1])
    assert flow.tick("a", row(2), idempotency_key="k2", offset=2).repeated == ("a",)  # k2 is used


@pytest.mark.parametrize("limit", [3])
def test_the_oldest_keys_are_forgotten(flow: Flow, limit: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("penstock.commit.once.IDEMPOTENCY_KEYS_MAX", limit)
    for i in range(6):
        flow.tick("b", row(i), idempotency_key=f"k{i}")
    assert [bool(flow.tick("b", [], idempotency_key=f"k{i}").repeated) for i in (5, 4, 3)] == [True] * 3
    assert flow.tick("b", row(0), idempotency_key="k0").repeated == ()


# -- refused ticks ---------------------------------------------------------------------------------


def test_a_refused_tick_uses_up_neither_key_nor_offset(flow: Flow) -> None:
    flow.sql("CREATE MATERIALIZED VIEW v AS SELECT CAST(10 AS DECIMAL) % id AS q FROM a")
    flow.tick("a", row(1), offset=1)
    bad: tuple[dict[str, Any], ...] = (
        {"a": row(1)},  # the key exists
        {"a": [{"id": "x"}]},  # the wrong type
        {"a": [{"id": None}]},
        {"a": row(0)},  # the view cannot be computed
        {"a": row(2), "b": [{"id": 5, "v": "x", "_weight": -1}]},  # not there to be removed
        {"a": row(2), "nothing": row(1)},
    )
    for delta in bad:
        with pytest.raises(penstock.PenstockError):
            flow.tick(delta, offset=2, idempotency_key="k")
    assert (flow.offset("a"), flow.offset("b"), flow.epoch, ids(flow, "a")) == (1, None, 1, [1])
    done = flow.tick({"a": row(2), "b": row(2)}, offset=2, idempotency_key="k")
    assert (done.repeated, done.epoch, ids(flow, "a")) == ((), 2, [1, 2])


# -- content ---------------------------------------------------------------------------------------


def test_the_same_delta_twice_in_a_row_is_dropped(flow: Flow) -> None:
    flow.register_source("s", SCHEMA, dedup="content")
    data = [{"id": 1, "v": None}, {"id": 2, "v": "é"}]
    first = flow.tick("s", data)
    again = flow.tick("s", data)
    assert (first.repeated, again.repeated, again.rows_in, again.epoch) == ((), ("s",), 0, first.epoch)
    assert flow.tick("s", pa.Table.from_pylist(data, SCHEMA)).repeated == ("s",)  # however it is given
    assert flow.tick("s", pd.DataFrame(data)).repeated == ("s",)
    wider = pa.Table.from_pylist([{"id": 9, "v": "no"}, *data, {"id": 9, "v": "no"}], SCHEMA)
    assert flow.tick("s", wider.slice(1, 2)).repeated == ("s",)
    assert flow.repetitions("S") == 4
    assert flow.tick("s", []).repeated == ()  # nothing is no delta
    assert flow.tick("s", data).repeated == ("s",)
    assert flow.tick("s", data[::-1]).repeated == ()  # in another order it is another delta
    assert flow.tick("s", data).repeated == ()  # and this one is no longer the last
    assert (ids(flow, "s"), flow.repetitions("s"), flow.epoch) == ([1, 1, 1, 2, 2, 2], 5, 3)
    assert flow.repetitions("a") == 0


def test_repetition_is_seen_for_each_source(flow: Flow) -> None:
    flow.sql("CREATE TABLE s (id BIGINT, v TEXT) WITH (dedup = 'content')")
    flow.sql("CREATE TABLE u WITH (dedup = 'content') AS SELECT 1 AS id")
    flow.tick({"s": row(1), "a": row(1)})
    done = flow.tick({"s": row(1), "a": row(2)})
    assert (done.repeated, done.rows_in, ids(flow, "s"), ids(flow, "a")) == (("s",), 1, [1], [1, 2])
    with pytest.raises(penstock.PenstockError):
        flow.tick({"s": row(1), "a": row(2)})  # refused for a: nothing was dropped for good
    assert flow.repetitions("s") == 1
    flow.sql("INSERT INTO s VALUES (1, 'x')")  # statements say what they mean
    assert ids(flow, "s") == [1, 1]
    with pytest.raises(penstock.PenstockError):
        flow.tick({"s": row(5), "a": row(2)})
    assert flow.tick("s", row(5)).repeated == ()  # a refused delta is not one before
    assert flow.tick("s", row(5), offset=3).repeated == ("s",)
    assert flow.offset("s") == 3  # its content was there already, its offset was not
    flow.tick("u", [{"id": 2}])
    assert flow.tick("u", [{"id": 2}]).repeated == ("u",)


def test_defaults_of_the_moment_do_not_hide_a_repetition(flow: Flow) -> None:
    flow.sql(
        "CREATE TABLE s (id BIGINT, made TIMESTAMP DEFAULT now(), r DOUBLE DEFAULT random()) WITH (dedup = 'content')"
    )
    flow.tick("s", [{"id": 1}])
    assert flow.tick("s", [{"id": 1}]).repeated == ("s",)
    assert flow.tick("s", [{"id": 2}]).repeated == ()


def test_dedup_is_checked(flow: Flow) -> None:
    with pytest.raises(InvalidOption, match=r"(?s)dedup of .s. is 'hash'.*dedup = 'content'"):
        flow.register_source("s", SCHEMA, dedup="hash")
    with pytest.raises(InvalidOption, match='dedup of "s" is True'):
        flow.sql("CREATE TABLE s (id BIGINT) WITH (dedup)")


def test_a_source_is_not_registered_inside_a_transaction(flow: Flow) -> None:
    flow.sql("BEGIN")
    with pytest.raises(TransactionError, match="inside a transaction"):
        flow.register_source("s", SCHEMA)
    flow.sql("ROLLBACK")


# -- after opening again ---------------------------------------------------------------------------


def test_all_of_it_is_known_after_opening_again() -> None:
    url = f"memory://{uuid.uuid4().hex}"
    with Flow(url) as flow:
        flow.register_source("a", SCHEMA, "id")
        flow.register_source("s", SCHEMA, dedup="content")
        flow.tick("a", row(1), offset=2**70, idempotency_key="k")
        flow.tick("s", row(1), offset="p")
        with Flow(url, read_only=True) as reader:
            assert (reader.offset("a"), reader.offset("s")) == (2**70, "p")
            for work in (
                lambda: reader.register_source("x", SCHEMA),
                lambda: reader.tick("a", row(2), offset=1),
            ):
                with pytest.raises(ReadOnly):
                    work()
    for _ in range(2):
        with Flow(url) as flow:
            assert (flow.offset("a"), flow.offset("s")) == (2**70, "p")
            assert flow.tick("a", row(2), offset=2**70).repeated == ("a",)
            assert flow.tick("a", row(2), idempotency_key="k").epoch == 1
            assert flow.tick("s", row(1)).repeated == ("s",)
            assert (flow.epoch, ids(flow, "a"), ids(flow, "s"), flow.repetitions("s")) == (2, [1], [1], 1)
    with Flow(url) as flow:
        flow.sql("CREATE OR REPLACE TABLE a (id BIGINT)")  # another table: nothing has been read into it
        assert flow.offset("a") is None
        assert flow.tick("a", [{"id": 1}], offset=1).repeated == ()


CHILD = """
import sys, time
from penstock import Flow
flow = Flow(sys.argv[1], commit=sys.argv[2])
flow.sql("CREATE TABLE a (id BIGINT PRIMARY KEY)")
flow.sql("CREATE TABLE s (id BIGINT) WITH (dedup = 'content')")
for i in range(1, 4):
    flow.tick({"a": [{"id": i}], "s": [{"id": i}]}, offset={"a": i, "s": f"o{i}"}, idempotency_key=f"k{i}")
if sys.argv[2] == "visible":
    flow.flush()
print("acknowledged", flush=True)
time.sleep(60)
"""


@pytest.mark.parametrize("commit", ["durable", "visible"])
def test_all_of_it_is_known_after_a_crash(tmp_path: Path, commit: str) -> None:
    child = subprocess.Popen(
        [sys.executable, "-c", CHILD, str(tmp_path), commit],
        stdout=subprocess.PIPE,
        text=True,
        env=os.environ,
    )
    try:
        assert child.stdout is not None
        assert child.stdout.readline() == "acknowledged\n"
    finally:
        child.send_signal(signal.SIGKILL)
        child.communicate()
    with Flow(tmp_path) as flow:
        assert (flow.epoch, flow.offset("a"), flow.offset("s")) == (3, 3, "o3")
        for i in range(1, 4):
            done = flow.tick({"a": [{"id": i}], "s": [{"id": i}]}, idempotency_key=f"k{i}")
            assert (done.epoch, done.repeated) == (i, ("a", "s"))
            assert flow.tick("a", [{"id": i}], offset=i).repeated == ("a",)
        assert flow.tick("s", [{"id": 3}]).repeated == ("s",)
        assert (flow.epoch, ids(flow, "a"), ids(flow, "s")) == (3, [1, 2, 3], [1, 2, 3])
        assert flow.tick("a", [{"id": 4}], offset=4).epoch == 4
