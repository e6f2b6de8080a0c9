"""abs, sign, round, floor, ceil, greatest and least on numbers."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from penstock.evaluate.arithmetic import as_dtype, bounds, fit, is_exact
from penstock.evaluate.cast import round_half_away
from penstock.evaluate.forms import Builder, Compiler, Eval, cleared, masked, range_failure
from penstock.kernels import wide
from penstock.plan.expr import Call, Const
from penstock.zset.column import Column
from penstock.zset.types import SqlType


def _float_map(call: Call, compiler: Compiler, function: Callable[[np.ndarray], np.ndarray]) -> Eval:
    child, type = compiler.compile(call.args[0]), call.type

    def run(columns: Sequence[Column], count: int) -> Column:
        a = child(columns, count)
        values = function(a.values).astype(type.numpy, copy=False)
        return Column(type, values if a.valid is None else cleared(values, a.valid), a.valid)

    return run


def _exact_map(call: Call, compiler: Compiler, function: Callable[[np.ndarray], np.ndarray]) -> Eval:
    """A function of exact integers whose result must fit the call's type."""
    child, type = compiler.compile(call.args[0]), call.type
    low, high = bounds(type)
    out_of_range = range_failure(call, compiler)

    def run(columns: Sequence[Column], count: int) -> Column:
        a = child(columns, count)
        values = fit(function(wide.exact(a.values)), a.valid, low, high)
        if values is None:
            raise out_of_range()
        return Column(type, as_dtype(type, values), a.valid)

    return run


def _absolute(values: np.ndarray) -> np.ndarray:
    return np.where(values < 0, wide.negate(values), values)


def build_abs(call: Call, compiler: Compiler) -> Eval | None:
    if call.args[0].type != call.type:
        return None
    if call.type.is_float:
        return _float_map(call, compiler, np.abs)
    return _exact_map(call, compiler, _absolute) if is_exact(call.type) else None


def build_sign(call: Call, compiler: Compiler) -> Eval | None:
    """-1, 0 or 1; NaN has the sign 0."""
    if call.type.id != "TINYINT" or not call.args[0].type.is_numeric:
        return None
    return _float_map(call, compiler, lambda v: (v > 0).astype(np.int8) - (v < 0).astype(np.int8))


def build_floor(call: Call, compiler: Compiler) -> Eval | None:
    return _whole(call, compiler, np.floor, lambda values, power: values // power)


def build_ceil(call: Call, compiler: Compiler) -> Eval | None:
    return _whole(call, compiler, np.ceil, lambda values, power: -(-values // power))


def _whole(
    call: Call,
    compiler: Compiler,
    of_floats: Callable[[np.ndarray], np.ndarray],
    of_exact: Callable[[np.ndarray, int], np.ndarray],
) -> Eval | None:
    source, target = call.args[0].type, call.type
    if source.is_float and target == source:
        return _float_map(call, compiler, of_floats)
    if source.id != "DECIMAL" or target.id != "DECIMAL" or target.scale != 0 or source.scale > 18:
        return None
    power = 10**source.scale
    return _exact_map(call, compiler, lambda values: of_exact(values, power))


def build_round(call: Call, compiler: Compiler) -> Eval | None:
    """Half away from zero. The number of digits must be a constant; DuckDB takes others."""
    source, target = call.args[0].type, call.type
    digits = 0
    if len(call.args) == 2:
        places = call.args[1]
        if not isinstance(places, Const) or places.value is None or abs(places.value) > 18:
            return None
        digits = places.value
    if source.is_float and target == source:
        return _float_map(call, compiler, lambda values: _round_floats(values, digits))
    if source.id == "DECIMAL" and target.id == "DECIMAL" and digits >= 0:
        kept = min(digits, source.scale)
        if target.scale != kept:
            return None
        return _exact_map(call, compiler, lambda values: wide.rescale(values, kept - source.scale))
    if source.is_integer and target == source and digits >= 0:
        return compiler.compile(call.args[0])
    return None


def _round_floats(values: np.ndarray, digits: int) -> np.ndarray:
    if digits == 0:
        return round_half_away(values)
    doubles = values.astype(np.float64)
    power = 10.0 ** abs(digits)
    if digits < 0:
        rounded = round_half_away(doubles / power) * power
        return np.where(np.isfinite(rounded), rounded, np.where(np.isfinite(doubles), 0.0, doubles))
    rounded = round_half_away(doubles * power) / power
    return np.where(np.isfinite(rounded), rounded, doubles)


def extreme_builder(greatest: bool) -> Builder:
    """GREATEST and LEAST: NULLs are passed over, NaN is greater than every number."""

    def build(call: Call, compiler: Compiler) -> Eval | None:
        type = call.type
        if type.kind == "arrow" or any(a.type != type for a in call.args):
            return None
        terms = [compiler.compile(a) for a in call.args]

        def run(columns: Sequence[Column], count: int) -> Column:
            best = terms[0](columns, count)
            for term in terms[1:]:
                best = _better(type, best, term(columns, count), greatest)
            return best

        return run

    return build


def _better(type: SqlType, a: Column, b: Column, greatest: bool) -> Column:
    x, y = a.values, b.values
    take_b = (y > x) if greatest else (y < x)
    if type.is_float:
        nan = (y != y) if greatest else (x != x)
        take_b = take_b | nan
    take_b = take_b.astype(np.bool_)
    if a.valid is None and b.valid is None:
        return Column(type, np.where(take_b, y, x))
    valid_a = np.ones(x.size, np.bool_) if a.valid is None else a.valid
    valid_b = np.ones(y.size, np.bool_) if b.valid is None else b.valid
    take_b = (take_b & valid_a & valid_b) | ~valid_a
    return masked(type, np.where(take_b, y, x), np.where(take_b, valid_b, valid_a))
