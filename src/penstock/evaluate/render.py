"""Expressions as SQL text: exact for DuckDB (`render`), or short for people (`readable`)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from decimal import Decimal
from typing import Any

from penstock.plan.expr import Call, Col, Const, Expr
from penstock.zset.types import SqlType

DATE_INFINITY = 2**31 - 1
TIMESTAMP_INFINITY = 2**63 - 1

_COMPARISONS = {
    "=": "=", "<>": "<>", "<": "<", "<=": "<=", ">": ">", ">=": ">=",
    "is_distinct": "IS DISTINCT FROM", "is_not_distinct": "IS NOT DISTINCT FROM",
}  # fmt: skip


def render(expr: Expr, column_name: Callable[[int], str]) -> str:
    """The expression as SQL that DuckDB binds to the same types again.

    >>> from penstock.zset.types import BIGINT
    >>> render(Call(BIGINT, "+", (Col(BIGINT, 0), Const(BIGINT, 1))), lambda i: f"c{i}")
    '"+"(c0, 1::BIGINT)'
    """
    if isinstance(expr, Col):
        return column_name(expr.index)
    if isinstance(expr, Const):
        return constant_sql(expr.type, expr.value)
    assert isinstance(expr, Call)
    args = [render(a, column_name) for a in expr.args]
    form = _FORMS.get(expr.name)
    if form is not None:
        return form(expr, args)
    return f"{_quoted(expr.name)}({', '.join(args)})"


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _case(call: Call, args: list[str]) -> str:
    whens = "".join(f" WHEN {args[i]} THEN {args[i + 1]}" for i in range(0, len(args) - 1, 2))
    return f"(CASE{whens} ELSE {args[-1]} END)"


def _struct(call: Call, args: list[str]) -> str:
    fields = (f"{_quoted(name)} := {arg}" for (name, _), arg in zip(call.type.children, args, strict=True))
    return f"struct_pack({', '.join(fields)})"


def _infix(operator: str) -> Callable[[Call, list[str]], str]:
    return lambda call, args: "(" + f" {operator} ".join(args) + ")"


_FORMS: dict[str, Callable[[Call, list[str]], str]] = {
    **{name: _infix(sql) for name, sql in _COMPARISONS.items()},
    "and": _infix("AND"),
    "or": _infix("OR"),
    "not": lambda call, args: f"(NOT {args[0]})",
    "is_null": lambda call, args: f"({args[0]} IS NULL)",
    "is_not_null": lambda call, args: f"({args[0]} IS NOT NULL)",
    "case": _case,
    "in": lambda call, args: f"({args[0]} IN ({', '.join(args[1:])}))",
    "not_in": lambda call, args: f"({args[0]} NOT IN ({', '.join(args[1:])}))",
    "coalesce": lambda call, args: f"COALESCE({', '.join(args)})",
    "cast": lambda call, args: f"CAST({args[0]} AS {call.type.duck})",
    "try_cast": lambda call, args: f"TRY_CAST({args[0]} AS {call.type.duck})",
    "try": lambda call, args: f"TRY({args[0]})",
    "struct_pack": _struct,
    "row": lambda call, args: f"row({', '.join(args)})",
}


def constant_sql(type: SqlType, value: Any) -> str:
    """A constant (in the form that `Const` holds) as SQL of exactly its type.

    >>> from penstock.zset.types import VARCHAR, decimal
    >>> constant_sql(decimal(12, 2), 150), constant_sql(VARCHAR, "it's")
    ("'1.50'::DECIMAL(12,2)", "'it''s'::VARCHAR")
    """
    if type.id == "NULL":
        return "NULL"
    if value is None:
        return f"CAST(NULL AS {type.duck})"
    form = _CONSTANTS.get(type.id)
    if form is not None:
        return form(type, value)
    return f"({value})::{type.duck}" if value < 0 else f"{value}::{type.duck}"


def _decimal(type: SqlType, value: int) -> str:
    return f"'{decimal_text(value, type.scale)}'::{type.duck}"


def decimal_text(value: int, scale: int) -> str:
    """A scaled integer with its decimal point.

    >>> decimal_text(-5, 2)
    '-0.05'
    """
    if scale == 0:
        return str(value)
    digits = str(abs(value)).rjust(scale + 1, "0")
    return f"{'-' if value < 0 else ''}{digits[:-scale]}.{digits[-scale:]}"


def _text(type: SqlType, value: str) -> str:
    quoted = "'" + value.replace("'", "''") + "'"
    if "\0" in value:  # no literal can hold it
        quoted = "(" + quoted.replace("\0", "' || chr(0) || '") + ")"
    return f"{quoted}::{type.duck}"


def _date(type: SqlType, days: int) -> str:
    if abs(days) == DATE_INFINITY:
        return f"'{'-' if days < 0 else ''}infinity'::DATE"
    return f"(DATE '1970-01-01' + ({days})::INTEGER)"


def _timestamp(type: SqlType, micros: int) -> str:
    if abs(micros) == TIMESTAMP_INFINITY:
        return f"'{'-' if micros < 0 else ''}infinity'::{type.duck}"
    function = "make_timestamp" if type.id == "TIMESTAMP" else "make_timestamptz"
    return f"{function}(({micros})::BIGINT)"


def _interval(type: SqlType, value: tuple[int, int, int]) -> str:
    months, days, micros = value
    return (
        f"(to_months(({months})::INTEGER) + to_days(({days})::INTEGER) + to_microseconds(({micros})::BIGINT))"
    )


def _list(type: SqlType, items: Sequence[Any]) -> str:
    child = type.children[0][1]
    return f"CAST([{', '.join(constant_sql(child, v) for v in items)}] AS {type.duck})"


def _struct_constant(type: SqlType, values: Sequence[Any]) -> str:
    fields = (
        f"{_quoted(name)} := {constant_sql(child, v)}"
        for (name, child), v in zip(type.children, values, strict=True)
    )
    return f"CAST(struct_pack({', '.join(fields)}) AS {type.duck})"


def _map(type: SqlType, pairs: Sequence[tuple[Any, Any]]) -> str:
    (_, key), (_, item) = type.children
    body = ", ".join(f"{constant_sql(key, k)}: {constant_sql(item, v)}" for k, v in pairs)
    return f"CAST(MAP {{{body}}} AS {type.duck})"


_CONSTANTS: dict[str, Callable[[SqlType, Any], str]] = {
    "BOOLEAN": lambda type, value: "TRUE" if value else "FALSE",
    "HUGEINT": lambda type, value: f"'{value}'::HUGEINT",
    "DECIMAL": _decimal,
    "FLOAT": lambda type, value: f"'{value!r}'::FLOAT",
    "DOUBLE": lambda type, value: f"'{value!r}'::DOUBLE",
    "VARCHAR": _text,
    "JSON": _text,
    "UUID": _text,
    "BLOB": lambda type, value: f"unhex('{value.hex()}')",
    "DATE": _date,
    "TIME": lambda type, value: f"(TIME '00:00:00' + to_microseconds({value}::BIGINT))",
    "TIMESTAMP": _timestamp,
    "TIMESTAMP WITH TIME ZONE": _timestamp,
    "INTERVAL": _interval,
    "LIST": _list,
    "ARRAY": _list,
    "STRUCT": _struct_constant,
    "MAP": _map,
}

# How operators that have a function name in the plan are written by people.
_SPOKEN = {
    "//": "/", "~~": "LIKE", "!~~": "NOT LIKE", "~~*": "ILIKE", "!~~*": "NOT ILIKE",
    "and": "AND", "or": "OR", **_COMPARISONS,
}  # fmt: skip
_INFIX = {"+", "-", "*", "/", "%", "||", *_SPOKEN}


def readable(expr: Expr, names: Sequence[str] | None = None) -> str:
    """The expression as a person would write it, for messages: no implied casts, few parentheses.

    >>> from penstock.zset.types import BIGINT, DOUBLE
    >>> a, b = (Call(DOUBLE, "cast", (Col(BIGINT, i),)) for i in (0, 1))
    >>> readable(Call(DOUBLE, "/", (a, b)), ["price", "quantity"])
    'price / quantity'
    """
    if isinstance(expr, Call) and expr.name in ("cast", "try_cast"):
        return f"{expr.name.upper()}({spoken(expr.args[0], names)} AS {expr.type.duck})"
    return spoken(expr, names)


def spoken(expr: Expr, names: Sequence[str] | None, nested: bool = False) -> str:
    """The same without the outermost cast; in parentheses, if it needs them where it stands inside another."""
    if isinstance(expr, Col):
        return names[expr.index] if names is not None and expr.index < len(names) else f"#{expr.index}"
    if isinstance(expr, Const):
        return _spoken_constant(expr.type, expr.value)
    assert isinstance(expr, Call)
    if expr.name in ("cast", "try_cast"):
        return spoken(expr.args[0], names, nested)
    if expr.name in _INFIX and len(expr.args) >= 2:
        operator = _SPOKEN.get(expr.name, expr.name)
        text = f" {operator} ".join(spoken(a, names, True) for a in expr.args)
        return f"({text})" if nested else text
    args = [spoken(a, names) for a in expr.args]
    if expr.name == "-":
        return f"-{spoken(expr.args[0], names, True)}"
    form = _FORMS.get(expr.name)
    if form is not None:
        text = form(expr, args)
        return text[1:-1] if text[0] == "(" and not nested else text
    return f"{expr.name}({', '.join(args)})"


def _spoken_constant(type: SqlType, value: Any) -> str:
    if value is None:
        return "NULL"
    if type.id == "DECIMAL":
        return (
            str(Decimal(value).scaleb(-type.scale))
            if abs(value) > 10**30
            else decimal_text(value, type.scale)
        )
    if type.id in ("BOOLEAN", "FLOAT", "DOUBLE") or type.is_integer:
        return str(value).upper() if type.id == "BOOLEAN" else str(value)
    if type.is_text:
        return "'" + str(value).replace("'", "''") + "'"
    from penstock.zset.column import constant

    found = constant(type, value, 1).to_pylist()[0]
    return f"{type.duck} '{found}'"
