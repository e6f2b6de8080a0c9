"""What durability costs: restart, a one-row tick in each commit mode, and bytes written per changed row."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pyarrow as pa

from bench.measure import p50_ms, say
from bench.report import Figure, Section
from bench.scale import SEED, Settings
from penstock import Flow

RESTARTS = 5
TICKS_AFTER_LOAD = 200  # that a killed process leaves for recovery to run again
COMMIT_TICKS = 300
AMPLIFICATION_ROUNDS = 20
ROWS_PER_TICK = 10
ROWS_PER_FLUSH = 100
RESTART_SECONDS_MAX = 2.0

VIEW = "CREATE MATERIALIZED VIEW sums AS SELECT k, COUNT(*) AS n, SUM(v) AS s FROM t GROUP BY k"

# In a process of its own, as after a crash: from the imports on to the first answer.
RESTART = """
import json, sys, time
import penstock
began = time.perf_counter()
flow = penstock.Flow(sys.argv[1])
opened = time.perf_counter()
answer = flow.sql("SELECT n FROM sums WHERE k = 5").to_pylist()
print(json.dumps([time.perf_counter() - began, opened - began, flow.epoch, len(answer)]))
import os
os._exit(0)
"""

# Makes a flow and leaves it as a killed process does.
MAKE = """
import os, sys
from pathlib import Path
from bench.durable import change, load
flow = load(Path(sys.argv[1]), int(sys.argv[2]))
for _ in range(int(sys.argv[3])):
    change(flow, int(sys.argv[2]), 1)
flow.flush()
os._exit(0)
"""

_random = np.random.default_rng(SEED)


def measure(settings: Settings) -> Section:
    folder = settings.folder / "durable"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    try:
        figures = (
            *restarts(folder, settings.scale.growth_rows),
            *commits(folder),
            amplification(folder, settings.scale.growth_rows),
        )
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return Section(figures)


def load(place: Path, groups: int, **options: object) -> Flow:
    """A flow on storage with one row in each group."""
    flow = Flow(place, **options)  # type: ignore[arg-type]
    flow.sql("CREATE TABLE t (k BIGINT, v BIGINT)")
    flow.sql(VIEW)
    values = np.random.default_rng(SEED).integers(0, 1_000, groups)
    flow.tick("t", pa.table({"k": np.arange(groups), "v": values}))
    return flow


def change(flow: Flow, groups: int, rows: int, **options: object) -> None:
    keys = _random.integers(0, groups, rows)
    delta = pa.record_batch({"k": keys, "v": _random.integers(0, 1_000, rows)})
    flow.tick("t", delta, **options)  # type: ignore[arg-type]


def restarts(folder: Path, sizes: tuple[int, ...]) -> tuple[Figure, Figure]:
    """From opening a flow that was not closed to its first answer."""
    found: dict[int, float] = {}
    places = {}
    for rows in sizes:
        say(f"durable: making a flow of {rows:,} rows")
        places[rows] = folder / f"restart-{rows}"
        run(MAKE, str(places[rows]), str(rows), str(TICKS_AFTER_LOAD))
    times: dict[int, list[float]] = {rows: [] for rows in sizes}
    for _ in range(RESTARTS):
        for rows, place in places.items():
            whole, _, epoch, answers = json.loads(run(RESTART, str(place)))
            assert (epoch, answers) == (TICKS_AFTER_LOAD + 1, 1), (epoch, answers)
            times[rows].append(whole)
    found = {rows: p50_ms(values) for rows, values in times.items()}
    say("durable: restart " + ", ".join(f"{rows:,} rows {ms:.0f} ms" for rows, ms in found.items()))
    small, large = sizes[0], sizes[-1]
    for place in places.values():
        shutil.rmtree(place)
    return (
        Figure(
            f"restart to the first answer: {large:,} rows", f"{small:,} rows", found[large], found[small],
            "ms", found[large] / found[small],
        ),
        Figure(
            f"restart to the first answer: {large:,} rows", "bound", found[large] / 1000,
            RESTART_SECONDS_MAX, "s", found[large] / 1000 / RESTART_SECONDS_MAX, at_most=1,
        ),
    )  # fmt: skip


def run(program: str, *arguments: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", program, *arguments], check=True, capture_output=True, text=True
    )
    return done.stdout


def commits(folder: Path) -> tuple[Figure, ...]:
    """A one-row tick in memory, and what each way to make it durable adds."""
    groups = 10_000
    memory = Flow()
    memory.sql("CREATE TABLE t (k BIGINT, v BIGINT)")
    memory.sql(VIEW)
    memory.tick("t", pa.table({"k": np.arange(groups), "v": np.zeros(groups, np.int64)}))
    synced = load(folder / "synced", groups)
    unsynced = load(folder / "unsynced", groups, sync=False)
    ways = {
        "visible": (unsynced, {"commit": "visible"}, False),
        "durable, killed processes only": (unsynced, {"commit": "durable"}, False),
        "durable, loss of power too": (synced, {"commit": "durable"}, False),
        "visible, then flush()": (synced, {"commit": "visible"}, True),
    }
    times: dict[str, list[float]] = {name: [] for name in ("memory", *ways)}
    for _ in range(COMMIT_TICKS):
        times["memory"].append(timed(memory, groups, {}, False))
        for name, (flow, options, flush) in ways.items():
            times[name].append(timed(flow, groups, options, flush))
    for flow in (memory, synced, unsynced):
        flow.close()
    p50 = {name: p50_ms(values) for name, values in times.items()}
    return tuple(
        Figure(
            f"one-row tick, {name}", "in memory", p50[name], p50["memory"], "ms", p50[name] / p50["memory"]
        )
        for name in ways
    )


def timed(flow: Flow, groups: int, options: dict[str, str], flush: bool) -> float:
    began = time.perf_counter()
    change(flow, groups, 1, **options)
    if flush:
        flow.flush()
    return time.perf_counter() - began


def amplification(folder: Path, sizes: tuple[int, ...]) -> Figure:
    """Bytes written for each changed row, log, state and merges together, as the state grows.

    In each round as many groups change as the smallest flow has, each once: otherwise the same group
    would change several times before its state is written down, and the smallest flow would have less to
    write for that reason alone.
    """
    small, large = 1_000, sizes[-1]
    found: dict[int, float] = {}
    for groups in (small, 100_000, large):
        place = folder / f"bytes-{groups}"
        load(place, groups).close()
        before = bytes_written()
        for _ in range(AMPLIFICATION_ROUNDS):
            keys = _random.choice(groups, small, replace=False)
            with Flow(place, commit="visible", commit_interval=3600) as flow:
                for first in range(0, small, ROWS_PER_TICK):
                    some = keys[first : first + ROWS_PER_TICK]
                    flow.tick("t", pa.record_batch({"k": some, "v": _random.integers(0, 1_000, len(some))}))
                    if first % ROWS_PER_FLUSH == 0:
                        flow.flush()
        found[groups] = (bytes_written() - before) / (AMPLIFICATION_ROUNDS * small)
        say(f"durable: {groups:,} groups, {found[groups]:.0f} bytes written per changed row")
        shutil.rmtree(place)
    return Figure(
        f"bytes written per changed row: {large:,} groups", f"{small:,} groups", found[large], found[small],
        "B", found[large] / found[small], at_most=1.1,
    )  # fmt: skip


def bytes_written() -> int:
    """What this process has handed to the operating system to be written."""
    for line in Path("/proc/self/io").read_text().splitlines():
        name, _, value = line.partition(":")
        if name == "wchar":
            return int(value)
    raise OSError("/proc/self/io does not say what was written")
