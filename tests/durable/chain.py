"""Chains of kills: one flow whose process dies again and again, each time somewhere else."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

from durable.executioner import Executioner
from durable.victim import Case
from penstock.base.faults import POINTS

# The steps of checkpoints, branches and restores have tests of their own, since ticks do not reach them.
ELSEWHERE = ("checkpoint.", "branch.", "restore.")
TICKING = tuple(p for p in POINTS if not p.startswith(ELSEWHERE))

# How often a point may be passed before the kill: those that every step passes are passed more often.
PASSES = {"commit": 12, "merge": 8, "flush.file": 8, "define": 3, "open": 1}


@dataclass
class Tally:
    """What a chain, or many, came to."""

    kills: Counter[str] = field(default_factory=Counter)  # by point, or "random" and "opening"
    lives: int = 0
    verified: int = 0
    failures: list[str] = field(default_factory=list)

    def add(self, other: Tally) -> None:
        self.kills.update(other.kills)
        self.lives += other.lives
        self.verified += other.verified
        self.failures += other.failures


def passes(point: str, rng: random.Random) -> int:
    """After how many times at a point the kill comes."""
    most = next((n for start, n in PASSES.items() if point.startswith(start)), 2)
    return rng.randrange(1, most + 1)


def plan(rng: random.Random, points: Sequence[str]) -> Iterator[dict[str, object]]:
    """How the lives of a chain end: at each of these points, or at some instant where it is empty."""
    for point in points:
        if point:
            yield {"point": point, "count": passes(point, rng)}
        elif rng.random() < 0.3:
            yield {"kill_after_s": rng.uniform(0, 0.5), "kill_opening": True}
        else:
            yield {"kill_after_s": rng.uniform(0, 0.8)}


def run_chain(executioner: Executioner, first: Case, points: Sequence[str], rng: random.Random) -> Tally:
    """Kill a flow's process at each of these points in turn; then let it work on, close it, and look at it."""
    tally = Tally()
    case = first
    # The set-up is not killed, but for chains that begin with random instants: then it is what is killed.
    ends = [{"steps": 14}, *plan(rng, points), {"steps": 5, "close": True}, {"steps": 1, "close": True}]
    if points and not points[0]:
        ends = ends[1:]
    for end in ends:
        life = replace(case, **end)  # type: ignore[arg-type]
        death = executioner.run(life)
        tally.lives += 1
        tally.verified += death.verified
        if death.killed:
            tally.kills[life.point or ("opening" if life.kill_opening else "random")] += 1
        if death.failure:
            tally.failures.append(f"{life}\n{death.failure}")
            return tally
        case = replace(case, acknowledged=death.acknowledged, started=death.started)
    return tally
