"""Which values some columns can have where a predicate holds, if it names them: `a = 1 AND b IN (2, 3)`.

What comes out may be more than the predicate lets through, never less: whoever looks these values up still has to ask
the predicate of the rows that it finds.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

from penstock.plan.expr import Call, Col, Const, Expr, conjuncts
from penstock.zset.types import SqlType

Named = dict[int, Any]  # a value for each of some columns
Choices = list[Named]  # of which one holds in every row that passes; [{}] says nothing

_DAY_US = 86_400_000_000


def named_values(predicate: Expr, columns: Sequence[int], count_max: int) -> list[tuple[Any, ...]] | None:
    """The values that these columns can have together; None if they are not named, or are too many.

    >>> from penstock.zset.types import BIGINT, BOOLEAN
    >>> a, one, two = Col(BIGINT, 0), Const(BIGINT, 1), Const(BIGINT, 2)
    >>> named_values(Call(BOOLEAN, "in", (a, one, two, one)), [0], 10)
    [(1,), (2,)]
    >>> named_values(Call(BOOLEAN, "<", (a, one)), [0], 10) is None
    True
    """
    choices = _choices(predicate, set(columns), count_max)
    if not all(len(choice) == len(columns) for choice in choices):
        return None
    return list(dict.fromkeys(tuple(choice[c] for c in columns) for choice in choices))


def _choices(predicate: Expr, columns: set[int], count_max: int) -> Choices:
    terms = conjuncts(predicate)
    found = [_term(term, columns, count_max) for term in terms]
    found += _ranges(terms, columns, count_max)
    # What names most columns comes first, and of those the shortest: of the rest only that counts which names others.
    found.sort(key=lambda choices: (-len(_bound(choices)), len(choices)))
    together: Choices = [{}]
    for choices in found:
        both = _both(together, choices, count_max)
        together = together if both is None else both  # leaving a condition out lets more through, never less
    return together


def _bound(choices: Choices) -> set[int]:
    """The columns that have a value in each of the choices."""
    return set.intersection(*(set(c) for c in choices)) if choices else set()


def _both(left: Choices, right: Choices, count_max: int) -> Choices | None:
    """Where one of each holds; None if they are too many."""
    if not left or not right:
        return []
    if len(left) * len(right) > count_max:
        return None
    return [
        {**one, **other}
        for one in left
        for other in right
        if not any(_differ(one[column], other[column]) for column in one.keys() & other.keys())
    ]


def _differ(one: Any, other: Any) -> bool:
    return bool(one != other) and not (one != one and other != other)  # NaN is equal to itself in SQL


def _term(term: Expr, columns: set[int], count_max: int) -> Choices:
    if not isinstance(term, Call):
        return [{}]
    if term.name == "or":
        either = [choice for arg in term.args for choice in _choices(arg, columns, count_max)]
        return either if len(either) <= count_max and all(either) else [{}]
    if term.name not in ("=", "in") or len(term.args) > count_max + 1:
        return [{}]
    first, *rest = term.args
    if isinstance(first, Const) and term.name == "=":
        first, rest = rest[0], [first]
    constants = [c for c in rest if isinstance(c, Const)]
    if len(constants) < len(rest):
        return [{}]
    if any(c.type != first.type for c in constants if c.value is not None):
        return [{}]
    given = [c.value for c in constants if c.value is not None]  # NULL is equal to nothing
    if isinstance(first, Call) and first.name == "row":
        return _rows(first, given, columns)
    return _values(first, given, columns)


def _values(expr: Expr, values: list[Any], columns: set[int]) -> Choices:
    """Where a column, or a cast of one, is one of these."""
    column: Expr = expr
    back: Callable[[Any], Any] = _as_it_is
    if isinstance(expr, Call) and expr.name == "cast" and isinstance(expr.args[0], Col):
        column = expr.args[0]
        found = _uncast(column.type, expr.type)
        if found is None:
            return [{}]
        back = found
    if not isinstance(column, Col) or column.index not in columns:
        return [{}]
    try:
        originals = [back(value) for value in values]
    except _Unclear:
        return [{}]
    return [{column.index: value} for value in originals if value is not None]


def _rows(row: Call, values: list[Any], columns: set[int]) -> Choices:
    """Where (a, b) is one of these. NULL in a row of constants is equal to nothing that a key has."""
    found: Choices = []
    for value in values:
        choice: Choices = [{}]
        for expr, part in zip(row.args, value, strict=True):
            named = _values(expr, [] if part is None else [part], columns)
            choice = _both(choice, named, 1) or []
        found += choice
    return found if all(found) else [{}]


# -- ranges ----------------------------------------------------------------------------------------


def _ranges(terms: Sequence[Expr], columns: set[int], count_max: int) -> list[Choices]:
    """Of `id >= 1 AND id <= 3`, which is also what DuckDB makes of `id IN (1, 2, 3)`."""
    bounds: dict[int, tuple[int | None, int | None]] = {}
    for term in terms:
        if not isinstance(term, Call) or term.name not in (">", ">=", "<", "<=") or len(term.args) != 2:
            continue
        column, bound = term.args
        if not isinstance(column, Col) or not isinstance(bound, Const) or bound.value is None:
            continue
        if column.index not in columns or column.type != bound.type or not column.type.is_integer:
            continue
        low, high = bounds.get(column.index, (None, None))
        if term.name in (">", ">="):
            least = bound.value + (term.name == ">")
            low = least if low is None else max(low, least)
        else:
            most = bound.value - (term.name == "<")
            high = most if high is None else min(high, most)
        bounds[column.index] = low, high
    return [
        [{index: value} for value in range(low, high + 1)]
        for index, (low, high) in bounds.items()
        if low is not None and high is not None and high - low < count_max
    ]


# -- casts -----------------------------------------------------------------------------------------


class _Unclear(Exception):
    """It cannot be told which one value has this one for its cast."""


def _as_it_is(value: Any) -> Any:
    return value


def _uncast(original: SqlType, target: SqlType) -> Callable[[Any], Any] | None:
    """From a value of the target to the one value whose cast it is, or None; no function where that is not so.

    Only for casts that cannot fail: over all rows one that can would be an error, which a look-up must not hide.
    """
    if original.is_integer and (target.is_integer or target.id in ("DOUBLE", "DECIMAL")):
        low, high = _range(original)
        if target.id == "DOUBLE":
            return partial(_exact, low, high)
        if target.id == "DECIMAL":
            unit, fits = 10**target.scale, max(high, -low) < 10 ** (target.width - target.scale)
        else:
            unit, fits = 1, _range(target)[0] <= low and high <= _range(target)[1]
        return partial(_whole, unit, low, high) if fits else None
    if original.id == target.id == "DECIMAL":
        more = target.scale - original.scale
        if more < 0 or target.width < original.width + more:
            return None
        most = 10**original.width - 1
        return partial(_whole, 10**more, -most, most)
    if original.id == "DATE" and target.id == "TIMESTAMP":
        return _midnight
    return None


def _range(type: SqlType) -> tuple[int, int]:
    if type.id == "HUGEINT":
        return -(2**127), 2**127 - 1
    limits = np.iinfo(type.numpy)
    return int(limits.min), int(limits.max)


def _whole(unit: int, low: int, high: int, value: int) -> int | None:
    """So many units, if they are a whole number in the range."""
    return None if value % unit or not low <= value // unit <= high else value // unit


def _exact(low: int, high: int, value: float) -> int | None:
    if not abs(value) < 2**53:  # from there on several whole numbers become the same float
        raise _Unclear
    return int(value) if value == int(value) and low <= value <= high else None


def _midnight(value: int) -> int | None:
    if abs(value) > 2**62:  # infinity is a date and a timestamp
        raise _Unclear
    return None if value % _DAY_US else value // _DAY_US
