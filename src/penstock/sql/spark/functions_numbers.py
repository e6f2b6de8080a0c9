"""Spark's functions of numbers, of NULL and of conditions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import reduce

from penstock.sql.spark.arithmetic import arithmetic
from penstock.sql.spark.cast import cast, coerced
from penstock.sql.spark.dialect import refuse
from penstock.sql.spark.typed import Functions, Typed, integer_of, raw_cast
from penstock.sql.spark.types import common_type, is_decimal
from penstock.zset import types as t
from penstock.zset.types import SqlType

WHOLE_FROM = "9007199254740992"  # 2**53: a double of that size has no fraction to round


def alike(values: Sequence[Typed], what: str) -> list[Typed]:
    """The values in the one type that Spark brings them to."""

    def join(a: SqlType, b: Typed) -> SqlType:
        found = common_type(a, b.type)
        if found is None:
            raise refuse(f"{what} of {a.duck} and {b.type.duck} has no common type", b.tree, "Add a CAST.")
        return found

    shared = reduce(join, values[1:], values[0].type)
    return [coerced(value, shared) for value in values]


def _joined(function: str) -> Callable[..., Typed]:
    def make(*values: Typed) -> Typed:
        same = alike(values, function)
        return Typed(f"{function}({', '.join(v.sql for v in same)})", same[0].type)

    return make


def if_(condition: Typed, yes: Typed, no: Typed) -> Typed:
    yes, no = alike([yes, no], "if")
    return Typed(f"CASE WHEN {truth(condition).sql} THEN {yes.sql} ELSE {no.sql} END", yes.type)


def truth(value: Typed) -> Typed:
    """A condition; Spark takes nothing else for one."""
    if value.type.id == "NULL":
        return cast(value, t.BOOLEAN)
    if value.type.id != "BOOLEAN":
        raise refuse(f"a condition of type {value.type.duck}", value.tree, "Compare it with something.")
    return value


def _nullif(a: Typed, b: Typed) -> Typed:
    left, right = alike([a, b], "nullif")
    return Typed(f"CASE WHEN {left.sql} = {right.sql} THEN NULL ELSE {a.sql} END", a.type)


def double(function: str, where: str | None = None, otherwise: str = "NULL") -> Callable[[Typed], Typed]:
    """A function of a double; outside of `where` Spark answers with something else than an error."""

    def make(x: Typed) -> Typed:
        arg = coerced(x, t.DOUBLE).sql
        if where is None:
            return Typed(f"{function}({arg})", t.DOUBLE)
        known = where.format(arg)
        return Typed(
            f"CASE WHEN {known} THEN {function}({arg}) WHEN {arg} IS NULL THEN NULL ELSE {otherwise} END",
            t.DOUBLE,
        )

    return make


def _power(x: Typed, y: Typed) -> Typed:
    return Typed(f"pow({coerced(x, t.DOUBLE).sql}, {coerced(y, t.DOUBLE).sql})", t.DOUBLE)


def _abs(x: Typed) -> Typed:
    return Typed(f"abs({_number(x).sql})", _number(x).type)


def _number(x: Typed) -> Typed:
    if x.type.id in ("VARCHAR", "NULL"):
        return cast(x, t.DOUBLE)
    if not x.type.is_numeric:
        raise refuse(f"a number is wanted here, and this is {x.type.duck}", x.tree)
    return x


def _whole(function: str) -> Callable[[Typed], Typed]:
    def make(x: Typed) -> Typed:
        x = _number(x)
        if is_decimal(x.type):
            type = t.decimal(min(38, x.type.width - x.type.scale + 1), 0)
            return Typed(f"CAST({function}({x.sql}) AS {type.duck})", type)
        if x.type.is_integer:
            return raw_cast(x, t.BIGINT)
        return Typed(f"CAST({function}({x.sql}) AS BIGINT)", t.BIGINT)

    return make


def _round(x: Typed, digits: Typed | None = None) -> Typed:
    x, places = _number(x), 0 if digits is None else integer_of(digits)
    if places is None or places < 0:
        raise refuse("round to a number of digits that is no literal, or below 0, is not translated", x.tree)
    if is_decimal(x.type):
        scale = min(places, x.type.scale)
        type = t.decimal(
            min(38, x.type.width - x.type.scale + scale + 1), scale
        )  # a place for what is carried
        return Typed(f"CAST({x.sql} AS {type.duck})", type)
    if x.type.is_integer:
        return x
    if x.type.id == "FLOAT":
        raise refuse("round of FLOAT is not translated", x.tree, "Cast it to DOUBLE.")
    # By its digits, as Java shows them: 2.675 is rounded to 2.68, whatever is below the last digit.
    rounded = f"CAST(CAST(CAST({x.sql} AS VARCHAR) AS DECIMAL(38,{min(places, 20)})) AS VARCHAR)"
    return Typed(
        f"CASE WHEN abs({x.sql}) < {WHOLE_FROM} THEN CAST({rounded} AS DOUBLE) ELSE {x.sql} END", t.DOUBLE
    )


def _sign(x: Typed) -> Typed:
    return Typed(f"CAST(sign({coerced(_number(x), t.DOUBLE).sql}) AS DOUBLE)", t.DOUBLE)


def _pmod(a: Typed, b: Typed) -> Typed:
    rest = arithmetic("%", a, b)
    shared = coerced(b, rest.type)
    return Typed(
        f"CAST(CASE WHEN {rest.sql} < 0 THEN ({rest.sql} + {shared.sql}) % {shared.sql} ELSE {rest.sql} END AS {rest.type.duck})",
        rest.type,
    )


def _is_null(x: Typed) -> Typed:
    return Typed(f"({x.sql} IS NULL)", t.BOOLEAN)


def _is_not_null(x: Typed) -> Typed:
    return Typed(f"({x.sql} IS NOT NULL)", t.BOOLEAN)


def _is_nan(x: Typed) -> Typed:
    return Typed(f"coalesce(isnan({coerced(x, t.DOUBLE).sql}), false)", t.BOOLEAN)


def _to(type: SqlType) -> Callable[[Typed], Typed]:
    return lambda x: cast(x, type)


NUMBERS: Functions = {
    "coalesce": (1, None, _joined("coalesce")), "nvl": (2, 2, _joined("coalesce")), "ifnull": (2, 2, _joined("coalesce")),
    "greatest": (2, None, _joined("greatest")), "least": (2, None, _joined("least")),
    "nullif": (2, 2, _nullif), "if": (3, 3, if_), "iff": (3, 3, if_),
    "nvl2": (3, 3, lambda a, yes, no: if_(_is_not_null(a), yes, no)),
    "isnull": (1, 1, _is_null), "isnotnull": (1, 1, _is_not_null), "isnan": (1, 1, _is_nan),
    "abs": (1, 1, _abs), "floor": (1, 1, _whole("floor")), "ceil": (1, 1, _whole("ceil")),
    "ceiling": (1, 1, _whole("ceil")), "round": (1, 2, _round), "sign": (1, 1, _sign), "signum": (1, 1, _sign),
    "mod": (2, 2, lambda a, b: arithmetic("%", a, b)), "pmod": (2, 2, _pmod),
    "power": (2, 2, _power), "pow": (2, 2, _power), "exp": (1, 1, double("exp")),
    "sqrt": (1, 1, double("sqrt", "{} >= 0", "CAST('NaN' AS DOUBLE)")),
    "ln": (1, 1, double("ln", "{} > 0")), "log10": (1, 1, double("log10", "{} > 0")),
    "log2": (1, 1, double("log2", "{} > 0")),
    "sin": (1, 1, double("sin")), "cos": (1, 1, double("cos")), "tan": (1, 1, double("tan")),
    "atan": (1, 1, double("atan")), "degrees": (1, 1, double("degrees")), "radians": (1, 1, double("radians")),
    "int": (1, 1, _to(t.INTEGER)), "bigint": (1, 1, _to(t.BIGINT)), "double": (1, 1, _to(t.DOUBLE)),
    "string": (1, 1, _to(t.VARCHAR)), "boolean": (1, 1, _to(t.BOOLEAN)), "date": (1, 1, _to(t.DATE)),
    "smallint": (1, 1, _to(t.SMALLINT)), "tinyint": (1, 1, _to(t.TINYINT)), "float": (1, 1, _to(t.FLOAT)),
    "timestamp": (1, 1, _to(t.TIMESTAMPTZ)), "decimal": (1, 1, _to(t.decimal(10, 0))),
}  # fmt: skip
