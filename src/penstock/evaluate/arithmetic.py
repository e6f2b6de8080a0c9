"""+ - * / // % and unary minus on integers, decimals (both exact) and floats."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from penstock.base.errors import DivisionByZero
from penstock.evaluate.forms import (
    Compiler,
    Eval,
    both_valid,
    cleared,
    failure,
    masked,
    one_null,
    range_failure,
)
from penstock.kernels import wide
from penstock.plan.expr import Call, Const, Expr
from penstock.zset.column import INT64_MAX, INT64_MIN, Column, narrow
from penstock.zset.types import SqlType

HUGEINT_MAX = 10**38 - 1  # what Arrow's decimal128 carries; DuckDB itself goes on to 2**127


def bounds(type: SqlType) -> tuple[int, int]:
    """The least and the greatest value of an exact numeric type (decimals: of the scaled integer).

    >>> from penstock.zset.types import TINYINT, decimal
    >>> bounds(TINYINT), bounds(decimal(3, 1))
    ((-128, 127), (-999, 999))
    """
    if type.id == "DECIMAL":
        return -(10**type.width) + 1, 10**type.width - 1
    if type.id == "HUGEINT":
        return -HUGEINT_MAX, HUGEINT_MAX
    info = np.iinfo(type.numpy)
    return int(info.min), int(info.max)


def is_exact(type: SqlType) -> bool:
    return type.is_integer or type.id == "DECIMAL"


def expr_bounds(expr: Expr) -> tuple[int, int]:
    """What an operand can be at most: a constant is only itself."""
    if isinstance(expr, Const) and expr.value is not None:
        return expr.value, expr.value
    return bounds(expr.type)


def fit(values: np.ndarray, valid: np.ndarray | None, low: int, high: int) -> np.ndarray | None:
    """The values, zero under NULL, or None if one lies outside of [low, high]."""
    if valid is not None:
        if valid.size != values.size:
            values, valid = np.broadcast_arrays(values, valid)
        values = cleared(values, valid)
    if values.dtype == object:
        values = narrow(values)
    unbounded = values.dtype != object and low <= INT64_MIN and high >= INT64_MAX
    if unbounded or not values.size:
        return values
    return None if int(values.min()) < low or int(values.max()) > high else values


def as_dtype(type: SqlType, values: np.ndarray) -> np.ndarray:
    """int64 or Python integers as the type holds them."""
    return values if type.kind == "wide" else values.astype(type.numpy, copy=False)


_EXACT: dict[str, tuple[Callable[[Any, Any], Any], Callable[[np.ndarray, np.ndarray], np.ndarray]]] = {
    "+": (operator.add, wide.add),
    "-": (operator.sub, wide.subtract),
    "*": (operator.mul, wide.multiply),
}
_FLOAT: dict[str, np.ufunc] = {"+": np.add, "-": np.subtract, "*": np.multiply}


def build_add(call: Call, compiler: Compiler) -> Eval | None:
    return _sum_or_product("+", call, compiler)


def build_subtract(call: Call, compiler: Compiler) -> Eval | None:
    return build_negate(call, compiler) if len(call.args) == 1 else _sum_or_product("-", call, compiler)


def build_multiply(call: Call, compiler: Compiler) -> Eval | None:
    return _sum_or_product("*", call, compiler)


def _sum_or_product(name: str, call: Call, compiler: Compiler) -> Eval | None:
    if len(call.args) != 2:
        return None
    types = [a.type for a in call.args]
    if call.type.is_float and types[0] == types[1] == call.type:
        return _float_binary(_FLOAT[name], call, compiler)
    if not (is_exact(call.type) and is_exact(types[0]) and is_exact(types[1])):
        return None
    scales = types[0].scale + types[1].scale if name == "*" else max(types[0].scale, types[1].scale)
    if scales != call.type.scale or (name != "*" and types[0].scale != types[1].scale):
        return None
    return _exact_binary(name, call, compiler)


def _can_leave(name: str, call: Call) -> bool:
    """Can the result lie outside of the call's type? Decided once from the operands' types."""
    scalar = _EXACT[name][0]
    (a, b), (c, d) = expr_bounds(call.args[0]), expr_bounds(call.args[1])
    corners = [scalar(x, y) for x in (a, b) for y in (c, d)]
    low, high = bounds(call.type)
    return not (low <= min(corners) and max(corners) <= high)


def _exact_binary(name: str, call: Call, compiler: Compiler) -> Eval:
    scalar, vector = _EXACT[name]
    left, right = (compiler.compile(a) for a in call.args)
    type = call.type
    low, high = bounds(type)
    checked = _can_leave(name, call)
    out_of_range = range_failure(call, compiler)
    null = one_null(type)
    exact = wide.exact

    def run(columns: Sequence[Column], count: int) -> Column:
        a, b = left(columns, count), right(columns, count)
        x, y = a.values, b.values
        if x.size == 1 and y.size == 1:
            if (a.valid is not None and not a.valid.item()) or (b.valid is not None and not b.valid.item()):
                return null
            result = scalar(x.item(), y.item())
            if result < low or result > high:
                raise out_of_range()
            return _one(type, result)
        valid = both_valid(a, b)
        found = vector(exact(x), exact(y))
        if not checked:
            return masked(type, as_dtype(type, found), valid)
        values = fit(found, valid, low, high)
        if values is None:
            raise out_of_range()
        return masked(type, as_dtype(type, values), valid)

    return run


def _one(type: SqlType, value: int) -> Column:
    return Column(type, wide.one(value) if type.kind == "wide" else np.array((value,), type.numpy))


def _float_binary(function: np.ufunc, call: Call, compiler: Compiler) -> Eval:
    left, right = (compiler.compile(a) for a in call.args)
    type = call.type

    def run(columns: Sequence[Column], count: int) -> Column:
        a, b = left(columns, count), right(columns, count)
        return masked(type, function(a.values, b.values), both_valid(a, b))

    return run


def build_negate(call: Call, compiler: Compiler) -> Eval | None:
    type = call.type
    if call.args[0].type != type or not type.is_numeric:
        return None
    child = compiler.compile(call.args[0])
    if type.is_float:
        return lambda columns, count: _negated_float(type, child(columns, count))
    low, high = bounds(type)
    out_of_range = range_failure(call, compiler)

    def run(columns: Sequence[Column], count: int) -> Column:
        a = child(columns, count)
        values = fit(wide.negate(wide.exact(a.values)), a.valid, low, high)
        if values is None:
            raise out_of_range()
        return Column(type, as_dtype(type, values), a.valid)

    return run


def _negated_float(type: SqlType, column: Column) -> Column:
    values = -column.values
    return Column(type, values if column.valid is None else cleared(values, column.valid), column.valid)


def build_divide(call: Call, compiler: Compiler) -> Eval | None:
    return _division(call, compiler, np.divide, wide.divide)


def build_modulo(call: Call, compiler: Compiler) -> Eval | None:
    return _division(call, compiler, np.fmod, wide.remainder)


def _division(
    call: Call,
    compiler: Compiler,
    float_function: Callable[[np.ndarray, np.ndarray], np.ndarray],
    exact_function: Callable[[np.ndarray, np.ndarray], np.ndarray],
) -> Eval | None:
    type = call.type
    if len(call.args) != 2 or any(a.type != type for a in call.args) or not type.is_numeric:
        return None
    if type.id == "DECIMAL" and exact_function is wide.divide:
        return None
    left, right = (compiler.compile(a) for a in call.args)
    divisor_text = compiler.text(call.args[1])
    by_zero = failure(
        DivisionByZero,
        "division by zero",
        call,
        compiler,
        f"Guard it with NULLIF({divisor_text}, 0) or CASE.",
    )
    out_of_range = range_failure(call, compiler)
    low, high = bounds(type) if is_exact(type) else (0, 0)

    def divisor(valid: np.ndarray | None, y: np.ndarray) -> np.ndarray:
        zero = y == 0
        if not zero.any():
            return y
        if valid is None or (zero & valid).any():
            raise by_zero()
        return np.where(zero, y.dtype.type(1) if y.dtype != object else 1, y)  # under a NULL: any will do

    def run_float(columns: Sequence[Column], count: int) -> Column:
        a, b = left(columns, count), right(columns, count)
        valid = both_valid(a, b)
        return masked(type, float_function(a.values, divisor(valid, b.values)), valid)

    def run_exact(columns: Sequence[Column], count: int) -> Column:
        a, b = left(columns, count), right(columns, count)
        if a.valid is None and b.valid is None and a.values.size == 1 and b.values.size == 1:
            dividend, divided_by = a.values.item(), b.values.item()
            if divided_by == 0:
                raise by_zero()
            if low < dividend and exact_function is wide.divide:  # so the quotient fits
                return _one(type, wide.truncating(dividend, divided_by))
            if low < dividend:
                return _one(type, dividend - divided_by * wide.truncating(dividend, divided_by))
        valid = both_valid(a, b)
        x, y = wide.exact(a.values), wide.exact(divisor(valid, b.values))
        if type.id != "DECIMAL" and ((y == -1) & (x == low)).any():
            raise out_of_range()  # also for the remainder, as DuckDB does
        values = fit(exact_function(x, y), valid, low, high)
        if values is None:
            raise out_of_range()
        return masked(type, as_dtype(type, values), valid)

    return run_float if type.is_float else run_exact
