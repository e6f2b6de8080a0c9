"""CAST as Spark means it in ANSI mode: fractions are cut off, and text must be what it is taken for."""

from __future__ import annotations

from penstock.sql.spark.dialect import refuse
from penstock.sql.spark.typed import Typed, raw_cast, string
from penstock.sql.spark.types import INSTANT, is_decimal
from penstock.zset.types import SqlType

EXACT_DIGITS = 15  # a decimal of as many digits is an exact quotient of two doubles

# We take '1.5', '1e3' and '1_000' for integers, and Spark does not.
_WHOLE = r"^\s*[+-]?[0-9]+\s*$"
_NUMBER = r"^\s*[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?\s*$"
_DOUBLE = _NUMBER[:-1].replace("([0-9]+", "((?i:nan|inf|infinity)|[0-9]+") + "$"


def cast(value: Typed, type: SqlType, attempt: bool = False) -> Typed:
    """The value in another type; with `attempt` NULL instead of an error, as TRY_CAST does.

    >>> from penstock.sql.spark.typed import number
    >>> from penstock.zset import types as t
    >>> cast(number("1.5", t.decimal(2, 1)), t.INTEGER).sql
    'CAST(trunc(CAST(1.5 AS DECIMAL(2,1))) AS INTEGER)'
    """
    if value.type == type:
        return value
    word = "TRY_CAST" if attempt else "CAST"
    found = _text_of(value) if type.id == "VARCHAR" else _converted(value, type, word)
    if found is None:
        raise refuse(
            f"a cast from {value.type.duck} to {type.duck} is not translated",
            value.tree,
            "Its answer would be another one than Spark's." if value.type.is_float else None,
        )
    return Typed(found, type, value.tree, aggregate=value.aggregate)


def _converted(value: Typed, type: SqlType, word: str) -> str | None:
    source, sql = value.type, value.sql
    if source.id == "NULL":
        return f"CAST(NULL AS {type.duck})"
    if source.id == "VARCHAR":
        return _from_text(sql, type, word)
    if source.is_numeric:
        return _from_number(value, type, word)
    if source.id == "BOOLEAN" and type.is_numeric:
        return f"CAST(CAST({sql} AS INTEGER) AS {type.duck})"
    return _from_moment(sql, source, type)


def _from_number(value: Typed, type: SqlType, word: str) -> str | None:
    source, sql = value.type, value.sql
    if type.id == "BOOLEAN":
        return f"({sql} <> 0)"
    if not type.is_numeric:
        return None
    if type.is_integer and not source.is_integer:
        return f"{word}(trunc({sql}) AS {type.duck})"
    if is_decimal(type) and source.is_float:  # by its digits, as Java shows them
        return f"{word}(CAST(CAST({sql} AS DOUBLE) AS VARCHAR) AS {type.duck})"
    if type.is_float and is_decimal(source) and source.width > EXACT_DIGITS:
        return f"CAST(CAST({sql} AS VARCHAR) AS {type.duck})"
    return f"{word}({value.literal if source.is_integer and value.literal else sql} AS {type.duck})"


def _from_text(sql: str, type: SqlType, word: str) -> str | None:
    if type.is_integer or is_decimal(type) or type.is_float:
        pattern = _WHOLE if type.is_integer else _DOUBLE if type.is_float else _NUMBER
        wrong = "NULL" if word == "TRY_CAST" else f"concat('not a number: ', {sql})"
        guarded = f"CASE WHEN regexp_matches({sql}, {string(pattern)}) THEN trim({sql}) WHEN {sql} IS NULL THEN NULL ELSE {wrong} END"
        return f"{word}({guarded} AS {type.duck})"
    if type.id in ("BOOLEAN", "DATE", "TIMESTAMP", INSTANT):
        return f"{word}(trim({sql}) AS {type.duck})"
    return None


def _from_moment(sql: str, source: SqlType, type: SqlType) -> str | None:
    kinds = (source.id, type.id)
    if kinds in (("DATE", "TIMESTAMP"), ("TIMESTAMP", "DATE")):
        return f"CAST({sql} AS {type.duck})"
    if kinds in ((INSTANT, "TIMESTAMP"), ("TIMESTAMP", INSTANT)):
        return f"timezone('UTC', {sql})"
    if kinds == ("DATE", INSTANT):
        return f"timezone('UTC', CAST({sql} AS TIMESTAMP))"
    if kinds == (INSTANT, "DATE"):
        return f"CAST(timezone('UTC', {sql}) AS DATE)"
    return None


def _text_of(value: Typed) -> str | None:
    type, sql = value.type, value.sql
    if type.id == "NULL":
        return "CAST(NULL AS VARCHAR)"
    if type.id == INSTANT:
        sql = f"timezone('UTC', {sql})"
    if type.id in ("BOOLEAN", "DATE", "TIMESTAMP", INSTANT) or type.is_integer or is_decimal(type):
        return f"CAST({sql} AS VARCHAR)"
    return None


def coerced(value: Typed, type: SqlType) -> Typed:
    """The value in a type that Spark would bring it to by itself."""
    if value.type.is_numeric and type.is_numeric and not (value.type.is_float and not type.is_float):
        if type.is_float and is_decimal(value.type):
            return cast(value, type)
        return raw_cast(value, type)
    return cast(value, type)
