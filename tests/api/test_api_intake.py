"""Values that tick() and parameters take: exactly, or refused in our words with nothing applied."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import penstock
from penstock.base import errors
from penstock.base.limits import ERROR_VALUE_LENGTH_MAX, FEW_ROWS_MAX
from penstock.engine.shown_value import shorten

MANY = FEW_ROWS_MAX + 1  # rows that are no longer held as tuples
WITH_FRACTION: tuple[tuple[str, Any, str], ...] = (
    ("INT", 1.9, "1.9"),
    ("INT", Decimal("1.5"), "1.5"),
    ("INT", np.float32(1.5), "1.5"),
    ("BIGINT", np.float64(-0.5), "-0.5"),
    ("UTINYINT", Fraction(3, 2), "3/2"),
    ("UBIGINT", 2.5, "2.5"),
    ("HUGEINT", 1.5, "1.5"),
    ("HUGEINT", Decimal("1.5"), "1.5"),
    ("INT[]", [1, 1.5], "1.5"),
    ("INT[]", np.array([1.5]), "1.5"),
    ("INT[][]", [[1], None, [Decimal("1.5")]], "1.5"),
    ("STRUCT(a TEXT, b INT)", {"a": "x", "b": 1.5}, "1.5"),
    ("STRUCT(a TEXT, b INT)", ("x", 1.5), "1.5"),
    ("MAP(TEXT, INT)", {"a": 1.5}, "1.5"),
    ("MAP(INT, TEXT)", [(1.5, "a")], "1.5"),
    ("STRUCT(a INT[])[]", [{"a": [1, 1.5]}], "1.5"),
)
WHOLE: tuple[tuple[str, Any, Any], ...] = (
    ("INT", 1.0, 1),
    ("INT", Decimal("2"), 2),
    ("INT", Decimal("2.00"), 2),
    ("INT", np.float32(3), 3),
    ("INT", np.int64(4), 4),
    ("HUGEINT", 2.0, 2),
    ("HUGEINT", np.int64(2), 2),
    ("INT[]", [1.0, None, 2], [1, None, 2]),
    ("INT[]", np.array([1, 2]), [1, 2]),
    ("STRUCT(a INT)", {"a": 1.0}, {"a": 1}),
    ("MAP(TEXT, INT)", {"a": 1.0}, [("a", 1)]),
)


def table_of(type: str) -> penstock.Flow:
    flow = penstock.Flow()
    flow.sql(f"CREATE TABLE t (k INT, c {type})")
    return flow


def refused(type: str, data: Any) -> errors.PenstockError:
    with table_of(type) as flow:
        with pytest.raises(errors.TypeMismatch) as caught:
            flow.tick("t", data)
        assert flow.sql("SELECT count(*) AS n FROM t").to_pylist() == [{"n": 0}]
    return caught.value


def taken(type: str, data: Any) -> Any:
    with table_of(type) as flow:
        flow.tick("t", data)
        return flow.sql("SELECT c FROM t ORDER BY k LIMIT 1").to_pylist()[0]["c"]


@pytest.mark.parametrize("count", [1, MANY])
@pytest.mark.parametrize(("type", "value", "shown"), WITH_FRACTION, ids=str)
def test_a_fraction_is_refused_for_an_integer(type: str, value: Any, shown: str, count: int) -> None:
    """They were cut off, in silence, while Arrow's were refused."""
    rows = [{"k": i, "c": value if i == count - 1 else None} for i in range(count)]
    error = refused(type, rows)
    assert error.message.startswith('column "c" of "t" is ')
    assert f": {shown} " in error.message
    assert error.message.endswith("has a fraction")
    assert error.hint == "Round it first."


@pytest.mark.parametrize("count", [1, MANY])
@pytest.mark.parametrize(("type", "value", "wanted"), WHOLE, ids=str)
def test_a_whole_number_is_taken_whatever_its_class(type: str, value: Any, wanted: Any, count: int) -> None:
    assert taken(type, [{"k": i, "c": value} for i in range(count)]) == wanted


@pytest.mark.parametrize(("type", "value"), [("INT", 1.5), ("HUGEINT", 1.5), ("INT[]", [1.5])], ids=str)
def test_arrow_is_refused_in_the_same_words(type: str, value: Any) -> None:
    of_arrow = refused(type, pa.table({"k": [1], "c": pa.array([value])}))
    of_dicts = refused(type, [{"k": 1, "c": value}])
    assert (of_arrow.message, of_arrow.hint) == (of_dicts.message, of_dicts.hint)


@pytest.mark.parametrize(
    ("type", "value", "wanted"),
    [
        ("DECIMAL(6,2)", 1.005, Decimal("1.01")),
        ("DECIMAL(6,2)", -1.005, Decimal("-1.01")),
        ("DECIMAL(6,2)", np.float32(1.005), Decimal("1.00")),  # it is 1.00499999523...
        ("DECIMAL(38,10)", 1e25, Decimal(10**25)),
        ("DECIMAL(6,2)[]", [1.005], [Decimal("1.01")]),
        ("DECIMAL(6,2)[]", [1], [Decimal("1.00")]),
        ("STRUCT(a DECIMAL(6,2))", {"a": 1.005}, {"a": Decimal("1.01")}),
    ],
    ids=str,
)
def test_a_float_is_rounded_to_the_scale_from_dicts_and_from_arrow(
    type: str, value: Any, wanted: Any
) -> None:
    assert taken(type, [{"k": 1, "c": value}]) == wanted
    assert taken(type, pa.table({"k": [1], "c": pa.array([value])})) == wanted


def test_floats_decimals_and_integers_go_together_in_a_decimal_column() -> None:
    with table_of("DECIMAL(6,2)") as flow:
        flow.tick(
            "t", [{"k": i, "c": v} for i, v in enumerate((1.005, Decimal("2.50"), 3, np.int64(4), None))]
        )
        found = [row["c"] for row in flow.sql("SELECT c FROM t ORDER BY k").to_pylist()]
    assert found == [Decimal("1.01"), Decimal("2.50"), Decimal(3), Decimal(4), None]


@pytest.mark.parametrize("type", ["DECIMAL(6,2)", "DECIMAL(6,2)[]"])
def test_a_decimal_that_is_not_held_exactly_is_refused(type: str) -> None:
    value: Any = Decimal("1.005") if type == "DECIMAL(6,2)" else [Decimal("1.005")]
    for data in ([{"k": 1, "c": value}], pa.table({"k": [1], "c": pa.array([value])})):
        error = refused(type, data)
        assert error.message.endswith("has more than 2 digits after the point")
        assert error.hint == "Round it first: round(value, 2)."


# What pyarrow, numpy and Python would say of each has come through to users.
REFUSED: tuple[tuple[str, Any, str], ...] = (
    ("INT", 2**40, "1099511627776 is out of its range, -2147483648 to 2147483647"),
    ("INT", 10**5000, "an integer of 16610 bits is out of its range, -2147483648 to 2147483647"),
    ("UBIGINT", -1, "-1 is out of its range, 0 to 18446744073709551615"),
    ("INT", float("nan"), "nan is not a number that it has"),
    ("INT", True, "True is bool, not a whole number"),
    ("INT", "5", "'5' is str, not a whole number"),
    ("INT", [1], "[1] is list, not a whole number"),
    ("HUGEINT", 10**40, f"{10**40} has more than 38 digits"),
    ("DECIMAL(6,2)", 123456, "123456 has more than 4 digits before the point"),
    ("DECIMAL(6,2)", float("inf"), "inf is not a number that it has"),
    ("DECIMAL(6,2)", Decimal("sNaN"), "sNaN is not a number that it has"),
    ("DOUBLE", "x", "'x' is str, not a number"),
    ("TEXT", 5, "5 is int, not text"),
    ("TEXT", "\ud800", "'\\ud800' has half of a surrogate pair, which is no character"),
    ("TEXT", ["x" * 500], str(["x" * 500])[:ERROR_VALUE_LENGTH_MAX] + "... is list, not text"),
    ("DATE", "soon", "'soon' is not a date"),
    ("TIME", "soon", "'soon' is not a time of day"),
    ("TIMESTAMP", "soon", "'soon' is not a timestamp"),
    ("TIMESTAMP", 1.5, "1.5 is float, not a timestamp"),
    ("INTERVAL", "5 days", "'5 days' is not an interval"),
    ("INTERVAL", 5, "5 is int, not an interval"),
    ("UUID", "x", "'x' is not a UUID"),
    ("JSON", "{", "'{' is malformed JSON"),
    ("JSON", {"a": 1}, "{'a': 1} is dict, not JSON text"),
    ("BLOB", 5, "5 is int, not bytes"),
    ("BOOLEAN", "yes", "'yes' is not a boolean"),
    ("INT[]", 5, "5 is int, not a list"),
    ("INT[]", ["x"], "'x' in it is str, not a whole number"),
    ("STRUCT(a INT)", 5, "5 is int, not a dict with its fields"),
    ("MAP(TEXT, INT)", {"a": "x"}, "'x' in it is str, not a whole number"),
)


@pytest.mark.parametrize("count", [1, MANY])
@pytest.mark.parametrize(("type", "value", "said"), REFUSED, ids=lambda v: shorten(v)[:20])
def test_a_refusal_names_the_column_the_type_and_the_value(
    type: str, value: Any, said: str, count: int
) -> None:
    error = refused(type, [{"k": i, "c": value if i == count // 2 else None} for i in range(count)])
    assert error.message.startswith('column "c" of "t" is ')
    assert error.message.endswith(f": {said}")
    assert error.hint


def test_a_refusal_of_arrow_names_its_type() -> None:
    def said(type: str, array: pa.Array) -> str:
        return refused(type, pa.table({"k": range(len(array)), "c": array})).message

    assert said("TEXT", pa.array([None, 5])) == 'column "c" of "t" is VARCHAR: 5 is int64, not text'
    assert said("TEXT", pa.array([None], pa.int64())) == 'column "c" of "t" is VARCHAR: got int64'
    assert said("DATE", pa.array([5])) == 'column "c" of "t" is DATE: 5 is int64, not a date'
    assert said("INT", pa.array([1, 2**40])).endswith(
        f": {2**40} is out of its range, -2147483648 to 2147483647"
    )
    fine = pa.array([0, 1], pa.timestamp("ns"))
    assert said("TIMESTAMP", fine).endswith("is beyond what a timestamp holds")


def test_values_that_do_not_go_together_are_refused() -> None:
    error = refused("DATE", [{"k": 1, "c": "2024-01-01"}, {"k": 2, "c": dt.date(2024, 1, 2)}])
    assert error.message == 'column "c" of "t" is DATE: it cannot take date and str together'


# -- frames of pandas ------------------------------------------------------------------------------

FRAME = pd.DataFrame({"k": [3, 1, 2], "c": ["x", "y", "z"]})
NAMED = FRAME.rename_axis("label")
FRAMES = {
    "filtered": FRAME[FRAME.k != 1],
    "sorted": FRAME.sort_values("k"),
    "sampled": FRAME.sample(2, random_state=1),
    "concatenated": pd.concat([FRAME, FRAME]),
    "key as index": FRAME.set_index("k"),
    "counting key as index": FRAME.sort_values("k").set_index("k"),
    "key as index in another case": FRAME.rename(columns={"k": "K"}).set_index("K"),
    "all as index": FRAME.set_index(["k", "c"]),
    "named index that is no column": NAMED,
    "the same, sorted": NAMED.sort_values("k"),
    "index with a column's name": FRAME.set_index(pd.Index([7, 8, 9], name="k")),
    "index called None": FRAME.set_axis([7, 8, 5]),
}


@pytest.mark.parametrize("form", FRAMES)
def test_the_index_of_a_frame_is_no_column_unless_the_table_has_it(form: str) -> None:
    frame = FRAMES[form]
    wanted = FRAME if "index" in form else frame.sort_index()
    if "sorted" in form:
        wanted = FRAME
    with table_of("TEXT") as flow:
        flow.tick("t", frame)
        found = sorted(tuple(row.values()) for row in flow.sql("SELECT * FROM t").to_pylist())
    assert found == sorted(zip(wanted.k.tolist(), wanted.c.tolist(), strict=True))


def test_an_unnamed_index_is_not_a_column_called_none() -> None:
    with penstock.Flow() as flow:
        flow.sql('CREATE TABLE t (k INT, "none" INT)')
        flow.tick("t", FRAME[["k"]])
        assert flow.sql('SELECT DISTINCT "none" FROM t').to_pylist() == [{"none": None}]


def test_a_frame_that_arrow_cannot_read_is_refused_with_the_column() -> None:
    error = refused("TEXT", pd.DataFrame({"k": [1, 2], "c": pd.Series(["x", 5], dtype=object)}))
    assert '"c" of the delta for "t" has values of several kinds' in error.message
    assert "Series" in refused("TEXT", FRAME.k).message
    with table_of("TEXT") as flow, pytest.raises(errors.InvalidDelta, match="names a column twice"):
        flow.tick("t", pd.DataFrame([[1, 2]], columns=["k", "k"]))


@pytest.mark.parametrize(
    ("rows", "said"),
    [
        ([{"k": 1}, {"k": "x"}], "values of several kinds"),
        ([{"k": 2**80}], "that Arrow does not have"),
        ([5], "is int, not a dict"),
        (pd.DataFrame({"k": pd.Series([1, "x"], dtype=object)}), "values of several kinds"),
    ],
    ids=["mixed", "large", "no dict", "frame"],
)
def test_a_change_feed_that_arrow_cannot_read_is_refused(rows: Any, said: str) -> None:
    with table_of("TEXT") as flow, pytest.raises(errors.InvalidDelta, match=said):
        flow.tick("t", rows, change_feed="delta")


# -- parameters ------------------------------------------------------------------------------------


def test_scalars_of_numpy_are_parameters() -> None:
    with penstock.Flow() as flow:
        flow.sql("CREATE TABLE n (i BIGINT PRIMARY KEY, d DOUBLE, b BOOLEAN, s TEXT, m TIMESTAMP)")
        moment = np.datetime64("2024-01-02T03:04:05.678901234")
        values = [np.int64(1), np.float64(1.5), np.bool_(True), np.str_("x"), moment]
        flow.sql("INSERT INTO n VALUES ($1, $2, $3, $4, $5)", values)
        row = {"i": 1, "d": 1.5, "b": True, "s": "x", "m": dt.datetime(2024, 1, 2, 3, 4, 5, 678901)}
        assert flow.sql("SELECT * FROM n WHERE i = $1", [np.int8(1)]).to_pylist() == [row]
        assert flow.sql("SELECT * FROM n WHERE d = $d", {"d": np.float32(1.5)}).to_pylist() == [row]
        assert flow.sql("SELECT ? AS a", [[np.uint8(1), np.int64(-2)]]).to_pylist() == [{"a": [1, -2]}]
        assert flow.sql("SELECT ? IS NULL AS a", [np.datetime64("NaT")]).to_pylist() == [{"a": True}]
        with pytest.raises(errors.TypeMismatch, match="complex"):
            flow.sql("SELECT ?", [np.complex64(1)])
        with pytest.raises(errors.InvalidValue, match="beyond the dates"):
            flow.sql("SELECT ?", [np.datetime64("20000-01-01")])


@pytest.mark.parametrize("text", ["a\0b", "\0", "'\0''\0", "\0\0é"])
def test_text_with_nul_is_a_parameter(text: str) -> None:
    with penstock.Flow() as flow:
        flow.sql("CREATE TABLE s (k TEXT PRIMARY KEY)")
        flow.sql("INSERT INTO s VALUES (?)", [text])
        flow.tick("s", [{"k": f"{text}, ticked"}])
        assert flow.sql("SELECT k FROM s WHERE k = ?", [text]).to_pylist() == [{"k": text}]
        assert flow.sql("SELECT k FROM s WHERE k IN (?, 'x')", [text]).to_pylist() == [{"k": text}]
        assert flow.sql("SELECT ? AS k, length(?) AS n", [text, text]).to_pylist() == [
            {"k": text, "n": len(text)}
        ]
        assert flow.sql("DELETE FROM s WHERE k = ? RETURNING k", [f"{text}, ticked"]).num_rows == 1
