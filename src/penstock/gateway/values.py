"""One value to bytes, in text and in binary: a function for each type and format.

Values come as `raw` gives them: temporal ones as integers, intervals as (months, days, nanoseconds), the others as
Python's own.
"""

from __future__ import annotations

import json
import struct
import uuid
from collections.abc import Callable, Sequence
from decimal import Decimal
from typing import Any

import pyarrow as pa

from penstock.base.errors import TypeMismatch
from penstock.gateway import calendar as cal
from penstock.gateway import types as t
from penstock.gateway.types import ColumnType, PgType

Encoder = Callable[[Any], bytes]


def raw(array: pa.Array, type: ColumnType) -> list[Any]:
    """The values of an Arrow array as the encoders take them."""
    if isinstance(array, pa.ExtensionArray):
        array = array.storage
    if pa.types.is_dictionary(array.type):
        array = array.dictionary_decode()
    if type.depth:
        if pa.types.is_null(array.type):
            return [None] * len(array)
        inner = ColumnType(type.pg, type.depth - 1)
        flat = raw(array.flatten(), inner)
        sizes = array.value_lengths().fill_null(0).to_pylist() if len(array) else []
        valid = array.is_valid().to_pylist()
        lists, at = [], 0
        for size, there in zip(sizes, valid, strict=True):
            lists.append(flat[at : at + size] if there else None)
            at += size if there else 0
        return lists
    if pa.types.is_timestamp(array.type):
        array = array.cast(pa.timestamp("us", array.type.tz), safe=False).view(pa.int64())
    elif pa.types.is_time(array.type):
        array = array.cast(pa.time64("us"), safe=False).view(pa.int64())
    elif pa.types.is_date32(array.type):
        array = array.view(pa.int32())
    elif type.pg is t.JSON and not _is_text(array.type):
        return [None if v is None else json.dumps(_plain(v), default=str) for v in array.to_pylist()]
    values: list[Any] = array.to_pylist()
    return values


def _is_text(type: pa.DataType) -> bool:
    return pa.types.is_string(type) or pa.types.is_large_string(type) or pa.types.is_null(type)


def _plain(value: Any) -> Any:
    """A struct or map as JSON takes it; pyarrow gives maps as lists of pairs."""
    if isinstance(value, dict):
        return {str(k): _plain(v) for k, v in value.items()}
    if isinstance(value, list):
        if value and all(isinstance(item, tuple) and len(item) == 2 for item in value):
            return {str(k): _plain(v) for k, v in value}
        return [_plain(item) for item in value]
    if isinstance(value, Decimal):
        return float(value) if value % 1 else int(value)
    return value


# -- text ------------------------------------------------------------------------------------------


def _float_text(value: float, shortest: Callable[[float], str]) -> bytes:
    if value != value:
        return b"NaN"
    if value in (float("inf"), float("-inf")):
        return b"Infinity" if value > 0 else b"-Infinity"
    return shortest(value).removesuffix(".0").encode()


def _float4_shortest(value: float) -> str:
    """The shortest digits that give the same float4 again."""
    for digits in range(6, 10):
        text = f"{value:.{digits}g}"
        if struct.pack(">f", float(text)) == struct.pack(">f", value):
            break
    return repr(float(text))


def _decimal_text(value: Any) -> bytes:
    return (format(value, "f") if isinstance(value, Decimal) else str(value)).encode()


def _interval_text(value: Any) -> bytes:
    months, days, nanos = value
    return cal.interval_text(months, days, nanos // 1000).encode()


TEXT: dict[PgType, Encoder] = {
    t.BOOL: lambda v: b"t" if v else b"f",
    t.INT2: b"%d".__mod__,  # a method of C's: there are many of these
    t.INT4: b"%d".__mod__,
    t.INT8: b"%d".__mod__,
    t.FLOAT4: lambda v: _float_text(v, _float4_shortest),
    t.FLOAT8: lambda v: _float_text(v, repr),
    t.NUMERIC: _decimal_text,
    t.TEXT: lambda v: str(v).encode(),
    t.BYTEA: lambda v: b"\\x" + v.hex().encode(),
    t.DATE: lambda v: cal.date_text(v).encode(),
    t.TIME: lambda v: cal.time_text(v).encode(),
    t.TIMESTAMP: lambda v: cal.timestamp_text(v).encode(),
    t.TIMESTAMPTZ: lambda v: cal.timestamp_text(v, "+00").encode(),
    t.INTERVAL: _interval_text,
    t.UUID: lambda v: str(v).encode(),
    t.JSON: lambda v: v.encode(),
}


def _array_text(values: Sequence[Any], encode: Encoder) -> bytes:
    """
    >>> _array_text([1, None, [2]], lambda v: str(v).encode())
    b'{1,NULL,{2}}'
    """
    parts = []
    for value in values:
        if value is None:
            parts.append(b"NULL")
        elif isinstance(value, list):
            parts.append(_array_text(value, encode))
        else:
            parts.append(_quoted(encode(value)))
    return b"{" + b",".join(parts) + b"}"


def _quoted(item: bytes) -> bytes:
    if item and item.upper() != b"NULL" and not any(c in item for c in b'{}",\\ \t\n\r\v\f'):
        return item
    return b'"' + item.replace(b"\\", b"\\\\").replace(b'"', b'\\"') + b'"'


# -- binary ----------------------------------------------------------------------------------------


def _numeric_binary(value: Any) -> bytes:
    """Groups of four digits.

    >>> _numeric_binary(Decimal("12345.60")).hex(" ", 2)
    '0003 0001 0000 0002 0001 0929 1770'
    """
    text = format(value, "f") if isinstance(value, Decimal) else str(value)
    negative, text = text.startswith("-"), text.lstrip("-")
    whole, _, fraction = text.partition(".")
    scale = len(fraction)
    whole = whole.lstrip("0")
    whole = "0" * (-len(whole) % 4) + whole
    fraction += "0" * (-len(fraction) % 4)
    digits = [int((whole + fraction)[i : i + 4]) for i in range(0, len(whole) + len(fraction), 4)]
    weight = len(whole) // 4 - 1
    while digits and digits[0] == 0:
        digits.pop(0)
        weight -= 1
    while digits and digits[-1] == 0:
        digits.pop()
    sign = 0x4000 if negative and digits else 0
    weight = weight if digits else 0
    return struct.pack(f">HhHH{len(digits)}H", len(digits), weight, sign, scale, *digits)


def _date_binary(days: int) -> bytes:
    if abs(days) >= cal.DATE_INFINITY:
        return struct.pack(">i", days if days > 0 else -(2**31))
    return struct.pack(">i", days - cal.EPOCH_DAYS)


def _timestamp_binary(micros: int) -> bytes:
    if abs(micros) >= cal.TIME_INFINITY:
        return struct.pack(">q", micros if micros > 0 else -(2**63))
    return struct.pack(">q", micros - cal.EPOCH_US)


def _interval_binary(value: Any) -> bytes:
    months, days, nanos = value
    return struct.pack(">qii", nanos // 1000, days, months)


BINARY: dict[PgType, Encoder] = {
    t.BOOL: lambda v: b"\1" if v else b"\0",
    t.INT2: struct.Struct(">h").pack,
    t.INT4: struct.Struct(">i").pack,
    t.INT8: struct.Struct(">q").pack,
    t.FLOAT4: struct.Struct(">f").pack,
    t.FLOAT8: struct.Struct(">d").pack,
    t.NUMERIC: _numeric_binary,
    t.TEXT: TEXT[t.TEXT],
    t.BYTEA: bytes,
    t.DATE: _date_binary,
    t.TIME: struct.Struct(">q").pack,
    t.TIMESTAMP: _timestamp_binary,
    t.TIMESTAMPTZ: _timestamp_binary,
    t.INTERVAL: _interval_binary,
    t.UUID: lambda v: uuid.UUID(str(v)).bytes,
    t.JSON: TEXT[t.JSON],
}


def _array_binary(values: list[Any], encode: Encoder, type: ColumnType) -> bytes:
    dimensions: list[int] = []
    items: list[Any] = values
    for depth in range(type.depth):
        if depth:
            lengths = {len(v) if v is not None else -1 for v in items}
            if len(lengths) > 1 or -1 in lengths:
                raise TypeMismatch("Postgres has no arrays whose rows differ in length", hint="Unnest it.")
            items = [item for v in items for item in v]
        dimensions.append(len(items) // max(_product(dimensions), 1))
        if not items:
            dimensions = []
            break
    has_null = any(item is None for item in items)
    parts = [struct.pack(">iiI", len(dimensions), has_null, type.pg.oid)]
    parts += [struct.pack(">ii", size, 1) for size in dimensions]
    for item in items:
        body = b"" if item is None else encode(item)
        parts.append(struct.pack(">i", -1 if item is None else len(body)) + body)
    return b"".join(parts)


def _product(numbers: Sequence[int]) -> int:
    product = 1
    for number in numbers:
        product *= number
    return product


def encoder(type: ColumnType, format: int) -> Encoder:
    """How values of a column become bytes; `format` is 0 for text, 1 for binary."""
    encode = (BINARY if format else TEXT)[type.pg]
    if not type.depth:
        return encode
    if format:
        return lambda values: _array_binary(values, encode, type)
    return lambda values: _array_text(values, encode)
