"""Finding runs and ranges in sorted arrays."""

from __future__ import annotations

import numpy as np


def run_starts(values: np.ndarray) -> np.ndarray:
    """Where each run of equal values begins.

    >>> run_starts(np.array([3, 3, 5, 7, 7])).tolist()
    [0, 2, 3]
    """
    count = len(values)
    if count <= 1:
        return np.zeros(count, np.int64)
    change = np.empty(count, np.bool_)
    change[0] = True
    np.not_equal(values[1:], values[:-1], out=change[1:])
    return np.flatnonzero(change)


def expand(low: np.ndarray, high: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """For ranges low[i] to high[i]: the number of the range and the position, for each position.

    >>> [a.tolist() for a in expand(np.array([5, 9, 2]), np.array([7, 9, 3]))]
    [[0, 0, 2], [5, 6, 2]]
    """
    if len(low) == 1:
        positions = np.arange(low[0], high[0])
        return np.zeros(len(positions), np.int64), positions
    counts = high - low
    owner = np.repeat(np.arange(len(low)), counts)
    before = np.cumsum(counts) - counts
    return owner, np.arange(len(owner)) - (before - low)[owner]
