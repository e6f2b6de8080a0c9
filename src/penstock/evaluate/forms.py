"""What every part of the evaluator shares: the shape of a compiled expression and its helpers.

Inside the evaluator a column of one row also stands for a constant, so that numpy broadcasts it:
each compiled expression gives either `count` rows or one row. `spread` makes the rows real.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple, Protocol

import numpy as np
import pyarrow as pa

from penstock.base.errors import NumericOutOfRange, PenstockError
from penstock.plan.expr import Call, Expr
from penstock.zset.column import Column
from penstock.zset.types import SqlType

Eval = Callable[[Sequence[Column], int], Column]


class Compiler(Protocol):
    """What a builder of a function may ask for."""

    def compile(self, expr: Expr) -> Eval: ...

    def duck(self, expr: Expr) -> Eval:
        """DuckDB's answer for the whole expression."""

    def total(self, expr: Expr) -> bool:
        """True if no row can make the expression fail, and it is cheap: it may run on any row."""

    def text(self, expr: Expr) -> str:
        """The expression as a message shows it."""


# Builds the compiled form of a call, or None: not for these types, DuckDB shall do it.
Builder = Callable[[Call, Compiler], Eval | None]


class Function(NamedTuple):
    """An entry of the table of functions: how to build it, and whether it can fail on a row."""

    build: Builder
    total: bool | Callable[[Call], bool] = False


def spread(column: Column, count: int) -> Column:
    """The column with `count` rows, where it may be a constant of one row."""
    if len(column.values) == count:
        return column
    if column.type.kind == "arrow":
        return Column(column.type, pa.repeat(column.values[0], count))
    valid = None if column.valid is None else np.repeat(column.valid, count)
    return Column(column.type, np.repeat(column.values, count), valid)


def both_valid(a: Column, b: Column) -> np.ndarray | None:
    """Where neither side is NULL (columns held by numpy)."""
    if a.valid is None:
        return b.valid
    if b.valid is None:
        return a.valid
    return a.valid & b.valid


def masked(type: SqlType, values: np.ndarray, valid: np.ndarray | None) -> Column:
    """A column in normal form (zero under NULL) from values with anything under NULL."""
    if valid is None:
        return Column(type, values)
    if valid.size != values.size:
        if values.size == 1:
            values = np.repeat(values, valid.size)
        else:
            valid = np.repeat(valid, values.size)
    if valid.all():
        return Column(type, values)
    return Column(type, cleared(values, valid), valid)


def cleared(values: np.ndarray, valid: np.ndarray) -> np.ndarray:
    """Zero where not valid. Multiplying is the fastest way, but NaN times zero is not zero."""
    if values.dtype.kind in "iub":
        return values & valid if values.dtype.kind == "b" else values * valid
    return np.where(valid, values, values.dtype.type(0) if values.dtype.kind == "f" else 0)


def is_valid_at(column: Column, row: int = 0) -> bool:
    """Is there a value in that row?"""
    if column.type.kind == "arrow":
        return bool(column.values[row].is_valid)
    return column.valid is None or bool(column.valid[row])


def one_null(type: SqlType) -> Column:
    """NULL as a constant."""
    from penstock.zset.column import nulls

    return nulls(type, 1)


def pick(columns: Sequence[Column], needed: Sequence[int], index: np.ndarray) -> list[Column]:
    """The rows at `index` of the columns that an expression needs; the others are left out."""
    picked: list[Column] = [None] * len(columns)  # type: ignore[list-item]
    for i in needed:
        picked[i] = columns[i].take(index)
    return picked


def failure(
    error: type[PenstockError], what: str, call: Call, compiler: Compiler, hint: str
) -> Callable[[], PenstockError]:
    """A maker of the error that a call raises, its text worked out only when it is needed."""
    return lambda: error(f"{what} in {compiler.text(call)}", hint=hint, position=call.position)


def range_failure(call: Call, compiler: Compiler) -> Callable[[], PenstockError]:
    """The error for a result that does not fit the call's type."""
    hint = "Cast an operand to a larger type, such as DECIMAL(38, s) or DOUBLE."
    return failure(NumericOutOfRange, f"{call.type} out of range", call, compiler, hint)
