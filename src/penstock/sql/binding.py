"""Values for placeholders: each becomes a literal in the text, and places in the new text are known in the old.

A literal is made here and nowhere else. Text is put between single quotes with its quotes doubled, which is all
that DuckDB's plain strings need: a backslash means nothing in them. So no value can become SQL.
"""

from __future__ import annotations

import datetime as dt
import math
import uuid
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import numpy as np

from penstock.base.errors import InvalidValue, TypeMismatch, UndefinedParameter
from penstock.sql.parameters import read_parameters
from penstock.sql.tokens import tokenize

Parameters = Sequence[Any] | Mapping[str, Any]


@dataclass(frozen=True)
class Typed:
    """A value as text, or a list of such values, of a type of DuckDB's: `Typed("1.50", "DECIMAL(12,2)")`; None
    is NULL. The type is never what a client wrote."""

    text: str | tuple[Typed, ...] | None
    type: str


@dataclass(frozen=True)
class Verbatim:
    """SQL text of our own in the place of a value."""

    sql: str


@dataclass(frozen=True)
class Bound:
    """A text with its values, and how to find a place of it in the text that was given."""

    text: str
    starts: tuple[int, ...]  # in the new text, where a piece begins
    origins: tuple[int, ...]  # where the same piece begins in the old one
    literal: tuple[
        bool, ...
    ]  # whether the piece is a value: then every place in it is that of the placeholder

    def origin(self, position: int) -> int:
        piece = bisect_right(self.starts, position) - 1
        return self.origins[piece] + (0 if self.literal[piece] else position - self.starts[piece])


def bind(sql: str, parameters: Parameters) -> Bound:
    """The text with a literal for each placeholder.

    >>> bind("SELECT $1, '$1', $2", ["it's", 5]).text
    "SELECT 'it''s', '$1', 5"
    """
    tokens = tokenize(sql)
    placeholders = read_parameters(tokens)
    values = _by_key(parameters)
    known = {p.key for p in placeholders}
    wanted = max((k for k in known if isinstance(k, int)), default=0)
    extra = [k for k in values if k not in known and not (isinstance(k, int) and k <= wanted)]
    if extra:
        raise UndefinedParameter(
            f"{len(values)} values were given, but the statement has {wanted or len(known)} placeholders"
        )
    pieces: list[tuple[str, int, bool]] = []
    end = 0
    for p in placeholders:
        if p.key not in values:
            raise UndefinedParameter(f"the placeholder {p.text} has no value", position=p.offset)
        pieces += [(sql[end : p.offset], end, False), (literal(values[p.key]), p.offset, True)]
        end = p.offset + len(p.text)
    pieces.append((sql[end:], end, False))
    starts, place = [], 0
    for text, _, _ in pieces:
        starts.append(place)
        place += len(text)
    texts, origins, literals = zip(*pieces, strict=True)
    return Bound("".join(texts), tuple(starts), origins, literals)


def _by_key(parameters: Parameters) -> dict[int | str, Any]:
    if isinstance(parameters, Mapping):
        named: dict[int | str, Any] = {}
        named.update(parameters.items())
        return named
    if isinstance(parameters, (str, bytes)):
        raise TypeMismatch("the parameters are a list or a dict, not one text", hint="Write [value].")
    return dict(enumerate(parameters, start=1))


def literal(value: Any) -> str:
    """A value as SQL text.

    >>> literal("a'b"), literal(None), literal(-5), literal([1, None]), literal(Typed("7", "BIGINT"))
    ("'a''b'", 'NULL', '(-5)', '[1, NULL]', "CAST('7' AS BIGINT)")
    """
    if value is None:
        return "NULL"
    if isinstance(value, Typed):
        if isinstance(value.text, tuple):
            text = "[" + ", ".join(literal(item) for item in value.text) + "]"
        else:
            text = "NULL" if value.text is None else quoted_text(value.text)
        return f"CAST({text} AS {value.type})"
    if isinstance(value, Verbatim):
        return value.sql
    if isinstance(value, np.generic):
        value = _of_numpy(value)
        if value is None:  # not a time
            return "NULL"
    for kind, write in _WRITERS:
        if isinstance(value, kind):
            return write(value)
    raise TypeMismatch(
        f"a value of type {type(value).__name__} cannot be a parameter",
        hint="Give None, bool, int, float, Decimal, str, bytes, a date or time, a UUID, or a list of these.",
    )


def _of_numpy(value: np.generic) -> Any:
    """A scalar of numpy's as the value of Python's."""
    if isinstance(value, (np.datetime64, np.timedelta64)):
        # Of finer ones numpy gives the bare number; a flow has microseconds.
        kind = "datetime64" if isinstance(value, np.datetime64) else "timedelta64"
        found = value.astype(f"{kind}[us]").item()
        if isinstance(found, int):
            raise InvalidValue(f"{value} is beyond the dates of Python", hint="Give it as text.")
        return found
    return value.item()


def _text(text: str) -> str:
    """Text as SQL: no literal has NUL in it, a function has."""
    if "\0" not in text:
        return quoted_text(text)
    return "(" + " || chr(0) || ".join(quoted_text(part) for part in text.split("\0")) + ")"


def quoted_text(text: str) -> str:
    """A string literal: it has no NUL, for DuckDB's parser as little as for Postgres."""
    if "\0" in text:
        raise InvalidValue("text cannot have the character NUL")
    try:
        text.encode()
    except UnicodeEncodeError:
        raise InvalidValue("text has half of a surrogate pair, which is no character") from None
    return "'" + text.replace("'", "''") + "'"


def blob_text(value: bytes) -> str:
    r"""Bytes as DuckDB casts them from text.

    >>> blob_text(b"a'")
    '\\x61\\x27'
    """
    return "".join(f"\\x{byte:02X}" for byte in value)


def _integer(value: int) -> str:
    if not -(2**127) < value < 2**127:
        raise InvalidValue("an integer of more than 128 bits cannot be a parameter", hint="Give it as text.")
    return str(value) if value >= 0 else f"({value})"


def _float(value: float) -> str:
    if math.isnan(value) or math.isinf(value):
        return f"CAST('{value}' AS DOUBLE)"
    return f"CAST({value!r} AS DOUBLE)" if value >= 0 else f"CAST(({value!r}) AS DOUBLE)"


def _decimal(value: Decimal) -> str:
    if not value.is_finite():
        return f"CAST('{float(value)}' AS DOUBLE)"
    _, digits, exponent = value.as_tuple()
    scale = max(-int(exponent), 0)
    width = max(len(digits) + max(int(exponent), 0), scale, 1)
    if width > 38:
        raise InvalidValue("a decimal of more than 38 digits cannot be a parameter", hint="Give it as text.")
    return f"CAST('{value:f}' AS DECIMAL({width},{scale}))"


def _datetime(value: dt.datetime) -> str:
    kind = "TIMESTAMP" if value.tzinfo is None else "TIMESTAMPTZ"
    return f"CAST('{value.isoformat(sep=' ')}' AS {kind})"


def _time(value: dt.time) -> str:
    if value.tzinfo is not None:
        raise TypeMismatch("a time of day with a time zone cannot be a parameter", hint="Give it without.")
    return f"CAST('{value.isoformat()}' AS TIME)"


def _interval(value: dt.timedelta) -> str:
    micros = value.seconds * 1_000_000 + value.microseconds
    return f"CAST('{value.days} days {micros} microseconds' AS INTERVAL)"


# The first kind that fits: a bool is an int and a datetime is a date in Python.
_WRITERS: tuple[tuple[Any, Any], ...] = (
    (bool, lambda v: "true" if v else "false"),
    (int, _integer),
    (float, _float),
    (Decimal, _decimal),
    (str, _text),
    ((bytes, bytearray, memoryview), lambda v: f"CAST('{blob_text(bytes(v))}' AS BLOB)"),
    (dt.datetime, _datetime),
    (dt.date, lambda v: f"CAST('{v.isoformat()}' AS DATE)"),
    (dt.time, _time),
    (dt.timedelta, _interval),
    (uuid.UUID, lambda v: f"CAST('{v}' AS UUID)"),
    ((list, tuple), lambda v: "[" + ", ".join(literal(item) for item in v) + "]"),
)
