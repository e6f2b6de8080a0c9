"""Functions of text: in Python for the few rows of a small change, in Arrow for many.

Where neither is known to agree with DuckDB to the letter (case of letters outside of ASCII,
positions from the end), the scalar or the vector form gives NotImplemented and DuckDB does it.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.evaluate.compare import SMALL_ROWS_MAX, from_arrow_bool
from penstock.evaluate.forms import Builder, Compiler, Eval
from penstock.plan.expr import Call
from penstock.zset.column import Column
from penstock.zset.interchange import from_arrow
from penstock.zset.types import SqlType

Scalar = Callable[..., Any]
# Takes the columns' arrays (of one row for a constant) and gives an Arrow array.
Vector = Callable[..., Any]

POSITION_MAX = 2**31 - 1  # DuckDB refuses larger ones


def builder(scalar: Scalar, vector: Vector | None = None, strict: bool = True) -> Builder:
    """The builder of a function of texts and integers; strict: NULL if any argument is NULL."""

    def build(call: Call, compiler: Compiler) -> Eval | None:
        types = [a.type for a in call.args]
        if not types or not all(t.id == "VARCHAR" or t.is_integer for t in types) or types[0].id != "VARCHAR":
            return None
        return _compiled(call, compiler, scalar, vector, strict)

    return build


def _compiled(call: Call, compiler: Compiler, scalar: Scalar, vector: Vector | None, strict: bool) -> Eval:
    terms = [compiler.compile(a) for a in call.args]
    type = call.type
    by_duck = compiler.duck(call)

    def run(columns: Sequence[Column], count: int) -> Column:
        args = [term(columns, count) for term in terms]
        rows = max([len(a.values) for a in args]) if count else 0
        if rows <= SMALL_ROWS_MAX:
            found = _row_by_row(scalar, [_items(a, rows) for a in args], strict)
            if found is not NotImplemented:
                return _column(type, found)
        elif vector is not None:
            array = vector(*(a.values for a in args))
            if array is not NotImplemented:
                return from_arrow_bool(array) if type.id == "BOOLEAN" else from_arrow(array, type)
        return by_duck(columns, count)

    return run


def _items(column: Column, rows: int) -> list[Any]:
    values = column.values.to_pylist() if column.type.kind == "arrow" else column.values.tolist()
    if column.valid is not None:
        values = [v if ok else None for v, ok in zip(values, column.valid.tolist(), strict=True)]
    return values * rows if len(values) == 1 else values


def _row_by_row(scalar: Scalar, args: list[list[Any]], strict: bool) -> Any:
    found = []
    for items in zip(*args, strict=True):
        item = None if strict and None in items else scalar(*items)
        if item is NotImplemented:
            return NotImplemented
        found.append(item)
    return found


def _column(type: SqlType, items: list[Any]) -> Column:
    if type.kind == "arrow":
        return Column(type, pa.array(items, type.arrow))
    if None not in items:
        return Column(type, np.array(items, type.numpy))
    valid = np.array([i is not None for i in items], np.bool_)
    return Column(type, np.array([i or 0 for i in items], type.numpy), valid)


def _constant(array: Any) -> Any:
    """The one value of an argument that is a constant, else NotImplemented."""
    if len(array) != 1:
        return NotImplemented
    return array[0].as_py() if isinstance(array, pa.Array) else array.item()


def of_pattern(function: Callable[..., pa.Array]) -> Vector:
    """The vector form of an Arrow function that takes one constant pattern."""

    def vector(values: pa.Array, patterns: pa.Array) -> Any:
        pattern = _constant(patterns)
        if pattern is None or pattern is NotImplemented or len(values) == 1:
            return NotImplemented
        return function(values, pattern=pattern)

    return vector


def lower(text: str) -> Any:
    return text.lower() if text.isascii() else NotImplemented


def upper(text: str) -> Any:
    return text.upper() if text.isascii() else NotImplemented


def all_ascii(values: pa.Array) -> bool:
    return pc.all(pc.string_is_ascii(values), min_count=0).as_py() is not False


def lower_vector(values: pa.Array) -> Any:
    return pc.ascii_lower(values) if all_ascii(values) else NotImplemented


def upper_vector(values: pa.Array) -> Any:
    return pc.ascii_upper(values) if all_ascii(values) else NotImplemented


def substring(text: str, start: int, length: int = POSITION_MAX) -> Any:
    """From a position counted from 1. Positions from the end and lengths backwards are DuckDB's.

    >>> substring("hello", 2, 3)
    'ell'
    """
    if not (1 <= start <= POSITION_MAX and 0 <= length <= POSITION_MAX):
        return NotImplemented
    return text[start - 1 : start - 1 + length]


def substring_vector(values: pa.Array, start: np.ndarray, length: np.ndarray | None = None) -> Any:
    first = _constant(start)
    many = POSITION_MAX if length is None else _constant(length)
    if first is NotImplemented or many is NotImplemented or len(values) == 1:
        return NotImplemented
    if not (1 <= first <= POSITION_MAX and 0 <= many <= POSITION_MAX):
        return NotImplemented
    if length is None:
        return pc.utf8_slice_codeunits(values, first - 1)
    return pc.utf8_slice_codeunits(values, first - 1, first - 1 + many)


def left(text: str, count: int) -> str:
    return text[:count]


def right(text: str, count: int) -> str:
    if count < 0:
        return text[-count:]
    return text[max(0, len(text) - count) :]


def trimmer(name: str) -> Scalar:
    """trim, ltrim or rtrim. Without characters it takes away spaces, DuckDB also those outside of ASCII."""
    strip = operator.attrgetter(name)

    def trim(text: str, characters: str | None = None) -> Any:
        if characters is None:
            return strip(text)(" ") if text.isascii() else NotImplemented
        return strip(text)(characters) if characters else text

    return trim


def replace(text: str, old: str, new: str) -> str:
    return text.replace(old, new) if old else text


def position(text: str, part: str) -> int:
    return text.find(part) + 1


def join_vector(*arrays: pa.Array) -> Any:
    """a || b: NULL if either is NULL."""
    if not all(isinstance(a, pa.Array) for a in arrays):
        return NotImplemented
    rows = max(len(a) for a in arrays)
    terms = [a if len(a) == rows else a[0] for a in arrays]
    return pc.binary_join_element_wise(*terms, pa.scalar("", pa.large_string()))


def concat_vector(*arrays: pa.Array) -> Any:
    """CONCAT passes over NULLs. (Arrow's own way to skip them loses the rows where all are NULL.)"""
    if not all(isinstance(a, pa.Array) for a in arrays):
        return NotImplemented
    return join_vector(*(a.fill_null("") for a in arrays))


def concat(*texts: Any) -> Any:
    if not all(t is None or isinstance(t, str) for t in texts):
        return NotImplemented
    return "".join(t for t in texts if t is not None)


def join(a: Any, b: Any) -> Any:
    return a + b if isinstance(a, str) and isinstance(b, str) else NotImplemented
