"""Change feeds of Delta, Iceberg and Debezium become weights, from Arrow and on Spark alike."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import pandas as pd
import pyarrow as pa
import pytest

import penstock
from penstock.engine.change_feed import from_change_feed
from penstock.run.spark.change_feed import feed_error
from penstock.run.spark.change_feed import from_change_feed as spark_feed

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ROW = pa.struct([("id", pa.int64()), ("who", pa.string())])
ENVELOPE = pa.schema([("before", ROW), ("after", ROW), ("op", pa.string()), ("ts_ms", pa.int64())])


def changes(kind: str, codes: list[str | None]) -> pa.Table:
    about = {"delta": "_commit_version", "iceberg": "_change_ordinal"}[kind]
    return pa.table(
        {
            "id": pa.array(range(len(codes)), pa.int64()),
            "who": ["ann"] * len(codes),
            "_change_type": pa.array(codes, pa.string()),
            about: pa.array([7] * len(codes), pa.int64()),
        }
    )


def envelopes(*rows: tuple[str | None, Any, Any]) -> pa.Table:
    made = [{"before": before, "after": after, "op": op, "ts_ms": 1} for op, before, after in rows]
    return pa.Table.from_pylist(made, ENVELOPE)


def row(id: int, who: str) -> dict[str, Any]:
    return {"id": id, "who": who}


DELTA = changes("delta", ["insert", "update_preimage", "update_postimage", "delete"])
ICEBERG = changes("iceberg", ["INSERT", "UPDATE_BEFORE", "UPDATE_AFTER", "DELETE"])
DEBEZIUM = envelopes(
    ("c", None, row(1, "ann")),
    ("r", None, row(2, "bob")),
    ("u", row(1, "ann"), row(1, "eve")),
    ("d", row(2, "bob"), None),
    (None, None, None),
)
WRAPPED = pa.table({"schema": ["?"] * 5, "payload": DEBEZIUM.to_struct_array().combine_chunks()})

Turn = Callable[[pa.Table, str], list[tuple[Any, ...]]]


@pytest.fixture(params=["arrow", "spark"])
def turn(request: pytest.FixtureRequest) -> Turn:
    """The rows and weights that a feed becomes, in order."""
    if request.param == "arrow":

        def arrow(data: pa.Table, wanted: str) -> list[tuple[Any, ...]]:
            return sorted(tuple(each.values()) for each in from_change_feed(data, wanted).to_pylist())

        return arrow
    spark: SparkSession = request.getfixturevalue("spark")

    def on_spark(data: pa.Table, wanted: str) -> list[tuple[Any, ...]]:
        try:
            return sorted(tuple(each) for each in spark_feed(spark.createDataFrame(data), wanted).collect())
        except Exception as error:
            raise feed_error(error) or error from None

    return on_spark


@pytest.mark.parametrize(("kind", "data"), [("delta", DELTA), ("iceberg", ICEBERG)])
@pytest.mark.parametrize("named", [True, False])
def test_operations_become_weights(turn: Turn, kind: str, data: pa.Table, named: bool) -> None:
    expected = [(0, "ann", 1), (1, "ann", -1), (2, "ann", 1), (3, "ann", -1)]
    assert turn(data, kind if named else "auto") == expected


@pytest.mark.parametrize("data", [DEBEZIUM, WRAPPED])
def test_envelopes_become_both_images(turn: Turn, data: pa.Table) -> None:
    expected = [(1, "ann", -1), (1, "ann", 1), (1, "eve", 1), (2, "bob", -1), (2, "bob", 1)]
    assert turn(data, "auto") == expected


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (changes("delta", ["insert", "upsert"]), "unknown operation.*upsert"),
        (changes("delta", [None]), "unknown operation.*(None|NULL)"),
        (changes("iceberg", ["insert"]), "unknown operation.*insert"),
        (envelopes(("x", None, row(1, "a"))), "unknown operation.*x"),
        (envelopes(("u", None, row(8, "a"))), "before"),
        (envelopes(("d", None, row(8, "a"))), "before"),
        (envelopes(("c", row(8, "a"), None)), "after"),
    ],
)
def test_what_means_nothing_is_refused_with_the_row(turn: Turn, data: pa.Table, message: str) -> None:
    with pytest.raises(penstock.InvalidDelta, match=message) as caught:
        turn(data, "auto")
    assert "id" in caught.value.message


def test_emptying_a_table_is_refused() -> None:
    with pytest.raises(penstock.InvalidDelta, match="empties its table"):
        from_change_feed(envelopes(("t", None, None)), "debezium")


def test_a_feed_without_its_column(turn: Turn) -> None:
    with pytest.raises(penstock.InvalidDelta, match='has a column "op"'):
        turn(pa.table({"before": [1], "after": [2]}), "debezium")
    with pytest.raises(penstock.InvalidDelta, match='unknown change feed "oracle"'):
        turn(DELTA, "oracle")


@pytest.fixture
def flow() -> Iterator[penstock.Flow]:
    flow = penstock.Flow()
    flow.sql("CREATE TABLE people (id BIGINT PRIMARY KEY, who TEXT)")
    flow.sql("CREATE MATERIALIZED VIEW names AS SELECT who, count(*) AS n FROM people GROUP BY who")
    yield flow
    flow.close()


def test_a_tick_takes_a_feed(flow: penstock.Flow) -> None:
    flow.tick("people", DEBEZIUM)
    assert flow.sql("SELECT * FROM names").to_pylist() == [{"who": "eve", "n": 1}]
    flow.tick("people", changes("delta", ["insert"]))
    flow.tick("people", pd.DataFrame(changes("iceberg", ["DELETE"]).to_pydict()), change_feed="iceberg")
    flow.tick("people", [{"id": 9, "who": "zoe", "_change_type": "insert"}], change_feed="delta")
    assert flow.sql("SELECT id FROM people ORDER BY id").to_pylist() == [{"id": 1}, {"id": 9}]
    with pytest.raises(penstock.InvalidDelta, match="says itself"):
        flow.tick("people", DELTA, change_feed="delta", mode="upsert")


def test_columns_of_the_table_itself_are_no_feed(flow: penstock.Flow) -> None:
    flow.sql("CREATE TABLE log (id BIGINT, who TEXT, _change_type TEXT, _commit_version BIGINT)")
    flow.tick("log", DELTA)
    assert flow.sql("SELECT count(*) AS n FROM log").to_pylist() == [{"n": 4}]
