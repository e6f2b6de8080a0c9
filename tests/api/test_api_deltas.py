"""What tick() takes, and what it refuses with nothing applied."""

from __future__ import annotations

import datetime
from decimal import Decimal
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import penstock
from penstock.base import errors
from rows import rows_of

ROWS = [
    {"id": 1, "customer": "ann", "amount": Decimal("10.00")},
    {"id": 2, "customer": "bob", "amount": None},
]


@pytest.fixture
def flow() -> Any:
    with penstock.Flow() as flow:
        flow.sql("CREATE TABLE orders (id BIGINT PRIMARY KEY, customer TEXT, amount DECIMAL(12,2))")
        flow.sql("CREATE TABLE clicks (page TEXT, n INTEGER)")
        flow.sql(
            "CREATE MATERIALIZED VIEW totals AS SELECT customer, sum(amount) AS total, count(*) AS n FROM orders GROUP BY customer"
        )
        flow.sql("CREATE MATERIALIZED VIEW pages AS SELECT page, sum(n) AS n FROM clicks GROUP BY page")
        yield flow


def held(flow: penstock.Flow, name: str) -> list[tuple[Any, ...]]:
    return sorted(rows_of(flow.snapshot(name)), key=str)


AS_WRITTEN = {
    "list of dicts": lambda rows: rows,
    "pyarrow table": lambda rows: pa.Table.from_pylist(rows),
    "pyarrow batch": lambda rows: pa.RecordBatch.from_pylist(rows),
    "chunked table": lambda rows: pa.concat_tables([pa.Table.from_pylist([row], pa.Table.from_pylist(rows).schema) for row in rows]),
    "reader": lambda rows: pa.Table.from_pylist(rows).to_reader(),
    "polars": lambda rows: pl.DataFrame(pa.Table.from_pylist(rows)),
    "pandas": lambda rows: pd.DataFrame(rows),
    "large strings": lambda rows: pa.Table.from_pylist(rows).cast(
        pa.schema([("id", pa.int32()), ("customer", pa.large_string()), ("amount", pa.decimal128(20, 2))])
    ),
    "dictionary": lambda rows: pa.Table.from_pylist(rows).set_column(1, "customer", pa.array([r["customer"] for r in rows]).dictionary_encode()),
    "other order": lambda rows: [dict(reversed(row.items())) for row in rows],
}  # fmt: skip


@pytest.mark.parametrize("form", AS_WRITTEN)
def test_a_delta_is_anything_with_rows(flow: penstock.Flow, form: str) -> None:
    flow.tick("orders", AS_WRITTEN[form](ROWS))
    assert held(flow, "orders") == [(1, "ann", Decimal("10.00")), (2, "bob", None)]
    assert held(flow, "totals") == [("ann", Decimal("10.00"), 1), ("bob", None, 1)]


@pytest.mark.parametrize("form", ["list of dicts", "pyarrow table", "pyarrow batch", "polars", "pandas"])
def test_weights_add_and_remove(flow: penstock.Flow, form: str) -> None:
    wrap = AS_WRITTEN[form]
    flow.tick("clicks", wrap([{"page": "a", "n": 1, "_weight": 3}, {"page": "b", "n": 2, "_weight": 1}]))
    assert held(flow, "clicks") == [("a", 1)] * 3 + [("b", 2)]
    flow.tick("clicks", wrap([{"page": "a", "n": 1, "_weight": -2}, {"page": "b", "n": 2, "_weight": 0}]))
    assert held(flow, "clicks") == [("a", 1), ("b", 2)]
    assert held(flow, "pages") == [("a", 1), ("b", 2)]


def test_weight_zero_is_ignored_even_for_rows_that_are_not_there(flow: penstock.Flow) -> None:
    flow.tick("orders", [{**ROWS[0], "_weight": 1}, {**ROWS[1], "_weight": 0}])
    assert held(flow, "orders") == [(1, "ann", Decimal("10.00"))]
    flow.tick("orders", [{"id": 1, "customer": "nobody", "amount": None, "_weight": 0}])
    assert held(flow, "orders") == [(1, "ann", Decimal("10.00"))]


@pytest.mark.parametrize("count", [1, 6])
@pytest.mark.parametrize("weight", [2**31, -(2**31), 2**62])
@pytest.mark.parametrize("form", ["list of dicts", "pyarrow table"])
def test_a_weight_whose_sums_would_not_fit_is_refused(
    flow: penstock.Flow, form: str, weight: int, count: int
) -> None:
    """The count of two rows of weight 2**62 was an address in memory."""
    rows = [{"page": "a", "n": 1, "_weight": 1}] * (count - 1) + [{"page": "a", "n": 1, "_weight": weight}]
    with pytest.raises(errors.InvalidDelta, match="WEIGHT_MAX"):
        flow.tick("clicks", AS_WRITTEN[form](rows))
    flow.tick("clicks", AS_WRITTEN[form]([{"page": "a", "n": 1, "_weight": 2**31 - 1}] * 3))
    assert held(flow, "pages") == [("a", 3 * (2**31 - 1))]


def test_a_missing_column_takes_its_default(flow: penstock.Flow) -> None:
    flow.sql("CREATE TABLE d (a INTEGER, b TEXT DEFAULT 'x', c INTEGER)")
    flow.tick("d", [{"a": 1}, {"a": 2}])
    flow.tick("d", pa.table({"a": [3], "c": [9]}))
    assert held(flow, "d") == [(1, "x", None), (2, "x", None), (3, "x", 9)]


def test_an_existing_key_is_refused_unless_it_is_an_upsert(flow: penstock.Flow) -> None:
    flow.tick("orders", ROWS)
    with pytest.raises(errors.UniqueViolation) as caught:
        flow.tick(
            "orders", [{"id": 3, "customer": "eve", "amount": 1}, {"id": 1, "customer": "ann", "amount": 5}]
        )
    assert caught.value.hint
    assert "upsert" in caught.value.hint
    assert len(held(flow, "orders")) == 2
    flow.tick(
        "orders",
        [{"id": 3, "customer": "eve", "amount": 1}, {"id": 1, "customer": "ann", "amount": 5}],
        mode="upsert",
    )
    assert held(flow, "totals") == [
        ("ann", Decimal("5.00"), 1),
        ("bob", None, 1),
        ("eve", Decimal("1.00"), 1),
    ]
    flow.tick("orders", [{"id": 1, "customer": "bob", "amount": 7}], mode="upsert")
    assert held(flow, "totals") == [("bob", Decimal("7.00"), 2), ("eve", Decimal("1.00"), 1)]


def test_the_last_row_of_a_key_wins_in_an_upsert(flow: penstock.Flow) -> None:
    flow.tick("orders", [{"id": 1, "customer": "a", "amount": i} for i in range(5)], mode="upsert")
    assert held(flow, "orders") == [(1, "a", Decimal("4.00"))]


def test_an_upsert_needs_a_key_and_a_mode_must_be_known(flow: penstock.Flow) -> None:
    with pytest.raises(penstock.PenstockError):
        flow.tick("clicks", [{"page": "a", "n": 1}], mode="upsert")
    with pytest.raises(penstock.PenstockError):
        flow.tick("orders", ROWS, mode="whatever")
    assert held(flow, "orders") == []


def test_removing_a_row_that_is_not_there_is_refused_with_the_row(flow: penstock.Flow) -> None:
    flow.tick({"orders": ROWS, "clicks": [{"page": "a", "n": 1}]})
    for table, row in (
        ("orders", {"id": 1, "customer": "ann", "amount": Decimal("10.01")}),
        ("orders", {"id": 77, "customer": "ann", "amount": Decimal("10.00")}),
        ("clicks", {"page": "zz", "n": 1}),
        ("clicks", {"page": "a", "n": None}),
    ):
        with pytest.raises(errors.MissingRow) as caught:
            flow.tick(table, [{**row, "_weight": -1}])
        assert str(next(iter(row.values()))) in str(caught.value)
        assert caught.value.hint
    with pytest.raises(errors.MissingRow):
        flow.tick("clicks", [{"page": "a", "n": 1, "_weight": -2}])
    assert held(flow, "clicks") == [("a", 1)]
    assert len(held(flow, "orders")) == 2


def test_a_tick_is_atomic_over_its_sources(flow: penstock.Flow) -> None:
    flow.tick("orders", ROWS)
    before = {name: held(flow, name) for name in ("orders", "clicks", "totals", "pages")}
    epoch = flow.tick("clicks", []).epoch
    bad = [
        {"clicks": [{"page": "a", "n": 1}], "orders": [{"id": 1, "customer": "x", "amount": 1}]},
        {
            "clicks": [{"page": "a", "n": 1}],
            "orders": [{"id": 9, "customer": "x", "amount": 1, "_weight": -1}],
        },
        {
            "orders": [{"id": 9, "customer": "x", "amount": 1}],
            "clicks": [{"page": "a", "n": 1, "_weight": -1}],
        },
        {"orders": [{"id": 9, "customer": "x", "amount": 1}], "nowhere": [{"page": "a"}]},
        {"orders": [{"id": 9, "customer": "x", "amount": 1}], "clicks": [{"page": "a", "n": "many"}]},
        {"orders": [{"id": 9, "customer": "x", "amount": 1}], "pages": [{"page": "a", "n": 1}]},
    ]
    for delta in bad:
        with pytest.raises(penstock.PenstockError):
            flow.tick(delta)
        assert {name: held(flow, name) for name in before} == before
    assert flow.tick({"orders": [{"id": 9, "customer": "x", "amount": 1}], "clicks": []}).epoch > epoch


@pytest.mark.parametrize(
    "delta",
    [
        [{"id": 1, "customer": "a", "amount": 1, "extra": 2}],
        [{"id": "one", "customer": "a", "amount": 1}],
        [{"id": 1, "customer": 5, "amount": 1}],
        [{"id": 2**70, "customer": "a", "amount": 1}],
        [{"id": 1, "customer": "a", "amount": Decimal("1e20")}],
        [{"id": None, "customer": "a", "amount": 1}],
        [{"id": 1, "customer": "a", "amount": 1, "_weight": 1.5}],
        [{"id": 1, "customer": "a", "amount": 1, "_weight": None}],
        [{"id": 1, "customer": "a", "amount": 1, "_weight": 2}],
        [{"id": 1, "customer": "a", "amount": 1, "_weight": 2**63}],
        [{"id": 1, "customer": "a\ud800", "amount": 1}],
        [{"id": 1, "customer": "a", "ID": 2}],
        [1, 2, 3],
        "text",
        42,
        None,
        pa.table({"id": pa.array([1.5]), "customer": ["a"], "amount": [1]}),
        pa.table({"id": [1], "customer": [b"bytes"], "amount": ["x"]}),
        pa.table({"id": [1], "customer": ["a"], "amount": [1], "_weight": ["x"]}),
        pa.table({"id": [1], "customer": ["a"], "_weight": pa.array([2**63], pa.uint64())}),
        pa.table({"id": [1], "ID": [2]}),
    ],
    ids=repr,
)
def test_what_is_not_a_delta_is_refused(flow: penstock.Flow, delta: Any) -> None:
    with pytest.raises(penstock.PenstockError):
        flow.tick("orders", delta)
    assert held(flow, "orders") == []
    flow.tick("orders", ROWS)
    assert len(held(flow, "orders")) == 2


def test_a_number_beyond_any_float_is_refused() -> None:
    with penstock.Flow() as flow:
        flow.sql("CREATE TABLE t (x DOUBLE PRECISION)")
        with pytest.raises(errors.TypeMismatch):
            flow.tick("t", [{"x": 10**400}])


@pytest.mark.parametrize("count", [1, 6])
@pytest.mark.parametrize("form", ["list of dicts", "pyarrow table", "polars"])
def test_a_number_too_large_for_a_float_does_not_become_infinite(form: str, count: int) -> None:
    with penstock.Flow() as flow:
        flow.sql("CREATE TABLE t (x FLOAT)")
        infinite = [{"x": float("inf")}, {"x": None}, {"x": 1.5}, *[{"x": float("-inf")}] * count]
        with pytest.raises(errors.TypeMismatch, match="too large"):
            flow.tick("t", AS_WRITTEN[form]([*infinite, {"x": 1e300}]))
        flow.tick("t", AS_WRITTEN[form](infinite))
        assert flow.snapshot("t").num_rows == 3 + count


def test_a_column_that_rows_write_in_two_ways_is_refused(flow: penstock.Flow) -> None:
    """One of the two was NULL in every row, and which of them was a matter of chance."""
    with pytest.raises(errors.InvalidDelta, match='names the column "n" in two ways'):
        flow.tick("clicks", [{"page": "a", "n": 1}, {"page": "b", "N": 2}])
    assert held(flow, "clicks") == []


@pytest.mark.parametrize("count", [1, 6])
@pytest.mark.parametrize("text", [pa.string(), pa.large_string(), pa.list_(pa.string())], ids=str)
def test_bytes_that_are_no_text_are_refused(count: int, text: pa.DataType) -> None:
    """Arrow lets them pass; they were taken, and then nobody could read the table any more."""
    scalar = text.value_type if pa.types.is_list(text) else text
    texts = pa.array([b"\xff", *[b"a"] * count], pa.binary())
    wrong = texts.cast(pa.large_binary() if pa.types.is_large_string(scalar) else pa.binary()).view(scalar)
    if pa.types.is_list(text):
        wrong = pa.ListArray.from_arrays(pa.array(range(len(wrong) + 1), pa.int32()), wrong)
    with penstock.Flow() as flow:
        flow.register_source("t", pa.schema([("s", text)]))
        with pytest.raises(errors.TypeMismatch, match="UTF8"):
            flow.tick("t", pa.table({"s": wrong}).slice(0, count))
        flow.tick("t", pa.table({"s": wrong}).slice(1))
        assert flow.snapshot("t").num_rows == count


@pytest.mark.parametrize("count", [1, 6])
@pytest.mark.parametrize("form", ["list of dicts", "pyarrow table"])
def test_a_uuid_is_one_however_it_is_written(count: int, form: str) -> None:
    """A text that was none was taken, and then no query could read the table any more."""
    one, give = "00000000-0000-0000-0000-00000000000a", AS_WRITTEN[form]
    with penstock.Flow() as flow:
        flow.sql("CREATE TABLE t (u UUID)")
        flow.sql("CREATE MATERIALIZED VIEW v AS SELECT u, count(*) AS n FROM t GROUP BY u")
        for text in (one, one.upper(), "{" + one + "}", one.replace("-", "")):
            flow.tick("t", give([{"u": text}] * count))
        assert flow.snapshot("v").to_pylist() == [{"u": one, "n": 4 * count}]
        for text in ("none", "", one + "0"):
            with pytest.raises(errors.TypeMismatch):
                flow.tick("t", give([{"u": text}] * count))
        assert all(check.equal for check in flow.verify())


@pytest.mark.parametrize("count", [1, 6])
@pytest.mark.parametrize("form", ["list of dicts", "pyarrow table"])
def test_json_is_what_duckdb_reads_as_json(count: int, form: str) -> None:
    """Other text was taken too, and then neither SELECT nor DELETE could read the table any more."""
    good = [
        '{"a": 1}',
        "null",
        " [1, NaN] ",
        "[1,]",
        '"\\ud83d\\ude00"',
        "1" * 5000,
        "[" * 900 + "]" * 900,
        None,
    ]
    bad = ["{bad", "", "'a'", '"\\ud800"', "01"]
    with penstock.Flow() as flow:
        flow.sql("CREATE TABLE t (j JSON)")
        for text in bad:
            with pytest.raises(errors.TypeMismatch, match="malformed JSON"):
                flow.tick("t", AS_WRITTEN[form]([{"j": text}] * count))
        for text in good:
            flow.tick("t", AS_WRITTEN[form]([{"j": text}] * count))
        found = flow.sql("SELECT CAST(j AS VARCHAR) AS j FROM t").column("j").to_pylist()
        assert sorted(map(str, found)) == sorted(map(str, good * count))


def test_all_kinds_of_values_come_back_as_they_went_in() -> None:
    with penstock.Flow() as flow:
        schema = pa.schema([
            ("b", pa.bool_()), ("i", pa.int16()), ("f", pa.float32()), ("d", pa.decimal128(30, 5)), ("s", pa.string()),
            ("x", pa.binary()), ("day", pa.date32()), ("t", pa.time64("us")), ("ts", pa.timestamp("us")),
            ("tz", pa.timestamp("us", tz="UTC")), ("l", pa.list_(pa.int64())), ("st", pa.struct([("p", pa.int32()), ("q", pa.string())])),
        ])  # fmt: skip
        flow.register_source("t", schema)
        flow.register_view("v", "SELECT * FROM t")
        utc = datetime.UTC
        table = pa.Table.from_pylist([
            {"b": True, "i": -5, "f": 0.1, "d": Decimal("1234567890123456789.12345"), "s": "ä", "x": b"\x00\xff", "day": datetime.date(1, 1, 1),
             "t": datetime.time(23, 59, 59, 999999), "ts": datetime.datetime(2024, 2, 29, 1, 2, 3, 4), "tz": datetime.datetime(2024, 2, 29, tzinfo=utc),
             "l": [1, None, 3], "st": {"p": 1, "q": None}},
            dict.fromkeys(schema.names),
        ], schema)  # fmt: skip
        flow.tick("t", table)
        assert flow.snapshot("v").to_pylist() == table.to_pylist()
        flow.tick("t", table.append_column("_weight", pa.array([-1, -1])))
        assert flow.snapshot("v").num_rows == 0


def test_numpy_backed_frames_with_gaps(flow: penstock.Flow) -> None:
    """pandas says a missing number as NaN in a float column: it is NULL for an integer column."""
    frame = pd.DataFrame({"page": ["a", None], "n": pd.array([1, None], dtype="Int32")})
    flow.tick("clicks", frame)
    assert held(flow, "clicks") == sorted([("a", 1), (None, None)], key=str)
    frame["_weight"] = np.array([-1, -1])
    flow.tick("clicks", frame)
    assert held(flow, "clicks") == []


def test_rows_do_not_change_when_their_giver_writes_to_them_later() -> None:
    """Arrow is often made over somebody's numpy array without a copy."""
    with penstock.Flow() as flow:
        flow.sql("CREATE TABLE t (k BIGINT)")
        array = np.arange(3)
        frame = pd.DataFrame({"k": [7, 8]})
        flow.tick("t", pa.table({"k": array}))
        flow.tick("t", frame)
        array[:] = 99
        frame.loc[0, "k"] = 55
        assert held(flow, "t") == [(0,), (1,), (2,), (7,), (8,)]
