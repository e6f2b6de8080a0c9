"""A Z-set: rows with integer weights. +n: present n times more; -n: n times fewer."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from penstock.zset import weights as w
from penstock.zset.column import Column, concat, empty, same_value
from penstock.zset.comparing import equal_at
from penstock.zset.taking import take_columns
from penstock.zset.types import SqlType

_NO_ROWS = np.zeros(0, np.int64)


class ZSet:
    """Columns of equal length and a weight for each row. Never changed after it is made.

    The same row may stand in it several times: the weights add up.
    """

    __slots__ = ("columns", "weights")

    def __init__(self, columns: tuple[Column, ...], weights: np.ndarray) -> None:
        self.columns = columns
        self.weights = weights

    def __len__(self) -> int:
        return len(self.weights)

    def take(self, index: np.ndarray) -> ZSet:
        return ZSet(tuple(take_columns(self.columns, index)), w.take(self.weights, index))

    def filter(self, mask: np.ndarray) -> ZSet:
        return self.take(np.flatnonzero(mask))

    @property
    def width(self) -> int:
        """The number of columns."""
        return len(self.columns)

    def without_pairs(self) -> ZSet:
        """Without neighbours that cancel: what an UPDATE leaves of the columns that it did not change.

        An update comes as the old row and, next to it, the new one. Seen through the columns that a view
        uses the two are often the same, and then the view has nothing to do.
        """
        return _without_pairs(self)

    def select(self, positions: Sequence[int]) -> ZSet:
        """These columns, in this order."""
        columns = self.columns
        return ZSet(tuple([columns[p] for p in positions]), self.weights)

    def may_have_nulls(self, positions: Sequence[int]) -> bool:
        """Whether it is worth while to look for NULLs in these columns: they are wide tables that mostly have none."""
        columns = self.columns
        for position in positions:
            column = columns[position]
            if column.valid is not None or (column.type.kind == "arrow" and column.null_count()):
                return True
        return False

    def has_nulls(self, position: int) -> bool:
        """Whether some value of this column is NULL."""
        valid = self.columns[position].validity()
        return valid is not None and not valid.all()

    def removes(self) -> bool:
        """Whether some weight is negative."""
        return w.any_negative(self.weights)

    def settle(self) -> None:
        """Hold on to no more than its own rows: for deltas that are kept."""
        for column in self.columns:
            column.settle()

    def nbytes(self) -> int:
        """Bytes of memory that the rows take."""
        return w.nbytes(self.weights) + sum([c.nbytes() for c in self.columns])

    def negate(self) -> ZSet:
        return ZSet(self.columns, -self.weights)

    def __repr__(self) -> str:
        rows = list(zip(*(c.to_pylist() for c in self.columns), strict=True)) or [()] * len(self)
        return f"ZSet({list(zip(rows, self.weights.tolist(), strict=True))})"


def union(zsets: Sequence[ZSet]) -> ZSet:
    """The sum of Z-sets, not consolidated."""
    if len(zsets) == 1:
        return zsets[0]
    columns = tuple(concat(parts) for parts in zip(*(z.columns for z in zsets), strict=True))
    return ZSet(columns, w.concat([z.weights for z in zsets]))


def _without_pairs(rows: ZSet) -> ZSet:
    weights = rows.weights
    if len(weights) < 2 or w.is_constant(weights):
        return rows
    if len(weights) == 2:  # an update of one row
        if weights.tolist() != [-1, 1]:
            return rows
        for column in rows.columns:
            if not same_value(column, 0, column, 1):
                return rows
        return rows.take(_NO_ROWS)
    first = np.flatnonzero((weights[:-1] == -1) & (weights[1:] == 1))
    # Numbers first: where one of them differs, which is the rule, no text has to be compared.
    numbers = [c for c in rows.columns if c.type.kind != "arrow"]
    texts = [c for c in rows.columns if c.type.kind == "arrow"]
    if len(first) and numbers:
        first = first[equal_at(numbers, first, numbers, first + 1)]
    if len(first) and texts:  # taken first: there are few left, and texts may not have been taken at all yet
        before, after = [c.take(first) for c in texts], [c.take(first + 1) for c in texts]
        here = np.arange(len(first))
        first = first[equal_at(before, here, after, here)]
    if not len(first):
        return rows
    keep = np.ones(len(weights), np.bool_)
    keep[first] = False
    keep[first + 1] = False
    return rows.filter(keep)


def empty_zset(types: Sequence[SqlType]) -> ZSet:
    return ZSet(tuple(empty(t) for t in types), np.zeros(0, np.int64))
