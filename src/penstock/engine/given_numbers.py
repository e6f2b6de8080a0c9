"""Numbers that users hand to tick(): none loses a part that its column's type has no place for.

pyarrow cuts off what an integer cannot hold when it reads Python values, though not when it casts. So Python values
are looked at before it sees them. The rule is the same for both:

* an integer column takes 1.0 and Decimal("2"), and refuses whatever has a fraction;
* DECIMAL(p,s) refuses a Decimal that it cannot hold exactly, and rounds a float to its scale, half away from zero:
  a float is hardly ever exact as a decimal.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from functools import lru_cache
from itertools import chain
from typing import Any

import numpy as np

from penstock.zset.interchange import rounded
from penstock.zset.types import SqlType

_NONE = type(None)
_INTS = frozenset(
    (
        int,
        bool,
        _NONE,
        np.bool_,
        np.int8,
        np.int16,
        np.int32,
        np.int64,
        np.uint8,
        np.uint16,
        np.uint32,
        np.uint64,
    )
)
_EXACT = frozenset((int, Decimal, _NONE))
TEMPORAL = frozenset(("DATE", "TIME", "TIMESTAMP", "TIMESTAMP WITH TIME ZONE"))


class Unfit(ValueError):
    """A value that a type does not take."""

    def __init__(self, value: Any, type: SqlType) -> None:
        super().__init__(value, type)
        self.value = value
        self.type = type


@lru_cache(maxsize=1024)
def is_exact(type: SqlType) -> bool:
    """Whether pyarrow would cut off parts of numbers for this type, or for one inside it."""
    own = type.is_integer or type.id == "DECIMAL" or type.id in TEMPORAL
    return own or any(is_exact(child) for _, child in type.children)


def exact(values: Sequence[Any], type: SqlType) -> Sequence[Any]:
    """The values in a form from which pyarrow cuts nothing off. Raises Unfit if one has no place in the type.

    >>> from penstock.zset.types import BIGINT, decimal, list_of
    >>> exact([1.0, None], BIGINT), exact([[1.005], None], list_of(decimal(6, 2)))
    ([1.0, None], [[Decimal('1.01')], None])
    """
    if not is_exact(type):
        return values
    if type.id in ("LIST", "ARRAY"):
        return _in_lists(values, type.children[0][1])
    if type.id == "STRUCT":
        return _in_structs(values, type)
    if type.id == "MAP":
        return _in_maps(values, type)
    kinds = {v.__class__ for v in values}
    if type.id in ("DECIMAL", "HUGEINT"):
        return values if kinds <= _EXACT else _each(values, kinds - _EXACT, _decimal, type)
    if not kinds <= _INTS:
        whole = type.is_integer and kinds - _INTS == {float}  # as of JSON: it is worth a shorter way
        if whole and all(v.is_integer() for v in values if v.__class__ is float):
            return values
        check = _check_whole if type.is_integer else _check_no_fraction
        _each(values, kinds - _INTS, check, type)
    return values


def _each(
    values: Sequence[Any], kinds: set[Any], act: Callable[[Any, SqlType], Any], type: SqlType
) -> list[Any]:
    """Each value, with something done to those of these classes."""
    return [act(v, type) if v.__class__ in kinds else v for v in values]


def _check_whole(value: Any, type: SqlType) -> None:
    if not is_whole(value):
        raise Unfit(value, type)


def _check_no_fraction(value: Any, type: SqlType) -> None:
    """A point in time as a bare number is one of days or microseconds: not a float, as for Arrow."""
    if isinstance(value, (float, np.floating, Decimal)):
        raise Unfit(value, type)


def is_whole(value: Any) -> bool:
    """False for a number with a fraction, NaN and infinity; what is no number is for others to refuse."""
    if isinstance(value, (str, bytes)) or (isinstance(value, np.ndarray) and value.ndim):
        return True
    if isinstance(value, Decimal):  # int() of a large one would write out its zeros
        return value.is_finite() and value == value.to_integral_value()
    try:
        return bool(value == int(value))
    except (ValueError, OverflowError):
        return False
    except TypeError:
        return True


def _decimal(value: Any, type: SqlType) -> Any:
    if isinstance(value, (float, np.floating)):
        if type.id == "HUGEINT":
            _check_whole(value, type)
            return int(value)
        try:
            return rounded(float(value), type)
        except ArithmeticError:  # NaN, infinity, and what is far too large
            raise Unfit(value, type) from None
    return int(value) if isinstance(value, np.integer) else value


# -- inside other values ---------------------------------------------------------------------------
#
# All values of one level are looked at together: a call for each row would take longer than pyarrow does.
# What has another form than the type's is left as it is: pyarrow refuses it.


def _in_lists(values: Sequence[Any], child: SqlType) -> Sequence[Any]:
    there = [v for v in values if v is not None and not _is_whole_array(v, child)]
    try:
        flat = list(chain.from_iterable(there))
    except TypeError:
        return values
    found = exact(flat, child)
    if found is flat:
        return values
    rest = iter(found)
    return [None if v is None else [next(rest) for _ in v] for v in values]


def _is_whole_array(value: Any, child: SqlType) -> bool:
    return (
        value.__class__ is np.ndarray
        and value.dtype.kind in "iu"
        and child.kind == "fixed"
        and child.is_integer
    )


def _in_structs(values: Sequence[Any], type: SqlType) -> Sequence[Any]:
    names = [name for name, _ in type.children]
    there = [v for v in values if v is not None]
    try:
        rows = there if {v.__class__ for v in there} == {dict} else [_fields(v, names) for v in there]
    except (TypeError, ValueError):
        return values
    changed = {}
    for name, child in type.children:
        if is_exact(child):
            given = [row.get(name) for row in rows]
            found = exact(given, child)
            if found is not given:
                changed[name] = found
    if not changed:
        return values
    rest = (
        {**row, **dict(zip(changed, new, strict=True))}
        for row, *new in zip(rows, *changed.values(), strict=True)
    )
    return [None if v is None else next(rest) for v in values]


def _fields(value: Any, names: list[str]) -> Mapping[str, Any]:
    """As pyarrow takes a struct: by names, as pairs or in order."""
    if isinstance(value, tuple) and not all(isinstance(v, tuple) and len(v) == 2 for v in value):
        return dict(zip(names, value, strict=True))
    return value if isinstance(value, Mapping) else dict(value)


def _in_maps(values: Sequence[Any], type: SqlType) -> Sequence[Any]:
    (_, key), (_, item) = type.children
    there = [v for v in values if v is not None]
    try:
        keys, items = _keys_and_items(there)
    except (TypeError, ValueError):
        return values
    new_keys, new_items = exact(keys, key), exact(items, item)
    if new_keys is keys and new_items is items:
        return values
    rest = iter(zip(new_keys, new_items, strict=True))
    return [None if v is None else [next(rest) for _ in v] for v in values]


def _keys_and_items(maps: list[Any]) -> tuple[list[Any], list[Any]]:
    """As pyarrow takes maps: dicts, or lists of pairs."""
    if {v.__class__ for v in maps} == {dict}:
        return list(chain.from_iterable(maps)), list(chain.from_iterable(v.values() for v in maps))
    pairs = list(chain.from_iterable(v.items() if isinstance(v, Mapping) else v for v in maps))
    return [k for k, _ in pairs], [x for _, x in pairs]
