"""python -m bench.soak --minutes 10: random ticks on a flow in a folder, with a plot of what it takes.

Once a second it counts the files and bytes on storage, SlateDB's own among them, and the memory of the
process. The rows of the flow are bounded, so these must be too: the end of the run is compared with its
middle, and the program ends with status 1 if anything still grows.
"""

from __future__ import annotations

import argparse
import os
import random
import sys
import tempfile
import threading
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa

import penstock
from bench.measure import say
from bench.soak_plot import Sample, plot

ROWS = 50_000  # ids are drawn from these
GROWTH_MAX = 1.25  # the last third of the run against the middle one
_WORDS = np.array(["oak", "elm", "ash", "fir", "yew", "pine", "larch", "maple"])

STATEMENTS = (
    "CREATE TABLE readings (id BIGINT PRIMARY KEY, place INTEGER, kind TEXT, amount DECIMAL(12,2), x DOUBLE)",
    "CREATE TABLE places (place INTEGER PRIMARY KEY, name TEXT)",
    "CREATE MATERIALIZED VIEW by_place AS SELECT place, kind, COUNT(*) AS n, SUM(amount) AS amount, "
    "MIN(x) AS low, MAX(x) AS high FROM readings GROUP BY place, kind",
    "CREATE MATERIALIZED VIEW named AS SELECT p.name, r.kind, r.amount FROM readings r JOIN places p USING (place)",
    "CREATE MATERIALIZED VIEW largest AS SELECT id, amount FROM readings ORDER BY amount DESC, id LIMIT 20",
)


@dataclass(frozen=True)
class Settings:
    """How long it runs, and where."""

    seconds: float
    folder: Path
    seed: int
    commit: str
    retain: str


def change(rng: np.random.Generator) -> pa.Table:
    """Some rows, most ticks few, to be put in the place of those with the same ids."""
    count = int(rng.choice((1, 5, 50, 500, 5_000), p=(0.4, 0.3, 0.2, 0.09, 0.01)))
    ids = np.unique(rng.integers(0, ROWS, count))
    return pa.table(
        {
            "id": ids,
            "place": rng.integers(0, 200, len(ids)).astype(np.int32),
            "kind": _WORDS[rng.integers(0, len(_WORDS), len(ids))].tolist(),
            "amount": rng.integers(0, 10_000, len(ids)),
            "x": rng.normal(size=len(ids)),
        }
    )


def measured(folder: Path) -> tuple[int, int, int]:
    """Files of the flow, files of SlateDB, and bytes of both."""
    counts, size = [0, 0], 0
    for at, _, names in os.walk(folder):
        own = "db" in Path(at).relative_to(folder).parts
        for name in names:
            try:
                size += os.stat(os.path.join(at, name)).st_size
            except FileNotFoundError:
                continue  # deleted while we look
            counts[own] += 1
    return counts[0], counts[1], size


def resident_bytes() -> int:
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def run(settings: Settings) -> list[Sample]:
    """Tick until the time is over; a sample for each second."""
    samples: list[Sample] = []
    flow = penstock.Flow(settings.folder, commit=settings.commit, retain_history=settings.retain)
    for statement in STATEMENTS:
        flow.sql(statement)
    flow.tick("places", [{"place": i, "name": f"place {i}"} for i in range(200)])
    began, done = time.monotonic(), threading.Event()

    def watch() -> None:
        while not done.wait(1.0):
            files, own, size = measured(settings.folder)
            passed = time.monotonic() - began
            samples.append(Sample(passed, flow.epoch, files, own, size, resident_bytes()))
            if len(samples) % 10 == 0:
                say(str(samples[-1]))

    watcher = threading.Thread(target=watch, daemon=True)
    watcher.start()
    rng, picker = np.random.default_rng(settings.seed), random.Random(settings.seed)
    while time.monotonic() - began < settings.seconds:
        flow.tick("readings", change(rng), mode="upsert")
        if picker.random() < 0.01:
            first = picker.randrange(ROWS)
            flow.sql(f"DELETE FROM readings WHERE id BETWEEN {first} AND {first + 200}")
    done.set()
    watcher.join()
    flow.close()
    return samples


def growing(samples: list[Sample]) -> list[str]:
    """What is larger in the last third of the run than in the middle one by more than the limit."""
    third = len(samples) // 3
    found = []
    for name in ("files", "slate_files", "bytes", "memory"):
        middle = max(getattr(s, name) for s in samples[third : 2 * third])
        last = max(getattr(s, name) for s in samples[2 * third :])
        if last > middle * GROWTH_MAX:
            found.append(f"{name} grew from {middle:,} to {last:,}")
    return found


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.soak", description=__doc__)
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--commit", choices=("durable", "visible"), default="durable")
    parser.add_argument("--retain", default="30 seconds", help="history that is kept")
    parser.add_argument("--plot", type=Path, default=Path("docs/soak.svg"))
    wanted = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="penstock-soak-") as folder:
        settings = Settings(
            wanted.minutes * 60, Path(folder) / "flow", wanted.seed, wanted.commit, wanted.retain
        )
        samples = run(settings)
    wanted.plot.parent.mkdir(parents=True, exist_ok=True)
    wanted.plot.write_text(
        plot(samples, f"{wanted.minutes:g} minutes of random ticks, commit={wanted.commit}")
    )
    say(f"{samples[-1].epoch} epochs; the plot is in {wanted.plot}")
    problems = growing(samples)
    for problem in problems:
        say(f"NOT BOUNDED: {problem}")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
