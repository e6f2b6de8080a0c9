"""Where hashes stand among sorted hashes.

A binary search in millions of hashes misses the cache at nearly every step. Hashes are spread
evenly, so the place of one can be guessed from its value, the guess be mended twice by how far off
it was, and the rest be searched within a few neighbours. What is found is checked, and searched for
in the plain way where hashes are not spread evenly after all.
"""

from __future__ import annotations

from bisect import bisect_left

import numpy as np

from penstock.base.limits import GUESSED_HASHES_MIN, GUESSED_NEEDLES_MIN
from penstock.native import kernels

_GUESSES = 3
_WINDOW = 32  # rows around the last guess: a power of two


def lower_bounds(hashes: np.ndarray, needles: np.ndarray) -> np.ndarray:
    """The first place of each needle, or of what follows it, in sorted hashes: as numpy's searchsorted.

    >>> lower_bounds(np.array([3, 5, 5, 8], np.uint64), np.array([5, 9, 1], np.uint64)).tolist()
    [1, 4, 0]
    """
    if kernels is not None:
        try:
            return kernels.lower_bounds(hashes, needles)
        except TypeError:  # hashes with gaps between them, or across words
            pass
    if len(hashes) < GUESSED_HASHES_MIN or len(needles) < GUESSED_NEEDLES_MIN:
        return hashes.searchsorted(needles)
    places = guess(hashes, needles)
    return hashes.searchsorted(needles) if places is None else places


def first_places(hash: int, sources: list[np.ndarray]) -> list[int]:
    """The first place of a hash in each of several sorted arrays of them, -1 where it is not.

    >>> first_places(5, [np.array([3, 5, 5, 8], np.uint64), np.array([4], np.uint64)])
    [1, -1]
    """
    if kernels is not None:
        try:
            found: list[int] = kernels.first_places(hash, sources)
            return found
        except TypeError:  # as above
            pass
    places = []
    for hashes in sources:
        memory = hashes.data  # numpy makes an object of its own for each number
        at = bisect_left(memory, hash)
        places.append(at if at < len(memory) and memory[at] == hash else -1)
    return places


def guess(hashes: np.ndarray, needles: np.ndarray) -> np.ndarray | None:
    """`lower_bounds` by guessing; None where many hashes are alike, which guesses do not reach the start of.

    >>> ascending = np.arange(100, dtype=np.uint64) ** 2
    >>> guess(ascending, np.array([0, 10, 9801, 9802], np.uint64)).tolist()
    [0, 4, 99, 100]
    """
    count = len(hashes)
    first = float(hashes[0])
    span = float(hashes[-1]) - first
    if count < _WINDOW or not span > 0:
        return None
    rows_per_hash = (count - 1) / span
    wanted = needles.astype(np.float64)
    place = _within((wanted - first) * rows_per_hash, count)
    found = hashes[place]
    alike = (found == hashes[np.minimum(place + 1, count - 1)]) & (place + 1 < count)
    if 4 * np.count_nonzero(alike) > len(needles):
        return None
    for _ in range(_GUESSES - 1):
        place = _within(place + (wanted - found) * rows_per_hash, count)
        found = hashes[place]
    place = np.minimum(np.maximum(place - _WINDOW // 2, 0), count - _WINDOW)
    step = _WINDOW // 2
    while step:
        place += (hashes[place + (step - 1)] < needles) * step
        step //= 2
    place += hashes[place] < needles
    wrong = (place > 0) & (hashes[place - 1] >= needles)
    wrong |= (place < count) & (hashes[np.minimum(place, count - 1)] < needles)
    rows = np.flatnonzero(wrong)
    if len(rows):
        place[rows] = hashes.searchsorted(needles[rows])
    return place


def _within(places: np.ndarray, count: int) -> np.ndarray:
    return np.minimum(np.maximum(places, 0), count - 1).astype(np.int64)
