"""Bringing equal rows together: by hash, and by the values where hashes collide."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from penstock.kernels.hashing import hash_columns, is_exact
from penstock.kernels.order import lexsort, order_code, sorted_hashes
from penstock.kernels.ranges import run_starts
from penstock.zset.column import Column
from penstock.zset.comparing import equal_at

_ZERO = np.zeros(1, np.int64)


@dataclass(frozen=True)
class Groups:
    """Rows brought together by key. `order` is None where the rows stand in group order already."""

    hashes: np.ndarray  # of each group, ascending
    order: np.ndarray | None
    starts: np.ndarray  # where each group begins, in that order

    def first_rows(self) -> np.ndarray:
        """The number of a row of each group."""
        return self.starts if self.order is None else self.order[self.starts]

    def member_of(self, count: int) -> np.ndarray:
        """The group of each row, in the rows' original order."""
        numbers = np.repeat(np.arange(len(self.starts)), np.diff(np.append(self.starts, count)))
        if self.order is None:
            return numbers
        result = np.empty(count, np.int64)
        result[self.order] = numbers
        return result

    def arranged(self, values: np.ndarray) -> np.ndarray:
        """Values of the rows in group order."""
        return values if self.order is None else values[self.order]


def group_rows(columns: Sequence[Column], count: int) -> Groups:
    """Group rows by these columns; NULL is a value like any other.

    >>> from penstock.zset.column import from_pylist
    >>> from penstock.zset.types import BIGINT
    >>> group_rows([from_pylist(BIGINT, [7, None, 7])], 3).member_of(3).tolist() in ([0, 1, 0], [1, 0, 1])
    True
    """
    hashes = hash_columns(columns, count)
    if count <= 1 or not columns:
        return Groups(hashes[:1], None, _ZERO[:count])
    order, arranged = sorted_hashes(hashes)
    starts = run_starts(arranged)
    if len(starts) < count and not is_exact(columns) and not _runs_are_equal(columns, order, starts):
        order, starts = exact_groups(hashes, columns)
        arranged = hashes[order]
    return Groups(arranged[starts], order, starts)


def _runs_are_equal(columns: Sequence[Column], order: np.ndarray, starts: np.ndarray) -> bool:
    """Whether each row equals the one before it in the order, but for those that begin a run."""
    same = equal_at(columns, order[1:], columns, order[:-1])
    same[starts[1:] - 1] = True
    return bool(same.all())


def exact_groups(hashes: np.ndarray, columns: Sequence[Column]) -> tuple[np.ndarray, np.ndarray]:
    """The slow and sure way, for hashes that collide: an order by hash that puts equal rows together,
    and where each group of equal rows begins in it."""
    codes = [hashes]
    for column in columns:
        codes += order_code(column)
    order = lexsort(codes)
    change = np.zeros(len(hashes), np.bool_)
    change[:1] = True
    for code in codes:
        ordered = code[order]
        change[1:] |= ordered[1:] != ordered[:-1]
    return order, np.flatnonzero(change)
