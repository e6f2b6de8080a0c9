"""+ - * / % div, with the types that Spark gives their results."""

from __future__ import annotations

from penstock.sql.spark.cast import cast, coerced
from penstock.sql.spark.dialect import refuse
from penstock.sql.spark.typed import Typed, decimal_type, raw_cast
from penstock.sql.spark.types import PRECISION_MAX, adjusted, common_type, is_decimal
from penstock.zset import types as t
from penstock.zset.types import SqlType

_HINT = "Cast the operands to DOUBLE, or to decimals of fewer digits."


def arithmetic(operator: str, a: Typed, b: Typed) -> Typed:
    """An operation on two numbers; texts become numbers first, as Spark's ANSI mode has it."""
    a, b = _numbers(operator, a, b)
    if operator == "div":
        return _whole_quotient(a, b)
    if a.type.is_float or b.type.is_float:
        same = a.type == b.type and operator != "/"
        return _plain(operator, a, b, a.type if same else t.DOUBLE)
    if is_decimal(a.type) or is_decimal(b.type):
        return _DECIMAL[operator](a, b)
    if operator == "/":
        return _plain("/", a, b, t.DOUBLE)
    shared = common_type(a.type, b.type)
    assert shared is not None
    return _plain(operator, a, b, shared)


def _numbers(operator: str, a: Typed, b: Typed) -> tuple[Typed, Typed]:
    for value in (a, b):
        if not (value.type.is_numeric or value.type.id in ("VARCHAR", "NULL")):
            raise refuse(f"{operator} on {value.type.duck} is not translated", value.tree)
    if not (a.type.is_numeric or b.type.is_numeric):
        if a.type.id == b.type.id == "NULL":
            return cast(a, t.DOUBLE), cast(b, t.DOUBLE)
        raise refuse(f"{operator} on texts is not translated", a.tree, "Cast them to numbers.")
    shared = common_type(a.type, b.type)
    assert shared is not None
    a = a if a.type.is_numeric else cast(a, shared)
    b = b if b.type.is_numeric else cast(b, shared)
    return a, b


def _plain(operator: str, a: Typed, b: Typed, type: SqlType) -> Typed:
    a, b = coerced(a, type), coerced(b, type)
    return Typed(f"({a.sql} {operator} {b.sql})", type)


def _whole_quotient(a: Typed, b: Typed) -> Typed:
    if not (a.type.is_integer and b.type.is_integer):
        raise refuse("div of other numbers than integers is not translated", a.tree)
    return Typed(f"({raw_cast(a, t.BIGINT).sql} // {raw_cast(b, t.BIGINT).sql})", t.BIGINT)


def _sum(operator: str, a: Typed, b: Typed) -> Typed:
    left, right = decimal_type(a), decimal_type(b)
    scale = max(left.scale, right.scale)
    precision = max(left.width - left.scale, right.width - right.scale) + scale + 1
    type = adjusted(precision, scale)
    if type.scale != scale:
        raise refuse(f"DECIMAL({precision},{scale}) has more than {PRECISION_MAX} digits", a.tree, _HINT)
    a, b = raw_cast(a, type), raw_cast(b, type)
    return Typed(f"CAST({a.sql} {operator} {b.sql} AS {type.duck})", type)


def _product(a: Typed, b: Typed) -> Typed:
    left, right = decimal_type(a), decimal_type(b)
    precision, scale = left.width + right.width + 1, left.scale + right.scale
    type = adjusted(precision, scale)
    if type.scale != scale:
        raise refuse(f"DECIMAL({precision},{scale}) has more than {PRECISION_MAX} digits", a.tree, _HINT)
    a, b = raw_cast(a, left), raw_cast(b, right)
    return Typed(f"CAST({a.sql} * {b.sql} AS {type.duck})", type)


def _remainder(a: Typed, b: Typed) -> Typed:
    left, right = decimal_type(a), decimal_type(b)
    scale = max(left.scale, right.scale)
    type = t.decimal(min(left.width - left.scale, right.width - right.scale) + scale, scale)
    shared = common_type(left, right)
    assert shared is not None
    return Typed(f"CAST({raw_cast(a, shared).sql} % {raw_cast(b, shared).sql} AS {type.duck})", type)


def _quotient(a: Typed, b: Typed) -> Typed:
    left, right = decimal_type(a), decimal_type(b)
    scale = max(6, left.scale + right.width + 1)
    type = adjusted(left.width - left.scale + right.scale + scale, scale)
    return divide(raw_cast(a, left), raw_cast(b, right), type)


def divide(a: Typed, b: Typed, type: SqlType) -> Typed:
    """The quotient of two decimals, rounded half up to the scale of `type`.

    It is a quotient of whole numbers, since a division of decimals is one of doubles for DuckDB: the
    numerator has as many digits as the result, hence never more than 38.
    """
    shift = type.scale + b.type.scale - a.type.scale
    if shift < 0 or a.type.width + shift > PRECISION_MAX:
        raise refuse(
            f"a quotient of {a.type.duck} and {b.type.duck} needs more than {PRECISION_MAX} digits",
            a.tree,
            _HINT,
        )
    numerator = f"({_unscaled(a)} * CAST({10**shift} AS HUGEINT))"
    divisor = _unscaled(b)
    rest, whole = f"abs({numerator} % {divisor})", f"({numerator} // {divisor})"
    up = f"CASE WHEN {rest} >= abs({divisor}) - {rest} THEN sign({numerator}) * sign({divisor}) ELSE 0 END"
    unit = f"CAST(0.{'0' * (type.scale - 1)}1 AS DECIMAL({type.scale},{type.scale}))" if type.scale else "1"
    exact = f"CAST({whole} + {up} AS DECIMAL({PRECISION_MAX},0)) * {unit}"
    return Typed(f"CAST({exact} AS {type.duck})", type, aggregate=a.aggregate or b.aggregate)


def _unscaled(value: Typed) -> str:
    """The digits of a decimal as a whole number."""
    width, scale = value.type.width, value.type.scale
    if not scale:
        return f"CAST({value.sql} AS HUGEINT)"
    if width + scale <= PRECISION_MAX:
        return f"CAST({value.sql} * CAST({10**scale} AS DECIMAL({scale + 1},0)) AS HUGEINT)"
    return f"CAST(replace(CAST({value.sql} AS VARCHAR), '.', '') AS HUGEINT)"


_DECIMAL = {
    "+": lambda a, b: _sum("+", a, b),
    "-": lambda a, b: _sum("-", a, b),
    "*": _product,
    "%": _remainder,
    "/": _quotient,
}
