"""COPY in binary, into arrays, and of what is not well formed; arrays of arrays as parameters."""

from __future__ import annotations

import datetime as dt
import struct
from contextlib import suppress
from decimal import Decimal
from typing import Any

import psycopg
import pytest
from hypothesis import given
from hypothesis import strategies as s

from penstock.base.errors import InvalidValue
from penstock.gateway.arrays import binary_items, text_items
from penstock.gateway.copy_binary import END, HEAD, BinaryReader
from penstock.gateway.errors import BadCopyData
from penstock.gateway.types import INT4

COLUMNS = "a INT, b TEXT, c DECIMAL(10,2), d TIMESTAMP, e INT[], f BLOB, g INTERVAL, h INT[][], i TEXT[], j DATE, k BOOLEAN"
TYPES = [
    "int4",
    "text",
    "numeric",
    "timestamp",
    "int4[]",
    "bytea",
    "interval",
    "int4[]",
    "text[]",
    "date",
    "bool",
]


def row(i: int) -> tuple[Any, ...]:
    if i == 5:
        return (None,) * len(TYPES)
    return (
        i, f"x\t{i}\\" if i % 3 else None, Decimal(i) / 4 - 3, dt.datetime(2020, 1, 1, i % 24, 0, 0, i), [i, None],
        bytes([i % 256, 0, 92]), dt.timedelta(days=i, microseconds=5), [[1, i], [3, 4]], ['a"b', None, "NULL", "", "{,}"],
        dt.date(2000, 1, 1) - dt.timedelta(i), i % 2 == 0,
    )  # fmt: skip


ROWS = [row(i) for i in range(100)]


@pytest.mark.parametrize("form", ["text", "csv", "binary"])
def test_rows_come_back_as_they_were(connection: psycopg.Connection, form: str) -> None:
    connection.execute(f"CREATE TABLE t ({COLUMNS})")  # type: ignore[call-overload]
    connection.execute(f"CREATE TABLE u ({COLUMNS})")  # type: ignore[call-overload]
    cursor = connection.cursor()
    with cursor.copy("COPY t FROM STDIN (FORMAT binary)") as copy:
        copy.set_types(TYPES)
        for values in ROWS:
            copy.write_row(values)
    assert cursor.statusmessage == f"COPY {len(ROWS)}"
    key = "ORDER BY a NULLS FIRST"
    expected = sorted(ROWS, key=lambda r: -1 if r[0] is None else r[0])
    with cursor.copy(f"COPY (SELECT * FROM t {key}) TO STDOUT (FORMAT {form})") as copy:  # type: ignore[arg-type]
        data = b"".join(bytes(piece) for piece in copy)
    with cursor.copy(f"COPY u FROM STDIN (FORMAT {form})") as copy:  # type: ignore[arg-type]
        for i in range(0, len(data), 1000):
            copy.write(data[i : i + 1000])
    assert connection.execute(f"SELECT * FROM u {key}", binary=True).fetchall() == expected  # type: ignore[call-overload]
    if form == "binary":
        with cursor.copy(f"COPY (SELECT * FROM u {key}) TO STDOUT (FORMAT binary)") as copy:  # type: ignore[arg-type]
            copy.set_types(TYPES)
            assert list(copy.rows()) == expected


def test_binary_without_rows(connection: psycopg.Connection) -> None:
    connection.execute("CREATE TABLE t (a INT)")
    with connection.cursor().copy("COPY t TO STDOUT BINARY") as copy:
        assert b"".join(bytes(piece) for piece in copy) == HEAD + END
    with connection.cursor().copy("COPY t FROM STDIN BINARY") as copy:
        copy.write(HEAD + END)
    assert connection.execute("SELECT count(*) FROM t").fetchone() == (0,)


@pytest.mark.parametrize(
    "data",
    [
        b"", b"1\t2\n", HEAD[:5], HEAD + b"\0", HEAD + END + b"x", HEAD + struct.pack(">h", 2), HEAD[:11] + b"\0\1\0\0\0\0\0\0",
        HEAD + struct.pack(">hi", 1, -2), HEAD + struct.pack(">hi", 1, 3) + b"abc", HEAD + struct.pack(">hi", 1, 2**30),
    ],
)  # fmt: skip
def test_binary_data_that_is_none(connection: psycopg.Connection, data: bytes) -> None:
    connection.execute("CREATE TABLE t (a INT)")
    with pytest.raises((psycopg.errors.BadCopyFileFormat, psycopg.DataError)):
        with connection.cursor().copy("COPY t FROM STDIN BINARY") as copy:
            copy.write(data)
    assert connection.execute("SELECT count(*) FROM t").fetchone() == (0,)


@given(s.binary(max_size=40), s.lists(s.integers(1, 12), max_size=4), s.booleans())
def test_any_bytes_are_rows_or_refused(data: bytes, cuts: list[int], head: bool) -> None:
    reader = BinaryReader(1)
    data = HEAD + data if head else data
    at = 0
    with suppress(BadCopyData):
        for size in [*cuts, len(data)]:
            for found in reader.feed(data[at : at + size]):
                assert len(found) == 1
            at += size
        list(reader.finish())


def test_options_that_binary_does_not_have(connection: psycopg.Connection) -> None:
    connection.execute("CREATE TABLE t (a INT)")
    for option in ("DELIMITER ','", "NULL ''", "HEADER true"):
        with pytest.raises(psycopg.errors.SyntaxError, match="in BINARY mode"):
            connection.execute(f"COPY t TO STDOUT (FORMAT binary, {option})")  # type: ignore[call-overload]
    with pytest.raises(psycopg.Error, match="not recognized"):
        connection.execute("COPY t TO STDOUT (FORMAT xml)")


def test_arrays_of_arrays_as_parameters(connection: psycopg.Connection) -> None:
    value = [[1, 2], [3, None]]
    for placeholder in ("%s", "%b", "%t"):
        found = connection.execute(f"SELECT {placeholder}::INT[][]", [value]).fetchone()  # type: ignore[call-overload]
        assert found == (value,)
    connection.execute("CREATE TABLE t (a TEXT[][])")
    connection.execute("INSERT INTO t VALUES (%s)", [[['a"', "b"], [None, "}"]]])
    assert connection.execute("SELECT a FROM t").fetchone() == ([['a"', "b"], [None, "}"]],)
    digits = [Decimal("1.2345"), Decimal("123.5")]
    assert connection.execute("SELECT %s", [digits]).fetchone() == (digits,)
    with pytest.raises(psycopg.DataError, match="matching dimensions"):
        connection.execute("INSERT INTO t VALUES (%s)", [_Text("{{a},{b,c}}")])


class _Text(str):
    """A text of the type text[]."""


class _TextDumper(psycopg.adapt.Dumper):
    oid = 1009

    def dump(self, obj: Any) -> bytes:
        return str(obj).encode()


psycopg.adapters.register_dumper(_Text, _TextDumper)


@given(s.text('{}",\\ NULab\n', max_size=12))
def test_any_text_is_an_array_or_refused(text: str) -> None:
    try:
        items = text_items(text, str)
    except InvalidValue:
        return
    assert isinstance(items, list)
    assert text.strip().startswith(("{", "["))


@given(s.binary(max_size=40), s.integers(-1, 7), s.lists(s.integers(-2, 5), max_size=3))
def test_any_bytes_are_an_array_or_refused(data: bytes, dimensions: int, sizes: list[int]) -> None:
    head = struct.pack(">iiI", dimensions, 0, 23) + b"".join(struct.pack(">ii", size, 1) for size in sizes)
    for whole in (data, head + data):
        with suppress(InvalidValue):
            assert isinstance(binary_items(whole, INT4, lambda item: item.hex()), list)
