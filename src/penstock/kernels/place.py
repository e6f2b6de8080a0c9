"""Where one hash stands among many that ascend."""

from __future__ import annotations

from bisect import bisect_left
from math import isqrt

_GUESSED_MIN = 1024  # below, a guess costs more than it saves


def place(hashes: memoryview, hash: int) -> int:
    """The first place whose hash is not below this one: `bisect_left`, with fewer places to look at.

    Hashes are spread evenly, so a hash tells about where it stands: in a million of them within 2,000 places, but for
    one in ten thousand. Those lie on a few pages of memory, which matters more than the comparisons: after a pause
    each page that is touched is fetched from far away.

    >>> import numpy as np
    >>> even = (np.arange(5000, dtype=np.uint64) << np.uint64(51)).data
    >>> place(even, 7 << 51), place(even, (7 << 51) + 1), place(even, 2**64 - 1)
    (7, 8, 5000)
    """
    count = len(hashes)
    if count < _GUESSED_MIN:
        return bisect_left(hashes, hash)
    guess, slack = (hash * count) >> 64, 2 * isqrt(count)
    low, high = max(0, guess - slack), min(count, guess + slack)
    at = bisect_left(hashes, hash, low, high)
    if (at == low and low and hashes[low - 1] >= hash) or (at == high < count and hashes[high] < hash):
        return bisect_left(hashes, hash)  # not where it was to be expected
    return at
