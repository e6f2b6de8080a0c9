"""Random queries and the hard cases in several partitions: as inline and as DuckDB, at every epoch."""

from __future__ import annotations

import os

import pytest

from beside import Beside, few
from tests.random.scenario import Outcome, run_case

CASES = int(os.environ.get("PENSTOCK_RANDOM_CASES", "18"))
FIRST = int(os.environ.get("PENSTOCK_RANDOM_SEED", "0"))
CHUNKS = 6


def seeds(number: int) -> range:
    return range(FIRST + number, FIRST + CASES, CHUNKS)


@pytest.mark.parametrize("number", range(CHUNKS))
def test_partitions_give_what_inline_gives(number: int) -> None:
    for seed in seeds(number):
        run_case(seed, Outcome(), flow=Beside(seed))


@pytest.mark.parametrize("number", range(CHUNKS))
def test_every_path_gives_what_inline_gives(number: int, each_hash: str) -> None:
    """Limits are so small that what tasks give is files, packets are cut, and keys are hot."""
    with few():
        for seed in seeds(number):
            run_case(3_000_000 + seed, Outcome(), flow=Beside(seed))
