"""Why a column does not take a value, in our words: what came, what is wrong with it, and what to do."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Iterator, Mapping, Sequence
from decimal import Decimal
from numbers import Number
from typing import Any

import numpy as np
import pyarrow as pa

from penstock.base.errors import TypeMismatch
from penstock.engine.given_numbers import TEMPORAL, Unfit, is_whole
from penstock.engine.given_values import NO_FIT, of_array, of_values
from penstock.engine.shown_value import shorten
from penstock.zset.column import Column
from penstock.zset.types import SqlType

_WIDER = "Give the column a wider type, or leave the row out."
_MISSING = "Give None for a value that is missing."
# What a value of a type is called, and how to give one.
_WANTED = {
    "BOOLEAN": ("a boolean", "Give True or False."),
    "VARCHAR": ("text", "Convert it first, with str() for example."),
    "JSON": ("JSON text", "Write it as text first: json.dumps(value)."),
    "UUID": ("a UUID", "Give it as text, such as '00000000-0000-0000-0000-00000000000a'."),
    "BLOB": ("bytes", "Convert it to bytes first."),
    "DATE": ("a date", "Give a datetime.date, or text such as '2024-12-31'."),
    "TIME": ("a time of day", "Give a datetime.time."),
    "TIMESTAMP": ("a timestamp", "Give a datetime.datetime, or text such as '2024-12-31 23:59:00'."),
    "TIMESTAMP WITH TIME ZONE": (
        "a timestamp with a time zone",
        "Give a datetime.datetime with a time zone, or text such as '2024-12-31 23:59:00Z'.",
    ),
    "INTERVAL": ("an interval", "Give a datetime.timedelta."),
    "LIST": ("a list", "Give a list of values, or None."),
    "ARRAY": ("a list", "Give a list of values, or None."),
    "STRUCT": ("a dict with its fields", "Give a dict, or None."),
    "MAP": ("a map", "Give a dict or a list of pairs, or None."),
}


def refused_values(
    values: Sequence[Any], type: SqlType, name: str, table: str, error: Exception
) -> TypeMismatch:
    """The error for Python values of which one or more do not fit a column; `error` is what was raised."""
    if isinstance(error, Unfit):
        return refusal(error.value, error.type, type, name, table)
    rows = list(values)
    found = _first(len(rows), lambda start, stop: of_values(rows[start:stop], type))
    if found is None:  # each alone would be taken
        kinds = sorted({v.__class__.__name__ for v in rows if v is not None})
        return _mismatch(
            name, table, type, f"it cannot take {' and '.join(kinds)} together", "Give one kind."
        )
    return refusal(*_innermost(rows[found], type), type, name, table)


def refused_array(
    array: pa.Array | pa.ChunkedArray, type: SqlType, name: str, table: str, error: Exception | None = None
) -> TypeMismatch:
    """The same for an Arrow array; without an error its type is refused, whatever the values are."""
    if isinstance(error, Unfit):
        return refusal(error.value, error.type, type, name, table)
    kind = str(array.type)
    if len(array) == array.null_count:
        return _mismatch(name, table, type, f"got {kind}", "Cast the column first.")
    if error is None or isinstance(error, pa.ArrowNotImplementedError):  # Arrow has no such cast
        return refusal(_value(array.drop_null(), 0), type, type, name, table, kind)
    found = _first(len(array), lambda start, stop: of_array(array.slice(start, stop - start), type))
    value = _value(array.drop_null() if found is None else array, found or 0)
    value, inner = _innermost(value, type)
    return refusal(value, inner, type, name, table, kind if inner is type else None)


def refusal(
    value: Any, inner: SqlType, type: SqlType, name: str, table: str, kind: str | None = None
) -> TypeMismatch:
    """The error for a value, which may stand inside one of the column; `kind` is its Arrow type, if it has one."""
    reason, hint = _why(value, inner, kind or value.__class__.__name__)
    within = "" if inner is type else " in it"
    return _mismatch(name, table, type, f"{shorten(value)}{within} {reason}", hint)


def _mismatch(name: str, table: str, type: SqlType, detail: str, hint: str) -> TypeMismatch:
    return TypeMismatch(f'column "{name}" of "{table}" is {type}: {detail}', hint=hint)


def _value(array: pa.Array | pa.ChunkedArray, place: int) -> Any:
    """A value of an array; Arrow's own where Python has none for it, as for nanoseconds without pandas."""
    try:
        return array[place].as_py()
    except NO_FIT:
        return array[place]


def _first(count: int, convert: Callable[[int, int], Column]) -> int | None:
    """The place of the first value that does not fit, found by halves; None if each alone fits."""
    start, stop = 0, count
    while stop - start > 1:
        middle = (start + stop) // 2
        if _fits(convert, start, middle):
            start = middle
        else:
            stop = middle
    return None if _fits(convert, start, stop) else start


def _fits(convert: Callable[..., Column], *given: Any) -> bool:
    try:
        convert(*given)
    except NO_FIT:
        return False
    return True


def _innermost(value: Any, type: SqlType) -> tuple[Any, SqlType]:
    """The value that is to blame: inside of a list, say, an item of it."""
    try:
        parts = list(_parts(value, type))
    except (TypeError, ValueError):  # it is no list at all
        return value, type
    for part, child in parts:
        if not _fits(of_values, [part], child):
            return _innermost(part, child)
    return value, type


def _parts(value: Any, type: SqlType) -> Iterator[tuple[Any, SqlType]]:
    if type.id in ("LIST", "ARRAY") and not isinstance(value, (str, bytes)):
        yield from ((item, type.children[0][1]) for item in value)
    elif type.id == "STRUCT" and isinstance(value, Mapping):
        yield from ((value.get(name), child) for name, child in type.children)
    elif type.id == "MAP":
        for key, item in value.items() if isinstance(value, Mapping) else value:
            yield key, type.children[0][1]
            yield item, type.children[1][1]


def _why(value: Any, type: SqlType, kind: str) -> tuple[str, str]:
    """What is wrong with a value, and what to do."""
    if type.is_numeric:
        if isinstance(value, Number) and not isinstance(value, (bool, np.bool_, np.timedelta64, complex)):
            return _why_number(value, type)
        wanted = "a whole number" if type.is_integer else "a number"
        return f"is {kind}, not {wanted}", "Convert it first, with int() or float() for example."
    wanted, hint = _WANTED[type.id]
    if isinstance(value, str):
        if type.id == "VARCHAR":
            return (
                "has half of a surrogate pair, which is no character",
                "Leave it out, or encode it to bytes.",
            )
        return "is malformed JSON" if type.id == "JSON" else f"is not {wanted}", hint
    if isinstance(value, (dt.date, dt.time)) and type.id in TEMPORAL:
        return (
            f"is beyond what {wanted} holds",
            "It has microseconds and no finer: round or convert the value.",
        )
    return f"is {kind}, not {wanted}", hint


def _why_number(value: Any, type: SqlType) -> tuple[str, str]:
    if not _is_finite(value):
        return "is not a number that it has", _MISSING
    if type.is_integer:
        if not is_whole(value):
            return "has a fraction", "Round it first."
        if type.id == "HUGEINT":
            return "has more than 38 digits", _WIDER
        bounds = np.iinfo(type.numpy)
        return f"is out of its range, {bounds.min} to {bounds.max}", _WIDER
    if type.id != "DECIMAL":
        return (
            "is too large for it, or would lose digits",
            "Convert it to float first, or give the column DECIMAL.",
        )
    whole = type.width - type.scale
    if abs(value) >= 10**whole or not isinstance(value, Decimal):
        return f"has more than {whole} digits before the point", _WIDER
    return (
        f"has more than {type.scale} digits after the point",
        f"Round it first: round(value, {type.scale}).",
    )


def _is_finite(value: Any) -> bool:
    if isinstance(value, Decimal):
        return value.is_finite()
    return not isinstance(value, (float, np.floating)) or bool(np.isfinite(value))
