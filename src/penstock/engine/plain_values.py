"""INSERT of plain constants, `INSERT INTO t (a, b) VALUES (1, 'x')`, without DuckDB.

DuckDB takes several times as long to bind such a statement as the epoch takes that it makes. Only constants that are
plainly values of their column's type are read here; everything else, and everything that is wrong, is left to DuckDB.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa

from penstock.base.limits import PLAIN_VALUES_TEXT_MAX
from penstock.engine.catalog import Table, VolatileDefault
from penstock.sql import statements as st
from penstock.sql.parse_dml import values_rows
from penstock.sql.tokens import fold
from penstock.zset.column import Column, constant, from_pylist, nulls
from penstock.zset.types import SqlType
from penstock.zset.zset import ZSet

_STRING = r"'(?:[^']|'')*'"
_ITEM = re.compile(
    rf"(?P<number>\(?-?[0-9]{{1,18}}(?:\.[0-9]{{1,18}})?\)?)|(?P<string>{_STRING})|(?P<word>NULL|TRUE|FALSE)"
    rf"|CAST\((?P<cast>{_STRING}|NULL) AS (?P<type>[A-Z]+(?:\([0-9]+,[0-9]+\))?)\)",
    re.IGNORECASE,
)
_INTEGER = re.compile(r"-?[0-9]{1,18}")
_DECIMAL = re.compile(r"-?([0-9]{1,18})(?:\.([0-9]{1,18}))?")
_HEX = re.compile(r"\\x((?:[0-9a-fA-F]{2})+)")
_INTEGERS = {"TINYINT": 8, "SMALLINT": 16, "INTEGER": 32, "BIGINT": 64}  # with their bits


class _Other(Exception):
    """It is not as plain as that."""


def plain_rows(table: Table, statement: st.Insert) -> ZSet | None:
    """The rows of an INSERT; None if DuckDB has to work them out."""
    if statement.with_text or statement.by_name or statement.default_values or statement.has_default:
        return None
    if len(statement.source.text) > PLAIN_VALUES_TEXT_MAX:
        return None
    names = [fold(n) for n in table.schema.names]
    given = names if statement.columns is None else [fold(c) for c in statement.columns]
    if len(set(given)) < len(given) or not set(given) <= set(names):
        return None
    rows = values_rows(statement.source)
    if rows is None or any(len(row) != len(given) for row in rows):
        return None
    try:
        columns = [
            _column(type, [row[given.index(name)].text for row in rows])
            if name in given
            else _default(table, place, len(rows))
            for place, (name, type) in enumerate(zip(names, table.schema.types, strict=True))
        ]
    except _Other:
        return None
    return ZSet(tuple(columns), np.ones(len(rows), np.int64))


def _default(table: Table, place: int, count: int) -> Column:
    type, value = table.schema.types[place], table.defaults[place]
    if isinstance(value, VolatileDefault):
        raise _Other
    return nulls(type, count) if value is None else constant(type, value, count)


def _column(type: SqlType, texts: Sequence[str]) -> Column:
    values = [_value(type, text) for text in texts]
    if None not in values and type.id in _INTEGERS:
        return Column(type, np.array(values, type.numpy))
    if type.id == "VARCHAR":
        return Column(type, pa.array(values, type.arrow))
    return from_pylist(type, values)


def _value(type: SqlType, text: str) -> Any:
    """The constant in the form that pyarrow reads; NULL is None."""
    found = _ITEM.fullmatch(text)
    if found is None or type.id not in (*_INTEGERS, "VARCHAR", "BOOLEAN", "DECIMAL", "BLOB"):
        raise _Other
    word = (found["word"] or found["cast"] or "").upper()
    if word == "NULL":
        if found["cast"] and not _goes_into(found["type"], type):
            raise _Other
        return None
    if found["cast"]:
        return _typed(type, found["type"], _unquoted(found["cast"]))
    if found["string"]:
        return _of_text(type, _unquoted(found["string"]))
    if found["number"]:
        number = found["number"].removeprefix("(").removesuffix(")")
        if type.id == "VARCHAR" or (text[0] == "(") != (text[-1] == ")"):
            raise _Other
        return _of_text(type, number)
    if type.id != "BOOLEAN":
        raise _Other
    return word == "TRUE"


def _unquoted(text: str) -> str:
    return text[1:-1].replace("''", "'")


def _typed(type: SqlType, given: str, text: str) -> Any:
    """A value that came as a parameter, of the type that is given."""
    if type.id in _INTEGERS:
        if given not in _INTEGERS or _bits(text) > min(_INTEGERS[given], _INTEGERS[type.id]):
            raise _Other
        return int(text)
    if given != type.duck or type.id == "BLOB":  # bytes of parameters are written as DuckDB reads them
        raise _Other
    return _of_text(type, text)


def _goes_into(given: str, type: SqlType) -> bool:
    """Whether a NULL of a type is one of the column's for DuckDB, whatever stands beside it."""
    return given in _INTEGERS if type.id in _INTEGERS else given == type.duck


def _bits(text: str) -> int:
    """How many bits an integer needs, its sign included."""
    if not _INTEGER.fullmatch(text):
        raise _Other
    value = int(text)
    return (value if value >= 0 else ~value).bit_length() + 1


def _of_bytes(text: str) -> bytes:
    r"""As Postgres writes bytes in hex. DuckDB takes `\xdead` for one byte and two letters."""
    found = _HEX.fullmatch(text)
    if found is None:
        raise _Other
    return bytes.fromhex(found[1])


def _of_text(type: SqlType, text: str) -> Any:
    if type.id == "VARCHAR":
        return text
    if type.id == "BLOB":
        return _of_bytes(text)
    if type.id in _INTEGERS and _bits(text) <= _INTEGERS[type.id]:
        return int(text)
    found = _DECIMAL.fullmatch(text) if type.id == "DECIMAL" else None
    if found is None or len(found[2] or "") > type.scale or len(found[1]) > type.width - type.scale:
        raise _Other
    return Decimal(text)
