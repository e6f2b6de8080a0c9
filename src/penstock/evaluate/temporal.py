"""Dates and timestamps: parts, truncation, and arithmetic with days and intervals.

Dates are days and timestamps microseconds since 1970; infinity is the greatest number of the type.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from penstock.base.errors import NumericOutOfRange
from penstock.evaluate.cast import MICROS_PER_DAY
from penstock.evaluate.forms import Builder, Compiler, Eval, both_valid, cleared, failure, masked
from penstock.evaluate.render import DATE_INFINITY, TIMESTAMP_INFINITY
from penstock.plan.expr import Call, Const, Expr
from penstock.zset.column import Column
from penstock.zset.types import BIGINT, INTEGER, TIMESTAMP, SqlType

_MICROS = {"hour": 3_600_000_000, "minute": 60_000_000, "second": 1_000_000, "millisecond": 1_000}

# The days that DATE can hold besides the infinities.
_DAYS_MIN, _DAYS_MAX = -2_147_483_646, 2_147_483_646


def _days(values: np.ndarray, type: SqlType) -> np.ndarray:
    return values if type.id == "DATE" else values // MICROS_PER_DAY


def _infinite(values: np.ndarray, type: SqlType) -> np.ndarray | None:
    """Where the value is an infinity; None: nowhere."""
    limit = DATE_INFINITY if type.id == "DATE" else TIMESTAMP_INFINITY
    found = (values >= limit) | (values <= -limit)
    return found if found.any() else None


def _months(days: np.ndarray) -> np.ndarray:
    """Months since January 1970."""
    return days.astype("M8[D]").astype("M8[M]").astype(np.int64)


def _first_days(months: np.ndarray) -> np.ndarray:
    """The day on which each month begins."""
    return months.astype("M8[M]").astype("M8[D]").astype(np.int64)


def _day_of_month(days: np.ndarray) -> np.ndarray:
    return days - _first_days(_months(days)) + 1


def _day_of_year(days: np.ndarray) -> np.ndarray:
    return days - days.astype("M8[D]").astype("M8[Y]").astype("M8[D]").astype(np.int64) + 1


# Parts that a date has: from days to numbers.
_DATE_PARTS: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "year": lambda d: d.astype("M8[D]").astype("M8[Y]").astype(np.int64) + 1970,
    "quarter": lambda d: _months(d) % 12 // 3 + 1,
    "month": lambda d: _months(d) % 12 + 1,
    "day": _day_of_month,
    "dayofmonth": _day_of_month,
    "dayofyear": _day_of_year,
    "dayofweek": lambda d: (d + 4) % 7,  # 1970-01-01 was a Thursday; Sunday is 0
    "weekday": lambda d: (d + 4) % 7,
    "isodow": lambda d: (d + 3) % 7 + 1,
}
# Parts of the time of day: from microseconds since midnight to numbers.
_TIME_PARTS: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "hour": lambda m: m // _MICROS["hour"],
    "minute": lambda m: m // _MICROS["minute"] % 60,
    "second": lambda m: m // _MICROS["second"] % 60,
    "millisecond": lambda m: m % _MICROS["minute"] // 1000,
    "microsecond": lambda m: m % _MICROS["minute"],
}
PARTS = (*_DATE_PARTS, *_TIME_PARTS)

_PART_NAMES = {"dow": "dayofweek", "doy": "dayofyear", "years": "year", "months": "month", "days": "day"}


def part_builder(name: str) -> Builder:
    """The builder of year(x), month(x), ...: NULL for an infinity."""

    def build(call: Call, compiler: Compiler) -> Eval | None:
        return _part(name, call.args[0], call, compiler)

    return build


def build_date_part(call: Call, compiler: Compiler) -> Eval | None:
    unit = call.args[0]
    if not isinstance(unit, Const) or not isinstance(unit.value, str):
        return None
    name = unit.value.lower()
    return _part(_PART_NAMES.get(name, name), call.args[1], call, compiler)


def _part(name: str, source: Expr, call: Call, compiler: Compiler) -> Eval | None:
    type = source.type
    if type.id not in ("DATE", "TIMESTAMP") or call.type != BIGINT or name not in PARTS:
        return None
    of_date, of_time = _DATE_PARTS.get(name), _TIME_PARTS.get(name)
    if of_date is None and type.id == "DATE":
        return None
    child = compiler.compile(source)

    def run(columns: Sequence[Column], count: int) -> Column:
        a = child(columns, count)
        infinite = _infinite(a.values, type)
        values = a.values if infinite is None else np.where(infinite, 0, a.values)
        if of_date is not None:
            found = of_date(_days(values, type).astype(np.int64))
        else:
            assert of_time is not None
            found = of_time(values % MICROS_PER_DAY)
        valid = a.valid
        if infinite is not None:
            valid = ~infinite if valid is None else valid & ~infinite
        return masked(BIGINT, found, valid)

    return run


def _truncated_months(step: int) -> Callable[[np.ndarray], np.ndarray]:
    def truncate(days: np.ndarray) -> np.ndarray:
        months = _months(days)
        return _first_days(months - months % step)

    return truncate


def _truncated_years(step: int) -> Callable[[np.ndarray], np.ndarray]:
    def truncate(days: np.ndarray) -> np.ndarray:
        years = _DATE_PARTS["year"](days)
        whole = np.sign(years) * (np.abs(years) // step) * step  # towards zero, as DuckDB cuts
        return (whole - 1970).astype("M8[Y]").astype("M8[D]").astype(np.int64)

    return truncate


_DATE_TRUNCATIONS: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "day": lambda d: d,
    "week": lambda d: d - (d + 3) % 7,
    "month": _truncated_months(1),
    "quarter": _truncated_months(3),
    "year": _truncated_months(12),
    "decade": _truncated_years(10),
    "century": _truncated_years(100),
    "millennium": _truncated_years(1000),
}


def build_date_trunc(call: Call, compiler: Compiler) -> Eval | None:
    """The beginning of the unit, as a timestamp. An infinity stays one."""
    unit, source = call.args
    type = source.type
    if not isinstance(unit, Const) or not isinstance(unit.value, str):
        return None
    if type.id not in ("DATE", "TIMESTAMP") or call.type != TIMESTAMP:
        return None
    name = unit.value.lower()
    of_days, micros = _DATE_TRUNCATIONS.get(name), _MICROS.get(name)
    if of_days is None and (micros is None or type.id == "DATE"):
        return None
    child = compiler.compile(source)

    def run(columns: Sequence[Column], count: int) -> Column:
        a = child(columns, count)
        infinite = _infinite(a.values, type)
        values = a.values if infinite is None else np.where(infinite, 0, a.values)
        if of_days is not None:
            found = of_days(_days(values, type).astype(np.int64)) * MICROS_PER_DAY
        else:
            found = values - values % micros
        if infinite is not None:
            found = np.where(infinite, np.sign(a.values.astype(np.int64)) * TIMESTAMP_INFINITY, found)
        return Column(TIMESTAMP, found if a.valid is None else cleared(found, a.valid), a.valid)

    return run


def build_add(call: Call, compiler: Compiler) -> Eval | None:
    a, b = call.args if len(call.args) == 2 else (None, None)
    if a is None or b is None:
        return None
    if b.type.id == "DATE" or b.type.id == "TIMESTAMP":
        a, b = b, a
    return _shift(a, b, 1, call, compiler)


def build_subtract(call: Call, compiler: Compiler) -> Eval | None:
    if len(call.args) != 2:
        return None
    a, b = call.args
    if a.type.id == b.type.id == "DATE" and call.type == BIGINT:
        return _days_between(call, compiler)
    return _shift(a, b, -1, call, compiler)


def _days_between(call: Call, compiler: Compiler) -> Eval:
    left, right = (compiler.compile(a) for a in call.args)

    def run(columns: Sequence[Column], count: int) -> Column:
        a, b = left(columns, count), right(columns, count)
        return masked(BIGINT, a.values.astype(np.int64) - b.values, both_valid(a, b))

    return run


def _shift(moment: Expr, by: Expr, sign: int, call: Call, compiler: Compiler) -> Eval | None:
    if moment.type.id == "DATE" and by.type == INTEGER and call.type.id == "DATE":
        return _shift_days(moment, by, sign, call, compiler)
    is_constant = isinstance(by, Const) and by.type.id == "INTERVAL" and by.value is not None
    if moment.type.id in ("DATE", "TIMESTAMP") and is_constant and call.type == TIMESTAMP:
        assert isinstance(by, Const)
        months, days, micros = (sign * part for part in by.value)
        if abs(months) < 10**6 and abs(days) < 10**8 and abs(micros) < 2**60:
            return _shift_interval(moment, (months, days, micros), call, compiler)
    return None


def _shift_days(moment: Expr, by: Expr, sign: int, call: Call, compiler: Compiler) -> Eval:
    left, right = compiler.compile(moment), compiler.compile(by)
    out_of_range = _moment_failure(call, compiler)

    def run(columns: Sequence[Column], count: int) -> Column:
        a, b = left(columns, count), right(columns, count)
        valid = both_valid(a, b)
        found = a.values + sign * b.values.astype(np.int64)
        infinite = _infinite(a.values, moment.type)
        if infinite is not None:
            found = np.where(infinite, a.values, found)
        bad = (found < _DAYS_MIN) | (found > _DAYS_MAX)
        if bad.any():
            bad = bad if infinite is None else bad & ~infinite
            if (bad if valid is None else bad & valid).any():
                raise out_of_range()
            found = np.where(bad, 0, found)
        return masked(call.type, found.astype(np.int32), valid)

    return run


def _shift_interval(moment: Expr, by: tuple[int, int, int], call: Call, compiler: Compiler) -> Eval:
    """Months first, the day cut to the length of the new month; then days, then microseconds."""
    months, days, micros = by
    child, type = compiler.compile(moment), moment.type
    out_of_range = _moment_failure(call, compiler)

    def run(columns: Sequence[Column], count: int) -> Column:
        a = child(columns, count)
        infinite = _infinite(a.values, type)
        values = a.values if infinite is None else np.where(infinite, 0, a.values)
        day = _days(values, type).astype(np.int64)
        rest = day * 0 if type.id == "DATE" else values - day * MICROS_PER_DAY
        if months:
            day = _plus_months(day, months)
        day = day + (days + (rest + micros) // MICROS_PER_DAY)
        rest = (rest + micros) % MICROS_PER_DAY
        limit = TIMESTAMP_INFINITY // MICROS_PER_DAY
        bad = (day >= limit) | (day < -limit)
        if bad.any():
            if (bad if a.valid is None else bad & a.valid).any():
                raise out_of_range()
            day = np.where(bad, 0, day)
        found = day * MICROS_PER_DAY + rest
        if infinite is not None:
            found = np.where(infinite, np.sign(a.values.astype(np.int64)) * TIMESTAMP_INFINITY, found)
        return Column(TIMESTAMP, found if a.valid is None else cleared(found, a.valid), a.valid)

    return run


def _plus_months(days: np.ndarray, months: int) -> np.ndarray:
    begin = _months(days)
    target = begin + months
    first = _first_days(target)
    length = _first_days(target + 1) - first
    return first + np.minimum(days - _first_days(begin), length - 1)


def _moment_failure(call: Call, compiler: Compiler) -> Callable[[], Exception]:
    return failure(NumericOutOfRange, f"{call.type} out of range", call, compiler, "Use a smaller shift.")
