"""Parameters: bytes in text or binary to values that can be bound."""

from __future__ import annotations

import re
import struct
import uuid
from collections.abc import Callable, Iterator

from penstock.base.errors import InvalidValue
from penstock.gateway import calendar as cal
from penstock.gateway import types as t
from penstock.gateway.arrays import Items, binary_items, depth_of, text_items
from penstock.gateway.errors import InvalidEncoding, NotSupported
from penstock.gateway.types import ColumnType, PgType
from penstock.sql.binding import Typed, blob_text

Value = Typed | str | None
_WHOLE = (t.INT2, t.INT4, t.INT8)
_INTEGER = re.compile(r"\s*[+-]?[0-9]+\s*")
_OF_THE_CALENDAR = (t.DATE, t.TIME, t.TIMESTAMP, t.TIMESTAMPTZ)
_CLOCK = r"\d\d?:\d\d(?::\d\d(?:\.\d*)?)?"
_ZONE = r"\s*(?:Z|[+-]\d\d?(?::?\d\d){0,2})"
_ZONED = {  # by the names of the types: what may stand before a zone, which is dropped, and BC
    t.DATE.name: re.compile(rf"\s*([+-]?\d+-\d+-\d+)(?:[ T]{_CLOCK})?(?:{_ZONE})?(\s+BC)?\s*"),
    t.TIME.name: re.compile(rf"\s*({_CLOCK}){_ZONE}(\s+BC)?\s*"),
    t.TIMESTAMP.name: re.compile(rf"\s*([+-]?\d+-\d+-\d+[ T]{_CLOCK}){_ZONE}(\s+BC)?\s*"),
}


def decoded(data: bytes | None, format: int, type: ColumnType | None, duck: str | None) -> Value:
    """A value to bind: `type` is what the client said or was told, `duck` the same in DuckDB's words. A text of
    no or of a text type takes whatever type its place needs, as in Postgres."""
    if data is None:
        return None if duck is None else Typed(None, duck)
    if type is None:
        if format:
            raise NotSupported("a binary parameter of a type that is not known here", hint="Send it as text.")
        return utf8(data)
    if type.depth:
        items = array_items(data, format, type.pg)
        leaf = _common(items, type.pg.duck)
        return _typed(items, leaf if duck is None else duck.rstrip("[]0123456789"), duck)
    text = binary_text(data, type.pg) if format else _text(data, type.pg)
    return text if type.pg.duck == "VARCHAR" else Typed(text, fitting(duck or type.pg.duck, text))


def decoder(format: int, type: ColumnType | None, duck: str | None) -> Callable[[bytes | None], Value]:
    """`decoded` for one parameter of a statement, with what depends on the statement alone worked out before."""
    if format and type is not None and not type.depth and duck is None and type.pg in _WHOLE:
        name, read = type.pg.duck, _BINARY[type.pg]

        def whole(data: bytes | None) -> Value:  # most keys
            try:
                return None if data is None else Typed(read(data), name)
            except struct.error:
                return decoded(data, format, type, duck)  # says what is wrong

        return whole
    return lambda data: decoded(data, format, type, duck)


def fitting(duck: str, text: str) -> str:
    """DECIMAL alone would have three digits after the point: as many as the number has instead."""
    if duck != "DECIMAL":
        return duck
    digits = text.strip().lstrip("+-")
    whole, _, fraction = digits.partition(".")
    if not (whole + fraction).isdecimal():  # an exponent, NaN: as a float
        return "DOUBLE"
    width = max(len(whole.lstrip("0")) + len(fraction), 1)
    return f"DECIMAL({width},{len(fraction)})" if width <= 38 else "DOUBLE"


def utf8(data: bytes) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError:
        raise InvalidEncoding("a text is not UTF-8") from None


# -- text ------------------------------------------------------------------------------------------


def _text(data: bytes, type: PgType) -> str:
    text = utf8(data)
    if type in _WHOLE and not _INTEGER.fullmatch(text):
        raise InvalidValue(f'invalid input syntax for type {type.duck.lower()}: "{text[:40]}"')
    if type in _OF_THE_CALENDAR:
        return local(text, type)
    return blob_text(bytea(text)) if type is t.BYTEA else text


def local(text: str, type: PgType) -> str:
    """A date or a time of no time zone, without the zone that is written behind it: Postgres reads it and ignores it,
    and pgjdbc writes one with each. DuckDB would shift the time by it, or refuse it.

    >>> local("2020-02-29 +01", t.DATE), local("2020-02-29 01:00:00.5+01", t.TIMESTAMP)
    ('2020-02-29', '2020-02-29 01:00:00.5')
    """
    zoned = _ZONED.get(type.name)
    found = None if zoned is None else zoned.fullmatch(text)
    return _before_christ(text) if found is None else _before_christ(found[1] + (found[2] or ""))


def bytea(text: str) -> bytes:
    r"""Bytes from the text of a bytea, in hex or with escapes.

    >>> bytea(r"\x6162"), bytea(r"a\\b\000")
    (b'ab', b'a\\b\x00')
    """
    if text.startswith("\\x"):
        try:
            return bytes.fromhex(text[2:])
        except ValueError:
            raise InvalidValue(f"{text[:40]!r} is not a bytea") from None
    out, at = bytearray(), 0
    data = text.encode()
    while at < len(data):
        if data[at] != 0x5C:
            out.append(data[at])
            at += 1
        elif data[at + 1 : at + 2] == b"\\":
            out.append(0x5C)
            at += 2
        else:
            code = data[at + 1 : at + 4]
            if len(code) != 3 or not all(c in b"01234567" for c in code) or int(code, 8) > 255:
                raise InvalidValue(f"{text[:40]!r} is not a bytea")
            out.append(int(code, 8))
            at += 4
    return bytes(out)


# -- arrays ----------------------------------------------------------------------------------------


def array_items(data: bytes, format: int, type: PgType) -> Items:
    """The items of an array as texts that DuckDB reads."""
    if format:
        return binary_items(data, type, lambda item: binary_text(item, type))
    return text_items(utf8(data), lambda text: _text(text.encode(), type))


def _flat(items: Items) -> Iterator[str]:
    for item in items:
        if isinstance(item, list):
            yield from _flat(item)
        elif item is not None:
            yield item


def _common(items: Items, duck: str) -> str:
    """The type of all items: for decimals one that has the digits of each."""
    if duck != "DECIMAL":
        return duck
    found = [fitting(duck, item) for item in _flat(items)]
    if "DOUBLE" in found:
        return "DOUBLE"
    sizes = [[int(n) for n in f.removeprefix("DECIMAL(").removesuffix(")").split(",")] for f in found] or [
        [1, 0]
    ]
    scale = max(size[1] for size in sizes)
    width = max(size[0] - size[1] for size in sizes) + scale
    return f"DECIMAL({max(width, 1)},{scale})" if width <= 38 else "DOUBLE"


def _typed(items: Items, leaf: str, whole: str | None = None) -> Typed:
    parts = [_typed(i, leaf) if isinstance(i, list) else Typed(i, leaf) for i in items]
    return Typed(tuple(parts), leaf + "[]" * depth_of(items) if whole is None else whole)


# -- binary ----------------------------------------------------------------------------------------


def binary_text(data: bytes, type: PgType) -> str:
    """A value in binary as the text that DuckDB reads."""
    read = _BINARY[type]
    try:
        return read(data)
    except (struct.error, ValueError, IndexError):
        raise InvalidValue(f"{len(data)} bytes are not a binary {type.name}") from None


def _numeric(data: bytes) -> str:
    count, weight, sign, scale = struct.unpack(">HhHH", data[:8])
    if sign == 0xC000:
        return "NaN"
    if sign in (0xD000, 0xF000):
        return "Infinity" if sign == 0xD000 else "-Infinity"
    if sign not in (0, 0x4000) or weight > 40 or scale > 16_383:
        raise ValueError(sign)
    digits = struct.unpack(f">{count}H", data[8:])
    groups = {weight - i: f"{digit:04}" for i, digit in enumerate(digits)}
    if any(digit > 9_999 for digit in digits):
        raise ValueError(digits)
    whole = "".join(groups.get(i, "0000") for i in range(max(weight, 0), -1, -1)).lstrip("0") or "0"
    fraction = "".join(groups.get(i, "0000") for i in range(-1, -(scale + 3) // 4 - 1, -1))[:scale]
    return ("-" if sign else "") + whole + (f".{fraction}" if scale else "")


def _date(data: bytes) -> str:
    (days,) = struct.unpack(">i", data)
    if days in (2**31 - 1, -(2**31)):
        return "infinity" if days > 0 else "-infinity"
    return _before_christ(cal.date_text(days + cal.EPOCH_DAYS))


def _timestamp(data: bytes, zone: str) -> str:
    (micros,) = struct.unpack(">q", data)
    if micros in (2**63 - 1, -(2**63)):
        return "infinity" if micros > 0 else "-infinity"
    return _before_christ(cal.timestamp_text(micros + cal.EPOCH_US, zone))


def _before_christ(text: str) -> str:
    """DuckDB writes (BC) in parentheses and before the time; it takes it there."""
    if not text.endswith(" BC"):
        return text
    day, _, time = text.removesuffix(" BC").partition(" ")
    return f"{day} (BC) {time}".strip()


def _interval(data: bytes) -> str:
    micros, days, months = struct.unpack(">qii", data)
    return f"{months} months {days} days {micros} microseconds"


def _jsonb(data: bytes) -> str:
    if data[:1] != b"\1":
        raise ValueError("version")
    return utf8(data[1:])


def _number(format: str) -> Callable[[bytes], str]:
    unpack = struct.Struct(format).unpack
    return lambda data: str(unpack(data)[0])


def _uuid(data: bytes) -> str:
    return str(uuid.UUID(bytes=data))


def _bool(data: bytes) -> str:
    return "true" if struct.unpack(">?", data)[0] else "false"


_BINARY: dict[PgType, Callable[[bytes], str]] = {
    t.BOOL: _bool,
    t.INT2: _number(">h"),
    t.INT4: _number(">i"),
    t.INT8: _number(">q"),
    t.FLOAT4: _number(">f"),
    t.FLOAT8: _number(">d"),
    t.NUMERIC: _numeric,
    t.TEXT: utf8,
    t.VARCHAR: utf8,
    t.BPCHAR: utf8,
    t.NAME: utf8,
    t.BYTEA: blob_text,
    t.DATE: _date,
    t.TIME: lambda data: cal.time_text(struct.unpack(">q", data)[0]),
    t.TIMESTAMP: lambda data: _timestamp(data, ""),
    t.TIMESTAMPTZ: lambda data: _timestamp(data, "+00"),
    t.INTERVAL: _interval,
    t.UUID: _uuid,
    t.JSON: utf8,
    t.JSONB: _jsonb,
}
