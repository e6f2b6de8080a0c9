"""Which expressions can fail on a row: those must not be evaluated on rows that would not be reached."""

from __future__ import annotations

from penstock.plan.expr import Call, Expr
from penstock.zset.types import SqlType

_SAFE = {
    "and", "or", "not", "is_null", "is_not_null", "=", "<>", "<", "<=", ">", ">=", "is_distinct",
    "is_not_distinct", "case", "in", "not_in", "coalesce", "try_cast", "nullif", "~~", "!~~", "~~*", "!~~*",
    "prefix", "suffix", "contains", "starts_with", "ends_with", "length", "lower", "upper", "||", "concat",
    "year", "month", "day", "date_part", "date_trunc", "isnan", "isinf", "isfinite", "left", "right", "trim",
    "ltrim", "rtrim", "greatest", "least", "list_value", "struct_extract", "array_extract", "list_extract",
}  # fmt: skip
_ARITHMETIC = {"+", "-", "*"}
_WIDE = ("DECIMAL", "HUGEINT")  # the result has room; only numbers of 38 digits would leave it
_DIGITS = {
    "TINYINT": 3, "SMALLINT": 5, "INTEGER": 10, "BIGINT": 19, "HUGEINT": 39, "UTINYINT": 3, "USMALLINT": 5,
    "UINTEGER": 10, "UBIGINT": 20, "BOOLEAN": 1,
}  # fmt: skip
_ORDER = ("BOOLEAN", "TINYINT", "SMALLINT", "INTEGER", "BIGINT", "HUGEINT", "FLOAT", "DOUBLE")


def can_fail(expr: Expr) -> bool:
    """False only where no value of the columns makes the expression fail.

    >>> from penstock.plan.expr import Col
    >>> from penstock.zset.types import BIGINT, DOUBLE, INTEGER
    >>> can_fail(Call(BIGINT, "cast", (Col(INTEGER, 0),)))
    False
    >>> can_fail(Call(INTEGER, "cast", (Col(DOUBLE, 0),)))
    True
    """
    if not isinstance(expr, Call):
        return False
    if expr.name == "try":
        return False
    if expr.name == "cast":
        return not _always_fits(expr.args[0].type, expr.type) or can_fail(expr.args[0])
    if expr.name not in _SAFE and not (
        expr.name in _ARITHMETIC and (expr.type.is_float or expr.type.id in _WIDE)
    ):
        return True
    return any(can_fail(arg) for arg in expr.args)


def _always_fits(source: SqlType, target: SqlType) -> bool:
    if target.id == "VARCHAR" or source.id == "NULL":
        return True
    if source.id in _ORDER and target.id in _ORDER:
        return _ORDER.index(source.id) <= _ORDER.index(target.id)
    if target.id == "DECIMAL":
        if source.id == "DECIMAL":
            return target.scale >= source.scale and target.width - target.scale >= source.width - source.scale
        return source.id in _DIGITS and target.width - target.scale >= _DIGITS[source.id]
    if source.id == "DECIMAL":
        return target.is_float
    return source.id == "DATE" and target.id == "TIMESTAMP"
