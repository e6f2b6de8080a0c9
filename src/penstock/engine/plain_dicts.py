"""Dicts of the usual kind as rows: every column is there, under its own name, with a value of its own type.

That is what a program hands over that has one row at a time. Whatever else there is, errors above all, is left
to the general way.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from penstock.base.limits import WEIGHT_MAX
from penstock.native import kernels
from penstock.zset.few import Few, Row
from penstock.zset.types import Schema, SqlType

WEIGHT = "_weight"
_NAMINGS_MAX = 64  # orders of names that are remembered
_CLASSES: dict[str, type] = {"VARCHAR": str, "BOOLEAN": bool, "DOUBLE": float}
_LETTERS = {str: "s", bool: "b", float: "d"}  # what compiled code calls them

# The name in the dict, the class of its values, and for integers the least and the greatest.
Step = tuple[str, Any, int, int]


class PlainDicts:
    """Rows of one table.

    >>> from penstock.zset.types import BIGINT, VARCHAR
    >>> dicts = PlainDicts(Schema(("id", "name"), (BIGINT, VARCHAR)))
    >>> dicts.take([{"name": "ann", "id": 1, "_weight": -1}])
    ZSet([((1, 'ann'), -1)])
    >>> dicts.take([{"id": 1}]), dicts.take([{"id": "1", "name": "ann"}])
    (None, None)
    """

    def __init__(self, schema: Schema) -> None:
        self._types = schema.types
        self._steps = [_step(n, t) for n, t in zip(schema.names, schema.types, strict=True)]
        self._names = frozenset(schema.names)
        self._fit: dict[tuple[Any, ...], bool] = {}  # whether these names are the table's, and no others
        self._order = schema.names
        self._kinds = "".join(map(_letter, self._steps, schema.types)).encode()

    def take(self, rows: Sequence[Any]) -> Few | None:
        """The rows, none of weight 0; None where they are not all of the usual kind."""
        if kernels is not None and rows.__class__ is list:
            taken = kernels.plain_dicts(rows, self._order, self._kinds, WEIGHT, WEIGHT_MAX)
            return None if taken is None else Few(self._types, *taken)
        found: list[Row] = []
        weights: list[int] = []
        for row in rows:
            if row.__class__ is not dict or not self._fits(tuple(row)):
                return None
            values = []
            for name, kind, least, greatest in self._steps:
                value: Any = row[name]
                if value.__class__ is not kind:
                    return None
                if kind is int:
                    if not least <= value <= greatest:
                        return None
                elif kind is str:
                    if not value.isascii():  # others may be no Unicode
                        return None
                elif value != value:  # NaN: rows have one object for all of them
                    return None
                values.append(value)
            weight = row.get(WEIGHT, 1)
            if weight.__class__ is not int or weight == 0 or not -WEIGHT_MAX <= weight <= WEIGHT_MAX:
                return None
            found.append(tuple(values))
            weights.append(weight)
        return Few(self._types, found, weights) if found else None

    def _fits(self, names: tuple[Any, ...]) -> bool:
        known = self._fit.get(names)
        if known is None:
            if len(self._fit) >= _NAMINGS_MAX:
                self._fit.clear()
            known = self._fit[names] = self._names == set(names) - {WEIGHT}
        return known


def _step(name: str, type: SqlType) -> Step:
    if type.kind == "fixed" and type.is_integer and type.numpy.kind in "iu":
        limits = np.iinfo(type.numpy)
        return name, int, int(limits.min), int(limits.max)
    return name, _CLASSES.get(type.id), 0, 0


def _letter(step: Step, type: SqlType) -> str:
    """What compiled code calls the kind of a column's values; "?" is none that it takes."""
    name, kind, least, _ = step
    if name == WEIGHT:  # in a dict that is the weight
        return "?"
    if kind is int:
        return chr(type.numpy.itemsize + ord("0" if least else "@"))
    return _LETTERS.get(kind, "?")
