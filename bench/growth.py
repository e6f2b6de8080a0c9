"""The cost of a one-row change, as the state grows: for an aggregate and for a join."""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np
import pyarrow as pa

from bench.measure import p50_ms, say
from bench.report import Figure, Section
from bench.scale import SEED, Scale, Settings
from penstock import Flow

ROWS_PER_GROUP = 10
TICKS_PER_ROUND = 50
WARM_UP_TICKS = 100

Change = Callable[[Flow, np.random.Generator, int], float]


def measure(settings: Settings) -> Section:
    aggregate = grown("aggregate", aggregate_flow, change_aggregate, settings.scale)
    join = grown("join", join_flow, change_join, settings.scale)
    return Section((aggregate, join))


def grown(name: str, make: Callable[[int, int], Flow], change: Change, scale: Scale) -> Figure:
    """Flows of all sizes side by side, that take turns."""
    flows = {}
    for rows in scale.growth_rows:
        say(f"growth: {name} with {rows:,} rows")
        flows[rows] = make(rows, SEED)
    random = np.random.default_rng(SEED)
    times: dict[int, list[float]] = {rows: [] for rows in flows}
    for rows, flow in flows.items():
        for _ in range(WARM_UP_TICKS):
            change(flow, random, rows)
    for _ in range(4 * scale.rounds):
        for rows, flow in flows.items():
            times[rows] += [change(flow, random, rows) for _ in range(TICKS_PER_ROUND)]
    for flow in flows.values():
        flow.close()
    small, *_, large = scale.growth_rows
    p50 = {rows: p50_ms(found) for rows, found in times.items()}
    steps = ", ".join(f"{rows:,} rows {p50[rows]:.3f} ms" for rows in scale.growth_rows)
    say(f"growth: {name}: {steps}")
    title = f"one-row change, {name}: at {large:,} rows"
    return Figure(
        title, f"at {small:,} rows", p50[large], p50[small], "ms", p50[large] / p50[small], at_most=2
    )


def aggregate_flow(rows: int, seed: int) -> Flow:
    """COUNT and SUM by a key with ten rows each."""
    random = np.random.default_rng(seed)
    flow = Flow()
    flow.sql("CREATE TABLE t (k BIGINT, v BIGINT)")
    flow.sql("CREATE MATERIALIZED VIEW sums AS SELECT k, COUNT(*) AS n, SUM(v) AS s FROM t GROUP BY k")
    keys = random.integers(0, rows // ROWS_PER_GROUP, rows)
    flow.tick("t", pa.table({"k": keys, "v": random.integers(0, 1_000, rows)}))
    return flow


def change_aggregate(flow: Flow, random: np.random.Generator, rows: int) -> float:
    key = int(random.integers(0, rows // ROWS_PER_GROUP))
    return timed_tick(flow, "t", pa.record_batch({"k": [key], "v": [int(random.integers(0, 1_000))]}))


def join_flow(rows: int, seed: int) -> Flow:
    """Two tables of half the rows each; a row of b has one partner in a, a row of a has one or a few in b."""
    random = np.random.default_rng(seed)
    half = rows // 2
    flow = Flow()
    flow.sql("CREATE TABLE a (k BIGINT, x BIGINT)")
    flow.sql("CREATE TABLE b (k BIGINT, y BIGINT)")
    flow.sql("CREATE MATERIALIZED VIEW joined AS SELECT a.k, a.x, b.y FROM a JOIN b ON a.k = b.k")
    a = pa.table({"k": random.permutation(half), "x": random.integers(0, 1_000, half)})
    b = pa.table({"k": random.integers(0, half, half), "y": random.integers(0, 1_000, half)})
    flow.tick({"a": a, "b": b})
    return flow


def change_join(flow: Flow, random: np.random.Generator, rows: int) -> float:
    key = int(random.integers(0, rows // 2))
    return timed_tick(flow, "b", pa.record_batch({"k": [key], "y": [int(random.integers(0, 1_000))]}))


def timed_tick(flow: Flow, table: str, delta: pa.RecordBatch) -> float:
    began = time.perf_counter()
    flow.tick(table, delta)
    return time.perf_counter() - began
