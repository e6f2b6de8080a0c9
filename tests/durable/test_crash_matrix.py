"""Processes are killed before and after every step of making state durable, and at random instants.

16 chains of 13 kills: 208. `make soak` does the same with thousands.
"""

from __future__ import annotations

import random
import sys
from pathlib import Path

import pytest

from durable.chain import ELSEWHERE, TICKING, drawn_case, drawn_chain, run_chain
from durable.executioner import Executioner
from penstock.base.faults import POINTS

CHAINS = 16
KILLS = 13

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(sys.platform == "win32", reason="needs fork and SIGKILL"),
]


@pytest.mark.parametrize("seed", range(CHAINS))
def test_a_chain_of_kills(executioner: Executioner, tmp_path: Path, seed: int) -> None:
    points = drawn_chain(seed, KILLS)
    tally = run_chain(executioner, drawn_case(str(tmp_path / "flow"), seed), points, random.Random(seed))
    assert not tally.failures, tally.failures[0]
    missed = [point for point in points if point and not tally.kills[point]]
    assert not missed, f"these points were never reached: {missed}"
    assert tally.kills.total() == KILLS


def test_every_point_is_in_some_chain() -> None:
    drawn = {point for seed in range(CHAINS) for point in drawn_chain(seed, KILLS)}
    assert drawn - {""} == set(TICKING)
    assert set(POINTS) - set(TICKING) == {p for p in POINTS if p.startswith(ELSEWHERE)}
