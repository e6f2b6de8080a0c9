"""Values to bytes and back: psycopg and our own decoder read what we wrote, in text and in binary."""

from __future__ import annotations

import datetime as dt
import uuid
from decimal import Decimal
from typing import Any

import psycopg
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as s

from penstock import PenstockError
from penstock.duck.connect import connect
from penstock.engine.read import fetched
from penstock.gateway.decode import decoded
from penstock.gateway.encode import data_rows
from penstock.gateway.result import answer_types
from penstock.gateway.types import TYPES, ColumnType
from penstock.gateway.values import encoder, raw

UTC = dt.UTC
# Type, and expressions with the Python value that psycopg should give.
VALUES: tuple[tuple[str, tuple[tuple[str, Any], ...]], ...] = (
    ("BOOLEAN", (("true", True), ("false", False))),
    ("TINYINT", (("-128", -128), ("127", 127))),
    ("SMALLINT", (("-32768", -32768), ("32767", 32767))),
    ("INTEGER", (("-2147483648", -(2**31)), ("0", 0))),
    ("BIGINT", (("-9223372036854775808", -(2**63)), ("9223372036854775807", 2**63 - 1))),
    ("UTINYINT", (("255", 255),)),
    ("USMALLINT", (("65535", 65535),)),
    ("UINTEGER", (("4294967295", 2**32 - 1),)),
    ("UBIGINT", (("18446744073709551615", Decimal(2**64 - 1)),)),
    ("HUGEINT", (("-10000000000000000000000000000000000000", Decimal(-(10**37))), ("0", Decimal(0)))),
    ("FLOAT", (("1.5", 1.5), ("-0.25", -0.25), ("'inf'", float("inf")))),
    ("DOUBLE", (("0.1", 0.1), ("1e300", 1e300), ("1e-7", 1e-7), ("'-inf'", float("-inf")), ("3", 3.0))),
    ("DECIMAL(12,2)", (("-0.05", Decimal("-0.05")), ("1234567890.12", Decimal("1234567890.12")), ("0", Decimal("0.00")))),
    ("DECIMAL(38,10)", (("0.0000000001", Decimal("1E-10")), ("10000", Decimal("10000.0000000000")))),
    ("VARCHAR", (("''", ""), ("'it''s é\\\\'", "it's é\\\\"))),
    ("BLOB", (("'\\x00ab\\xFF'", b"\0ab\xff"), ("''", b""))),
    ("DATE", (("'2020-02-29'", dt.date(2020, 2, 29)), ("'0001-01-01'", dt.date(1, 1, 1)), ("'9999-12-31'", dt.date(9999, 12, 31)))),
    ("TIME", (("'23:59:59.000001'", dt.time(23, 59, 59, 1)), ("'00:00:00'", dt.time(0)))),
    ("TIMESTAMP", (("'2020-01-01 00:00:00'", dt.datetime(2020, 1, 1)), ("'1969-12-31 23:59:59.5'", dt.datetime(1969, 12, 31, 23, 59, 59, 500000)))),
    ("TIMESTAMP WITH TIME ZONE", (("'2020-01-01 10:00:00+02'", dt.datetime(2020, 1, 1, 8, tzinfo=UTC)), ("'2020-01-01 10:00:00.1Z'", dt.datetime(2020, 1, 1, 10, 0, 0, 100000, tzinfo=UTC)))),
    ("INTERVAL", (("'3 days'", dt.timedelta(3)), ("'-1.5 seconds'", dt.timedelta(seconds=-1.5)), ("'0 days'", dt.timedelta(0)))),
    ("UUID", (("'c0a80101-0000-0000-0000-00000000000f'", uuid.UUID("c0a80101-0000-0000-0000-00000000000f")),)),
    ("JSON", (("'{\"a\": [1]}'", {"a": [1]}),)),
    ("INTEGER[]", (("[1, NULL, 3]", [1, None, 3]), ("[]", []))),
    ("VARCHAR[]", (("['a \"b', 'NULL', '', 'c,d\\\\']", ['a "b', "NULL", "", "c,d\\\\"]),)),
    ("INTEGER[][]", (("[[1, 2], [3, 4]]", [[1, 2], [3, 4]]),)),
    ("TIMESTAMP[]", (("[TIMESTAMP '2020-01-01 00:00:00']", [dt.datetime(2020, 1, 1)]),)),
    ("DECIMAL(5,2)[]", (("[1.25]", [Decimal("1.25")]),)),
)  # fmt: skip


@pytest.mark.parametrize("binary", [False, True], ids=["text", "binary"])
def test_results(connection: psycopg.Connection, binary: bool) -> None:
    cursor = connection.cursor(binary=binary)
    for type, pairs in VALUES:
        for rows in (1, 40):  # below and above where encoding becomes vectorised
            items = ", ".join(f"(CAST({text} AS {type}))" for text, _ in pairs)
            sql = f"SELECT v FROM (VALUES {items}, (NULL)) t(v), range({rows})"
            found = [row[0] for row in cursor.execute(sql).fetchall()]  # type: ignore[call-overload]
            wanted = [value for _, value in pairs] + [None]
            assert sorted(map(repr, found)) == sorted(map(repr, wanted * rows)), f"{type}, {rows} rows"


@pytest.mark.parametrize("format", ["t", "b"], ids=["text", "binary"])
def test_parameters(connection: psycopg.Connection, format: str) -> None:
    types = ", ".join(f"c{i} {type}" for i, (type, _) in enumerate(VALUES))
    connection.execute(f"CREATE TABLE t (n INTEGER, {types})")  # type: ignore[call-overload]
    for i, (type, pairs) in enumerate(VALUES):
        if type in ("INTEGER[][]", "JSON"):
            continue
        for text, value in pairs:
            connection.execute("DELETE FROM t")
            connection.execute(f"INSERT INTO t (n, c{i}) VALUES (1, %{format})", [value])  # type: ignore[call-overload]
            check = f"SELECT count(*) FROM t WHERE c{i} = CAST({text} AS {type})"
            assert connection.execute(check).fetchone() == (1,), f"{type} {text}"  # type: ignore[call-overload]
            same = f"SELECT count(*) FROM t WHERE c{i} = %{format}"
            assert connection.execute(same, [value]).fetchone() == (1,), f"{type} {text}"  # type: ignore[call-overload]
            null = f"INSERT INTO t (c{i}) VALUES (%{format})"
            connection.execute(null, [None])  # type: ignore[call-overload]


def test_structs_and_maps_are_json(connection: psycopg.Connection) -> None:
    found = connection.execute("SELECT {'a': 1, 'b': [2.5]}, MAP {'x': 1}").fetchone()
    assert found == ({"a": 1, "b": [2.5]}, {"x": 1})


def test_far_dates(connection: psycopg.Connection) -> None:
    sql = """SELECT d::DATE FROM (VALUES ('infinity'), ('-infinity'), ('0044-03-15 (BC)'), ('12345-01-01')) t(d)"""
    for rows in ("", ", range(40)"):
        cursor = connection.execute(sql + rows)  # type: ignore[call-overload]
        found = {cursor.pgresult.get_value(i, 0) for i in range(cursor.pgresult.ntuples)}  # type: ignore[union-attr]
        assert found == {b"infinity", b"-infinity", b"0044-03-15 BC", b"12345-01-01"}
    sql = "SELECT '290000-01-01 00:00:00'::TIMESTAMP, 'infinity'::TIMESTAMPTZ, '1 year 2 mons -3 days'::INTERVAL"
    result = connection.execute(sql).pgresult
    assert result is not None
    assert [result.get_value(0, i) for i in range(3)] == [
        b"290000-01-01 00:00:00", b"infinity", b"1 year 2 mons -3 days",
    ]  # fmt: skip


ZONED = [
    ("DATE", "2020-02-29 +01", b"2020-02-29"),
    ("DATE", "2020-02-29 23:00:00-05", b"2020-02-29"),
    ("DATE", "0044-03-15 +01 BC", b"0044-03-15 BC"),
    ("TIME", "01:02:03.5+01", b"01:02:03.5"),
    ("TIMESTAMP", "2020-01-01 00:30:00+05:30", b"2020-01-01 00:30:00"),
    ("TIMESTAMP", "0044-03-15 00:00:00+01 BC", b"0044-03-15 00:00:00 BC"),
    ("TIMESTAMP", "2020-01-01T00:30:00Z", b"2020-01-01 00:30:00"),
    ("TIMESTAMPTZ", "2020-01-01 00:30:00+01", b"2019-12-31 23:30:00+00"),
    ("TIMESTAMPTZ", "0044-03-15 00:00:00+00 BC", b"0044-03-15 00:00:00+00 BC"),
]


@pytest.mark.parametrize(("type", "text", "found"), ZONED)
def test_a_zone_that_a_type_does_not_have_is_ignored(
    connection: psycopg.Connection, type: str, text: str, found: bytes
) -> None:
    """pgjdbc sends its own with each; here as PostgreSQL takes them."""
    answer = connection.pgconn.exec_params(f"SELECT CAST($1 AS {type})".encode(), [text.encode()])
    assert answer.get_value(0, 0) == found, answer.error_message


def test_types_that_cannot_be_sent(connection: psycopg.Connection) -> None:
    with pytest.raises(psycopg.errors.DatatypeMismatch, match="TEXT"):
        connection.execute("SELECT '101'::BIT")
    assert connection.execute("SELECT 1").fetchone() == (1,)


def test_the_plain_and_the_vectorised_encoder_agree() -> None:
    duck = connect(threads=1)
    for type, pairs in VALUES:
        items = ", ".join(f"(CAST({text} AS {type}))" for text, _ in pairs)
        table = fetched(duck, f"SELECT v, v AS w FROM (VALUES (NULL), {items}, (NULL)) t(v), range(20)")
        types = answer_types(table)
        for formats in ((0, 1), (1, 0)):
            parts = [data_rows(table.slice(i, 1), types, formats) for i in range(table.num_rows)]
            assert data_rows(table, types, formats) == b"".join(parts), type
    assert (
        data_rows(pa.table({"a": pa.nulls(50)}), [ColumnType(TYPES[7])], [0])[:11]
        == b"D\0\0\0\x0a\0\1\xff\xff\xff\xff"
    )


@given(s.decimals(allow_nan=False, allow_infinity=False, places=6).filter(lambda d: abs(d) < 10**25))
def test_numeric_in_binary(value: Decimal) -> None:
    numeric = next(t for t in TYPES if t.name == "numeric")
    found = decoded(encoder(ColumnType(numeric), 1)(value), 1, ColumnType(numeric), None)
    assert Decimal(found.text) == value  # type: ignore[union-attr, arg-type]


@given(s.sampled_from(TYPES), s.integers(0, 1), s.binary(max_size=40), s.integers(0, 1))
def test_any_parameter_is_read_or_refused(type: Any, format: int, data: bytes, depth: int) -> None:
    refused = None
    try:
        decoded(data, format, ColumnType(type, depth), None)
    except PenstockError as error:
        refused = error
    assert refused is None or refused.sqlstate[:2] in ("22", "0A")


def test_raw_lists_with_nulls_and_offsets() -> None:
    array = pa.array([[9], None, [1, 2], [], [None]], pa.list_(pa.int32())).slice(1)
    assert raw(array, ColumnType(TYPES[2], 1)) == [None, [1, 2], [], [None]]
