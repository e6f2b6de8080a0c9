"""Whether rows are the same in several columns: the check behind every hash."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from penstock.native import kernels
from penstock.zset.column import Column, equal_rows
from penstock.zset.taking import take_columns


def equal_at(
    left: Sequence[Column], left_rows: np.ndarray, right: Sequence[Column], right_rows: np.ndarray
) -> np.ndarray:
    """Row by row, whether all columns have the same value, or NULL on both sides.

    >>> from penstock.zset.column import from_pylist
    >>> from penstock.zset.types import BIGINT, VARCHAR
    >>> rows = [from_pylist(BIGINT, [1, 1, None]), from_pylist(VARCHAR, ["a", "b", None])]
    >>> equal_at(rows, np.array([0, 0, 2]), rows, np.array([0, 1, 2])).tolist()
    [True, False, True]
    """
    if kernels is not None:
        try:
            return kernels.equal(left, left_rows, right, right_rows)
        except TypeError:  # nested values, integers of more than 64 bits
            pass
    same = np.ones(len(left_rows), np.bool_)
    given, there = take_columns(left, left_rows), take_columns(right, right_rows)
    for a, b in zip(given, there, strict=True):
        same &= equal_rows(a, b)
    return same
