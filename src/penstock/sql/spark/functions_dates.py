"""Spark's functions of dates and timestamps. The session's time zone is UTC."""

from __future__ import annotations

import re
from collections.abc import Callable

from penstock.sql.spark.cast import cast
from penstock.sql.spark.dialect import refuse
from penstock.sql.spark.functions_text import whole
from penstock.sql.spark.typed import Functions, Typed, string
from penstock.sql.spark.types import INSTANT
from penstock.zset import types as t

_UNITS = {
    "YEAR": "year", "YYYY": "year", "YY": "year", "QUARTER": "quarter", "MONTH": "month", "MM": "month",
    "MON": "month", "WEEK": "week", "DAY": "day", "DD": "day", "HOUR": "hour", "MINUTE": "minute",
    "SECOND": "second", "MILLISECOND": "millisecond", "MICROSECOND": "microsecond",
}  # fmt: skip
_DATE_UNITS = ("year", "quarter", "month", "week")
_LETTERS = {
    "yyyy": "%Y", "MM": "%m", "dd": "%d", "HH": "%H", "mm": "%M", "ss": "%S", "MMM": "%b", "MMMM": "%B",
    "E": "%a", "EEE": "%a", "EEEE": "%A", "SSS": "%g", "SSSSSS": "%f", "yy": "%y", "DDD": "%j", "a": "%p", "hh": "%I",
}  # fmt: skip
_WRITTEN_ONLY = ("E", "EEE", "EEEE", "DDD", "SSS", "SSSSSS", "yy", "a", "hh", "MMM", "MMMM")


def date(value: Typed) -> str:
    return cast(value, t.DATE).sql


def moment(value: Typed) -> str:
    """A date, timestamp or text as a timestamp without zone, which is what the functions are for."""
    if value.type.id == "VARCHAR":
        value = cast(value, t.TIMESTAMPTZ)
    return cast(value, t.TIMESTAMP).sql


def _days(sign: str) -> Callable[[Typed, Typed], Typed]:
    def make(value: Typed, days: Typed) -> Typed:
        return Typed(f"({date(value)} {sign} CAST({whole(days)} AS INTEGER))", t.DATE)

    return make


add_days, subtract_days = _days("+"), _days("-")


def _between(end: Typed, start: Typed) -> Typed:
    return Typed(f"CAST({date(end)} - {date(start)} AS INTEGER)", t.INTEGER)


def _add_months(value: Typed, months: Typed) -> Typed:
    return Typed(f"CAST({date(value)} + to_months(CAST({whole(months)} AS INTEGER)) AS DATE)", t.DATE)


def part(name: str, plus: int = 0) -> Callable[[Typed], Typed]:
    """A field of a date or timestamp; Spark counts weekdays from 1."""

    def make(value: Typed) -> Typed:
        source = f"CAST({moment(value)} AS DATE)" if name in _OF_DATES else moment(value)
        added = f" + {plus}" if plus > 0 else f" - {-plus}" if plus else ""
        return Typed(f"CAST(extract({name} FROM {source}){added} AS INTEGER)", t.INTEGER)

    return make


_OF_DATES = ("year", "month", "day", "quarter", "doy", "dow", "isodow", "week")


def _unit(value: Typed) -> str:
    found = _UNITS.get((value.literal or "").upper())
    if found is None or value.type.id != "VARCHAR":
        raise refuse("truncation to a unit that is no literal, or unknown, is not translated", value.tree)
    return found


def _trunc(value: Typed, unit: Typed) -> Typed:
    name = _unit(unit)
    if name not in _DATE_UNITS:
        raise refuse(f"trunc of a date to {name} is not translated", unit.tree, "In Spark it is NULL.")
    return Typed(f"CAST(date_trunc('{name}', {date(value)}) AS DATE)", t.DATE)


def _date_trunc(unit: Typed, value: Typed) -> Typed:
    truncated = Typed(f"date_trunc('{_unit(unit)}', {moment(value)})", t.TIMESTAMP)
    return truncated if value.type.id == "TIMESTAMP" else cast(truncated, t.TIMESTAMPTZ)


def layout(value: Typed, reading: bool) -> str:
    """Java's pattern of a date as that of strftime and strptime.

    >>> from penstock.sql.spark.typed import Functions, text
    >>> layout(text("dd.MM.yyyy 'at' HH:mm"), reading=True)
    '%d.%m.%Y at %H:%M'
    """
    if value.literal is None:
        raise refuse("a date format that is no literal is not translated", value.tree)
    out = []
    for found_part in re.finditer(r"'((?:[^']|'')*)'|((?:([A-Za-z])\3*))|.", value.literal, re.DOTALL):
        quoted, letters, other = found_part[1], found_part[2], found_part[0]
        if letters:
            found = _LETTERS.get(letters)
            if found is None or (reading and letters in _WRITTEN_ONLY):
                raise refuse(f"the letters {letters} in a date format are not translated", value.tree)
            out.append(found)
        else:
            plain = (quoted.replace("''", "'") or "'") if quoted is not None else other
            out.append(plain.replace("%", "%%"))
    return "".join(out)


def _date_format(value: Typed, form: Typed) -> Typed:
    return Typed(f"strftime({moment(value)}, {string(layout(form, reading=False))})", t.VARCHAR)


def _to_date(value: Typed, form: Typed | None = None) -> Typed:
    if form is None or value.type.id != "VARCHAR":
        return cast(value, t.DATE)
    return Typed(f"CAST(strptime({value.sql}, {string(layout(form, reading=True))}) AS DATE)", t.DATE)


def _to_timestamp(value: Typed, form: Typed | None = None) -> Typed:
    if form is None or value.type.id != "VARCHAR":
        return cast(value, t.TIMESTAMPTZ)
    read = Typed(f"strptime({value.sql}, {string(layout(form, reading=True))})", t.TIMESTAMP)
    return cast(read, t.TIMESTAMPTZ)


def _last_day(value: Typed) -> Typed:
    return Typed(f"last_day({date(value)})", t.DATE)


def _make_date(year: Typed, month: Typed, day: Typed) -> Typed:
    return Typed(f"make_date({whole(year)}, {whole(month)}, {whole(day)})", t.DATE)


def shift(value: Typed, sign: str, count: str, unit: str) -> Typed:
    """A date or timestamp and a literal interval: days and months leave a date a date."""
    months, days = unit in ("year", "quarter", "month"), unit in ("week", "day")
    interval = f"INTERVAL ({count}) {unit.upper()}"
    if value.type.id == "DATE" and (months or days):
        return Typed(f"CAST({value.sql} {sign} {interval} AS DATE)", t.DATE)
    if value.type.id in ("DATE", INSTANT):
        return cast(Typed(f"({moment(value)} {sign} {interval})", t.TIMESTAMP), t.TIMESTAMPTZ)
    if value.type.id == "TIMESTAMP":
        return Typed(f"({value.sql} {sign} {interval})", t.TIMESTAMP)
    raise refuse(f"an interval and {value.type.duck} do not add up", value.tree)


INTERVAL_UNITS = ("year", "quarter", "month", "week", "day", "hour", "minute", "second")

PARTS = {
    "year": part("year"), "month": part("month"), "day": part("day"), "dayofmonth": part("day"),
    "quarter": part("quarter"), "dayofyear": part("doy"), "dayofweek": part("dow", 1), "weekday": part("isodow", -1),
    "weekofyear": part("week"), "hour": part("hour"), "minute": part("minute"), "second": part("second"),
}  # fmt: skip

DATES: Functions = {
    **{name: (1, 1, make) for name, make in PARTS.items()},
    "date_add": (2, 2, add_days), "dateadd": (2, 2, add_days), "date_sub": (2, 2, subtract_days),
    "datediff": (2, 2, _between), "date_diff": (2, 2, _between), "add_months": (2, 2, _add_months),
    "trunc": (2, 2, _trunc), "date_trunc": (2, 2, _date_trunc), "date_format": (2, 2, _date_format),
    "to_date": (1, 2, _to_date), "to_timestamp": (1, 2, _to_timestamp), "last_day": (1, 1, _last_day),
    "make_date": (3, 3, _make_date),
}  # fmt: skip
