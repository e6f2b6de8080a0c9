"""Expressions of a serialised DuckDB plan as our own."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from penstock.base.errors import NotMaintainable
from penstock.plan.expr import Call, Const, Expr
from penstock.sql.read_types import Json, Unreadable, read_type, read_value
from penstock.zset import types as t
from penstock.zset.types import BOOLEAN, SqlType

NOWHERE = 2**64 - 1  # how DuckDB writes "no index" and "no position"

COMPARISONS = {
    "COMPARE_EQUAL": "=",
    "COMPARE_NOTEQUAL": "<>",
    "COMPARE_LESSTHAN": "<",
    "COMPARE_GREATERTHAN": ">",
    "COMPARE_LESSTHANOREQUALTO": "<=",
    "COMPARE_GREATERTHANOREQUALTO": ">=",
    "COMPARE_DISTINCT_FROM": "is_distinct",
    "COMPARE_NOT_DISTINCT_FROM": "is_not_distinct",
}
_OPERATORS = {
    "OPERATOR_IS_NULL": "is_null",
    "OPERATOR_IS_NOT_NULL": "is_not_null",
    "OPERATOR_NOT": "not",
    "OPERATOR_COALESCE": "coalesce",
    "OPERATOR_NULLIF": "nullif",
    "OPERATOR_TRY": "try",
    "COMPARE_IN": "in",
    "COMPARE_NOT_IN": "not_in",
    "ARRAY_EXTRACT": "array_extract",
    "ARRAY_SLICE": "array_slice",
    "ARRAY_CONSTRUCTOR": "list_value",
    "STRUCT_EXTRACT": "struct_extract",
}


def read_expr(item: Json, columns: Sequence[Expr]) -> Expr:
    """An expression whose references mean these columns."""
    reader = _READERS.get(item["expression_class"])
    if reader is None:
        name = item["expression_class"].removeprefix("BOUND_").lower()
        raise NotMaintainable(f"{name} expressions cannot be maintained", position=position_of(item))
    return reader(item, columns)


def position_of(item: Json) -> int | None:
    """Where an expression stands in the text (in bytes, as DuckDB counts), if it does."""
    position = item.get("query_location", NOWHERE)
    return None if position == NOWHERE else int(position)


def call(type: SqlType, name: str, *args: Expr) -> Call:
    return Call(type, name, args)


def all_of(terms: Sequence[Expr]) -> Expr | None:
    """The conjunction of the terms; None of none."""
    if len(terms) < 2:
        return terms[0] if terms else None
    return Call(BOOLEAN, "and", tuple(terms))


def _reference(item: Json, columns: Sequence[Expr]) -> Expr:
    index = item["index"]
    if index >= len(columns):
        raise Unreadable(f"column {index} of {len(columns)}")
    found, wanted = columns[index], read_type(item["return_type"])
    if found.type != wanted:
        raise Unreadable(f"column {index} is {found.type}, not {wanted}")
    return found


def _constant(item: Json, columns: Sequence[Expr]) -> Expr:
    return Const(*read_value(item["value"]))


def _arguments(item: Json, columns: Sequence[Expr]) -> tuple[Expr, ...]:
    return tuple(read_expr(child, columns) for child in item["children"])


def _function(item: Json, columns: Sequence[Expr]) -> Expr:
    kind, type = item["type"], read_type(item["return_type"])
    data = item.get("function_data") or {}
    if "lambda_expr" in data:
        name = item["qname"]["path"][-1]
        raise NotMaintainable(f"lambda functions ({name}) cannot be maintained", position=position_of(item))
    args = _arguments(item, columns)
    if kind in COMPARISONS:
        return Call(type, COMPARISONS[kind], args, position_of(item))
    if kind == "OPERATOR_CAST":
        return cast(args[0], type, bool(data.get("try_cast")), position_of(item))
    if kind == "COMPARE_BETWEEN":
        return _within(args[0], args[1], args[2], data, position_of(item))
    name = item["qname"]["path"][-1]
    if name.startswith("__"):  # of DuckDB's own making: it could not be written down as SQL again
        raise Unreadable(f"internal function {name}")
    if "aggr_expr" in (data.get("bind_data") or {}) and len(args) == 1:  # list_sum(l) and the like
        inner = data["bind_data"]["aggr_expr"]["qname"]["path"][-1]
        name, args = "list_aggregate", (*args, Const(t.VARCHAR, inner))
    return Call(type, name, args, position_of(item))


def cast(arg: Expr, type: SqlType, is_try: bool = False, position: int | None = None) -> Expr:
    """A cast, left out where it changes nothing and done at once where that is plain.

    >>> cast(Const(t.INTEGER, 5), t.BIGINT)
    Const(type=SqlType(id='BIGINT', width=0, scale=0, children=()), value=5)
    """
    if arg.type == type:
        return arg
    if isinstance(arg, Const):
        if arg.value is None:
            return Const(type, None)
        if arg.type.is_integer and type.id in ("BIGINT", "HUGEINT") and abs(arg.value) < 2**63:
            return Const(type, arg.value)
        if arg.type.is_integer and type.id == "DOUBLE" and abs(arg.value) < 2**53:
            return Const(type, float(arg.value))
        if arg.type.is_integer and type.id == "DECIMAL":
            scaled = arg.value * 10**type.scale
            if abs(scaled) < 10**type.width:
                return Const(type, scaled)
    return Call(type, "try_cast" if is_try else "cast", (arg,), position)


def _bound_cast(item: Json, columns: Sequence[Expr]) -> Expr:
    arg = read_expr(item["child"], columns)
    return cast(arg, read_type(item["return_type"]), bool(item.get("try_cast")), position_of(item))


def _conjunction(item: Json, columns: Sequence[Expr]) -> Expr:
    name = "and" if item["type"] == "CONJUNCTION_AND" else "or"
    args = _arguments(item, columns)
    return args[0] if len(args) == 1 else Call(BOOLEAN, name, args, position_of(item))


def _operator(item: Json, columns: Sequence[Expr]) -> Expr:
    name = _OPERATORS.get(item["type"])
    if name is None:
        words = item["type"].lower().replace("_", " ")
        raise NotMaintainable(f"{words} cannot be maintained", position=position_of(item))
    args = _arguments(item, columns)
    if name == "not" and isinstance(args[0], Call) and args[0].name == "in":
        return Call(BOOLEAN, "not_in", args[0].args, position_of(item))
    return Call(read_type(item["return_type"]), name, args, position_of(item))


def _case(item: Json, columns: Sequence[Expr]) -> Expr:
    args: list[Expr] = []
    for check in item["case_checks"]:
        args += [read_expr(check["when_expr"], columns), read_expr(check["then_expr"], columns)]
    args.append(read_expr(item["else_expr"], columns))
    return Call(read_type(item["return_type"]), "case", tuple(args), position_of(item))


def _between(item: Json, columns: Sequence[Expr]) -> Expr:
    value, lower, upper = (read_expr(item[k], columns) for k in ("input", "lower", "upper"))
    return _within(value, lower, upper, item, position_of(item))


def _within(value: Expr, lower: Expr, upper: Expr, ends: Json, position: int | None) -> Expr:
    """`value BETWEEN lower AND upper`, with the ends included or not."""
    low = call(BOOLEAN, ">=" if ends["lower_inclusive"] else ">", value, lower)
    high = call(BOOLEAN, "<=" if ends["upper_inclusive"] else "<", value, upper)
    return Call(BOOLEAN, "and", (low, high), position)


def _refused(words: str) -> Callable[[Json, Sequence[Expr]], Expr]:
    def refuse(item: Json, columns: Sequence[Expr]) -> Expr:
        raise NotMaintainable(f"{words} cannot be maintained", position=position_of(item))

    return refuse


_READERS: dict[str, Callable[[Json, Sequence[Expr]], Expr]] = {
    "BOUND_REF": _reference,
    "BOUND_CONSTANT": _constant,
    "BOUND_FUNCTION": _function,
    "BOUND_COMPARISON": lambda item, columns: Call(
        BOOLEAN,
        COMPARISONS[item["type"]],
        (read_expr(item["left"], columns), read_expr(item["right"], columns)),
        position_of(item),
    ),
    "BOUND_CAST": _bound_cast,
    "BOUND_CONJUNCTION": _conjunction,
    "BOUND_OPERATOR": _operator,
    "BOUND_CASE": _case,
    "BOUND_BETWEEN": _between,
    "BOUND_LAMBDA": _refused("lambda functions"),
    "BOUND_LAMBDA_REF": _refused("lambda functions"),
    "BOUND_UNNEST": _refused("UNNEST"),
    "BOUND_WINDOW": _refused("window functions"),
    "BOUND_PARAMETER": _refused("parameters"),
}


def read_filter(item: Json, columns: Sequence[Expr]) -> Expr | None:
    """A filter that DuckDB pushed into a table scan, on these columns; None where it keeps every row."""
    column = columns[0]
    kind = item["filter_type"].removeprefix("LEGACY_")
    if kind == "CONSTANT_COMPARISON":
        constant = Const(*read_value(item["constant"]))
        return call(BOOLEAN, COMPARISONS[item["comparison_type"]], column, constant)
    if kind == "IS_NULL":
        return call(BOOLEAN, "is_null", column)
    if kind == "IS_NOT_NULL":
        return call(BOOLEAN, "is_not_null", column)
    if kind in ("CONJUNCTION_AND", "CONJUNCTION_OR"):
        return _filters(kind, [read_filter(child, columns) for child in item["child_filters"]])
    if kind == "IN_FILTER":
        values: list[Any] = [Const(*read_value(value)) for value in item["values"]]
        return call(BOOLEAN, "in", column, *values)
    if kind == "EXPRESSION_FILTER":
        return read_expr(item["expr"], columns)
    if kind in ("OPTIONAL_FILTER", "DYNAMIC_FILTER", "BLOOM_FILTER"):
        return None  # a hint for the scan: the rows are tested again further up
    raise Unreadable(f"table filter {kind}")


def _filters(kind: str, terms: list[Expr | None]) -> Expr | None:
    kept = [term for term in terms if term is not None]
    if kind == "CONJUNCTION_AND":
        return all_of(kept)
    if len(kept) < len(terms):
        return None
    return kept[0] if len(kept) == 1 else Call(BOOLEAN, "or", tuple(kept))
