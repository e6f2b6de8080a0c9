"""CAST and TRY_CAST among numbers, booleans, dates and timestamps, and of whole numbers to text.

A conversion gives the new values and, where some cannot be converted, which ones.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.base.errors import NumericOutOfRange
from penstock.evaluate.arithmetic import as_dtype, bounds, is_exact
from penstock.evaluate.forms import Compiler, Eval, masked
from penstock.evaluate.render import DATE_INFINITY, TIMESTAMP_INFINITY
from penstock.kernels import wide
from penstock.plan.expr import Call
from penstock.zset.column import INT64_MAX, INT64_MIN, Column, narrow
from penstock.zset.types import SqlType

# New values, and where the old one has no new one (None: nowhere).
Conversion = Callable[[np.ndarray], tuple[np.ndarray, np.ndarray | None]]

MICROS_PER_DAY = 86_400_000_000


def build_cast(call: Call, compiler: Compiler) -> Eval | None:
    return _cast(call, compiler, trying=False)


def build_try_cast(call: Call, compiler: Compiler) -> Eval | None:
    return _cast(call, compiler, trying=True)


def never_fails(call: Call) -> bool:
    """Does every value of the source have one in the target?"""
    source, target = call.args[0].type, call.type
    if is_exact(source) and is_exact(target) and source.scale == target.scale:
        (low, high), (least, most) = bounds(target), bounds(source)
        return low <= least and most <= high
    return is_exact(source) and target.is_float and source.kind == "fixed"


def _cast(call: Call, compiler: Compiler, trying: bool) -> Eval | None:
    source, target = call.args[0].type, call.type
    if source == target:
        return compiler.compile(call.args[0])
    if target.id == "VARCHAR" and source.is_text:
        return _retyped(target, compiler.compile(call.args[0]))
    if target.id == "VARCHAR" and source.is_integer and source.kind == "fixed":
        return _integer_to_text(target, compiler.compile(call.args[0]))
    conversion = find_conversion(source, target)
    if conversion is None:
        return None
    child = compiler.compile(call.args[0])
    # Python integers have conversions to floats of their own: DuckDB's are the ones that count.
    of_objects = compiler.duck(call) if source.kind == "wide" and target.is_float else None

    def run(columns: Sequence[Column], count: int) -> Column:
        a = child(columns, count)
        if of_objects is not None and a.values.dtype == object:
            return of_objects(columns, count)
        values, bad = conversion(a.values)
        valid = a.valid
        if bad is not None and valid is not None:
            bad = bad & valid
        if bad is not None and bad.any():
            if not trying:
                raise _refused(call, compiler, a, int(np.flatnonzero(bad)[0]))
            valid = ~bad if valid is None else valid & ~bad
            return masked(target, as_dtype(target, narrow(np.where(bad, 0, values))), valid)
        return Column(target, as_dtype(target, narrow(values)), valid)

    return run


def _refused(call: Call, compiler: Compiler, column: Column, row: int) -> NumericOutOfRange:
    value = Column(column.type, column.values[row : row + 1]).to_pylist()[0]
    return NumericOutOfRange(
        f"{value} does not fit {call.type} in {compiler.text(call)}",
        hint="Use a larger type, or TRY_CAST to get NULL.",
        position=call.position,
    )


def _retyped(target: SqlType, child: Eval) -> Eval:
    return lambda columns, count: Column(target, child(columns, count).values)


def _integer_to_text(target: SqlType, child: Eval) -> Eval:
    from penstock.zset.interchange import to_arrow

    def run(columns: Sequence[Column], count: int) -> Column:
        a = child(columns, count)
        if len(a.values) == 1:
            text = None if a.valid is not None and not a.valid.item() else str(a.values.item())
            return Column(target, pa.array([text], target.arrow))
        return Column(target, pc.cast(to_arrow(a), target.arrow))

    return run


def find_conversion(source: SqlType, target: SqlType) -> Conversion | None:
    """The conversion between two types held by numpy, or None."""
    if is_exact(source) and is_exact(target):
        return _exact_to_exact(source, target)
    if is_exact(source) and target.is_float:
        return _exact_to_float(source, target)
    if source.is_float and target.is_float:
        return _float_to_float(target)
    if source.is_float and is_exact(target) and target.kind == "fixed":
        return _float_to_exact(target)
    if source.id == "BOOLEAN" and target.is_numeric:
        return lambda values: ((values * 10**target.scale).astype(target.numpy), None)
    if target.id == "BOOLEAN" and source.is_numeric:
        return lambda values: ((values != 0).astype(np.bool_), None)
    return _TEMPORAL.get((source.id, target.id))


def _exact_to_exact(source: SqlType, target: SqlType) -> Conversion:
    digits = target.scale - source.scale
    low, high = bounds(target)
    source_low, source_high = bounds(source)
    if digits == 0 and low <= source_low and source_high <= high:
        if target.kind == "fixed":
            return lambda values: (values.astype(target.numpy), None)
        return lambda values: (wide.exact(values), None)

    def convert(values: np.ndarray) -> tuple[np.ndarray, np.ndarray | None]:
        scaled = wide.rescale(wide.exact(values), digits)
        if scaled.dtype != object and low <= INT64_MIN and high >= INT64_MAX:
            return scaled, None
        bad = ((scaled < low) | (scaled > high)).astype(np.bool_)
        return scaled, bad

    return convert


def _exact_to_float(source: SqlType, target: SqlType) -> Conversion | None:
    scale, dtype = source.scale, target.numpy
    if scale == 0:
        return lambda values: (values.astype(dtype), None)
    if scale > 18:
        return None
    power = 10**scale
    divisor = np.float64(power)

    def convert(values: np.ndarray) -> tuple[np.ndarray, np.ndarray | None]:
        doubles = values.astype(np.float64) / divisor
        large = (values > 2**53) | (values < -(2**53))
        if large.any():
            # As DuckDB does it: the whole part and the fraction each keep more digits than both together.
            rest = np.fmod(values, power)
            parts = ((values - rest) // power).astype(np.float64) + rest.astype(np.float64) / divisor
            doubles = np.where(large, parts, doubles)
        return doubles.astype(dtype, copy=False), None

    return convert


def _float_to_float(target: SqlType) -> Conversion:
    def convert(values: np.ndarray) -> tuple[np.ndarray, np.ndarray | None]:
        found = values.astype(target.numpy)
        if target.numpy == np.float64:
            return found, None
        return found, np.isinf(found) & ~np.isinf(values)

    return convert


def round_half_away(values: np.ndarray) -> np.ndarray:
    """C's round(): numpy's own rounds half to even."""
    whole = np.trunc(values)
    rounded = whole + np.where(np.abs(values - whole) >= 0.5, np.copysign(1.0, values), 0.0)
    return np.copysign(rounded, values)


def _float_to_exact(target: SqlType) -> Conversion:
    low, high = bounds(target)
    is_decimal = target.id == "DECIMAL"
    power = float(10**target.scale)

    def convert(values: np.ndarray) -> tuple[np.ndarray, np.ndarray | None]:
        rounded = round_half_away(values.astype(np.float64) * power) if is_decimal else np.rint(values)
        # float(high) may round up to high + 1, which is outside.
        inside = (rounded >= low) & ((rounded <= high) if high < 2**53 else (rounded < float(high)))
        return np.where(inside, rounded, 0).astype(target.numpy), ~inside

    return convert


def _date_to_timestamp(values: np.ndarray) -> tuple[np.ndarray, np.ndarray | None]:
    days = values.astype(np.int64)
    limit = TIMESTAMP_INFINITY // MICROS_PER_DAY
    bad = (days > limit) | (days < -limit)
    found = np.where(bad, 0, days) * MICROS_PER_DAY
    infinite = np.abs(days) == DATE_INFINITY
    if infinite.any():
        found = np.where(infinite, np.sign(days) * TIMESTAMP_INFINITY, found)
        bad = bad & ~infinite
    return found, bad


def _timestamp_to_date(values: np.ndarray) -> tuple[np.ndarray, np.ndarray | None]:
    infinite = np.abs(values) == TIMESTAMP_INFINITY
    days = values // MICROS_PER_DAY
    if infinite.any():
        days = np.where(infinite, np.sign(values) * DATE_INFINITY, days)
    return days.astype(np.int32), None


_TEMPORAL: dict[tuple[str, str], Conversion] = {
    ("DATE", "TIMESTAMP"): _date_to_timestamp,
    ("DATE", "TIMESTAMP WITH TIME ZONE"): _date_to_timestamp,  # the session's zone is UTC
    ("TIMESTAMP", "DATE"): _timestamp_to_date,
    ("TIMESTAMP", "TIMESTAMP WITH TIME ZONE"): lambda values: (values, None),
    ("TIMESTAMP WITH TIME ZONE", "TIMESTAMP"): lambda values: (values, None),
    ("TIMESTAMP WITH TIME ZONE", "DATE"): _timestamp_to_date,
}
