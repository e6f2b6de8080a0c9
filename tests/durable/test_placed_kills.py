"""The same kills where tasks write the state: before and after each of their files, and around the one write that
makes their epoch exist."""

from __future__ import annotations

import random
import sys
from pathlib import Path

import pytest

from beside import FEW
from durable.chain import TICKING, run_chain
from durable.executioner import Executioner
from durable.victim import Case
from penstock.base.faults import POINTS

PLACED = [p for p in POINTS if p.startswith(("task.", "define."))]
OTHERS = [p for p in TICKING if not p.startswith("merge.")]  # what would merge here is merged by tasks
CHAINS = 4

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(sys.platform == "win32", reason="needs fork and SIGKILL"),
]


def points_of(seed: int) -> list[str]:
    """Those of tasks and of placed epochs several times over the chains, the others once, and random instants."""
    everything = [*PLACED, *PLACED, *OTHERS]
    random.Random(6).shuffle(everything)
    return [*everything[seed::CHAINS], ""]


@pytest.mark.parametrize("seed", range(CHAINS))
def test_a_chain_of_kills_where_tasks_write(executioner: Executioner, tmp_path: Path, seed: int) -> None:
    mode = ("durable", "visible")[seed % 2]
    case = Case(str(tmp_path / "flow"), 700 + seed, mode, limits=FEW, engine="files")
    points = points_of(seed)
    tally = run_chain(executioner, case, points, random.Random(seed))
    assert not tally.failures, tally.failures[0]
    missed = [point for point in points if point and not tally.kills[point]]
    assert not missed, f"these points were never reached: {missed}"
