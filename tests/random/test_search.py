"""Guessed places are the searched ones, however the hashes are spread."""

from __future__ import annotations

import numpy as np
import pytest

from penstock.kernels.search import guess

TOP = 2**64 - 1


def spreads(chance: np.random.Generator) -> dict[str, np.ndarray]:
    even = chance.integers(0, TOP, 5_000, np.uint64, endpoint=True)
    return {
        "even": even,
        "half_of_the_range": even >> np.uint64(1),
        "in_the_last_quarter": even | np.uint64(3 << 62),
        "few_alike": np.concatenate((even, even[:500])),
        "mostly_alike": np.repeat(even[:40], 100),
        "two_heaps": np.concatenate((even >> np.uint64(40), ~(even >> np.uint64(40)))),
        "one_heap_and_one_far": np.concatenate((even >> np.uint64(50), even[:1])),
        "all_alike": np.full(100, 7, np.uint64),
        "ends": np.concatenate((even, np.array([0, 0, TOP, TOP], np.uint64))),
        "few": even[:40],
        "too_few": even[:20],
    }


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("spread", spreads(np.random.default_rng(0)))
def test_guesses_are_what_a_search_finds(spread: str, seed: int) -> None:
    chance = np.random.default_rng(seed)
    hashes = np.sort(spreads(chance)[spread])
    near = chance.choice(hashes, 300)
    others = chance.integers(0, TOP, 300, np.uint64, endpoint=True)
    ends = np.array([0, 1, TOP - 1, TOP], np.uint64)
    needles = np.concatenate((near, near + np.uint64(1), near - np.uint64(1), others, ends))
    found = guess(hashes, needles)
    if found is not None:
        assert found.tolist() == hashes.searchsorted(needles).tolist()
    else:
        assert spread in ("mostly_alike", "all_alike", "two_heaps", "one_heap_and_one_far", "too_few")
