"""Scalar expressions over the columns of one input, typed and bound to positions.

Everything that is not a column or a constant is a Call: operators, functions, CASE, casts. The
names are DuckDB's function names, plus these of our own:

    and, or, not, is_null, is_not_null         three-valued logic
    =, <>, <, <=, >, >=                        NULL if either side is NULL
    is_distinct, is_not_distinct               never NULL
    case                                       args: when1, then1, when2, then2, ..., else
    in                                         args: needle, item, item, ... (three-valued)
    not_in                                     the negation of in
    coalesce, cast, try_cast                   cast's target is the Call's type
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

from penstock.zset.types import SqlType


@dataclass(frozen=True)
class Expr:
    type: SqlType


@dataclass(frozen=True)
class Col(Expr):
    """The input's column at a position."""

    index: int


@dataclass(frozen=True)
class Const(Expr):
    """A constant. `value` is None for NULL, else what the column representation holds:

    int for integers, scaled int for decimals, days for DATE, microseconds for TIME and
    timestamps, float, bool, str (VARCHAR, JSON, UUID), bytes, (months, days, microseconds) for
    INTERVAL, and tuples of such values for LIST (items), STRUCT (field values), MAP (pairs).
    """

    value: Any


@dataclass(frozen=True)
class Call(Expr):
    """A function applied to arguments; `position` is where it stands in the statement's text."""

    name: str
    args: tuple[Expr, ...]
    position: int | None = None

    def __eq__(self, other: object) -> bool:  # where it stands in the text is not what it means
        return (
            isinstance(other, Call)
            and self.name == other.name
            and self.type == other.type
            and self.args == other.args
        )

    def __hash__(self) -> int:
        return hash((self.name, self.type, self.args))


def columns_of(expr: Expr) -> set[int]:
    """The positions that an expression reads.

    >>> from penstock.zset.types import BIGINT
    >>> columns_of(Call(BIGINT, "+", (Col(BIGINT, 3), Const(BIGINT, 1))))
    {3}
    """
    return {e.index for e in walk(expr) if isinstance(e, Col)}


def walk(expr: Expr) -> Iterator[Expr]:
    """The expression and everything below it."""
    yield expr
    if isinstance(expr, Call):
        for arg in expr.args:
            yield from walk(arg)


def rewrite_columns(expr: Expr, change: Callable[[Col], Expr]) -> Expr:
    """The expression with each column replaced by what `change` returns for it."""
    if isinstance(expr, Col):
        return change(expr)
    if isinstance(expr, Call):
        return replace(expr, args=tuple(rewrite_columns(a, change) for a in expr.args))
    return expr


def conjuncts(expr: Expr) -> list[Expr]:
    """The terms of a conjunction: `a AND (b AND c)` is [a, b, c]."""
    if isinstance(expr, Call) and expr.name == "and":
        return [term for arg in expr.args for term in conjuncts(arg)]
    return [expr]
