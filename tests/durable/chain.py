"""Chains of kills: one flow whose process dies again and again, each time somewhere else."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

from durable.executioner import Executioner
from durable.victim import Case
from penstock.base.faults import POINTS

# The steps of checkpoints, branches and restores have tests of their own, since ticks do not reach them; those of
# tasks too (test_placed_kills.py), since inline epochs have none.
ELSEWHERE = ("checkpoint.", "branch.", "restore.", "task.")
TICKING = tuple(p for p in POINTS if not p.startswith(ELSEWHERE))

# How often a point may be passed before the kill: those that every step passes are passed more often.
PASSES = {"commit": 12, "merge": 8, "flush.file": 8, "define": 3, "open": 1}

ENDLESS = 100_000  # steps of a life that only the kill ends


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
            yield {"kill_after_s": rng.uniform(0, 0.5), "kill_opening": True, "steps": ENDLESS}
        else:
            yield {"kill_after_s": rng.uniform(0, 0.8), "steps": ENDLESS}


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


def drawn_chain(seed: int, kills: int) -> list[str]:
    """The points of a chain: all of them come up in turn over the seeds, with random instants in between.

    >>> sorted({p for seed in range(16) for p in drawn_chain(seed, 13) if p}) == sorted(TICKING)
    True
    """
    rng = random.Random(f"points {seed // SHARE}")
    everything = rng.sample(TICKING, len(TICKING))
    mine = everything[seed % SHARE :: SHARE]
    points = [mine[i % len(mine)] for i in range(kills * 8 // 13)] if kills > len(mine) else mine[:kills]
    points += [""] * (kills - len(points))
    rng.shuffle(points)
    return points


SHARE = 4  # chains that share the points among themselves


def drawn_case(url: str, seed: int) -> Case:
    """How the flow of a chain is kept: both modes, with history that is kept and history that is not."""
    mode = "durable" if seed // SHARE % 2 == 0 else "visible"
    return Case(url, seed, mode, retain="10 minutes" if seed // SHARE // 2 % 2 == 0 else "300 ms")
