"""One job and few stages an epoch, however many views there are."""

from __future__ import annotations

import shutil
import time
from itertools import product
from pathlib import Path

import numpy as np
import pyarrow as pa

from bench.measure import p50_ms, say
from bench.report import Figure
from bench.scale import SEED
from bench.spark_session import CORES
from penstock import Flow, Spark

COUNTS = (1, 5, 20)
ROWS = 10_000  # of the table; small views are about what an epoch costs whatever its rows
CHANGED_ROWS = 100
WARM_UPS = 4
ROUNDS = 9

GROUPS = ("c.region", "c.segment", "o.status", "o.priority")
AGGREGATES = ("COUNT(*)", "SUM(o.amount)", "AVG(o.amount)", "MAX(o.amount)", "COUNT(DISTINCT o.customer)")

_random = np.random.default_rng(SEED)


def many_views(folder: Path, engine: Spark) -> tuple[Figure, ...]:
    """The same change to flows with 1, 5 and 20 views, each epoch in as many partitions as there are cores."""
    cut = Spark(engine.session(), partitions=CORES)
    flows = {count: build(folder / f"views-{count}", count, cut) for count in COUNTS}
    times: dict[int, list[float]] = {count: [] for count in COUNTS}
    jobs: dict[int, int] = {}
    stages: dict[int, tuple[int, int]] = {}  # and how many there may be: one more than waves
    for number in range(WARM_UPS + ROUNDS):
        delta = orders(CHANGED_ROWS)
        for count, flow in flows.items():
            began = time.perf_counter()
            summary = flow.tick("orders", delta)
            if number >= WARM_UPS:
                times[count].append(time.perf_counter() - began)
            waves = max(task.wave for task in summary.spark_tasks) + 1  # the first runs in the driver
            jobs[count] = max(jobs.get(count, 0), summary.spark_jobs)
            stages[count] = max(stages.get(count, (0, 0)), (summary.spark_stages, waves + 1))
    for count, flow in flows.items():
        flow.close()
        shutil.rmtree(folder / f"views-{count}")
    p50 = {count: p50_ms(values) for count, values in times.items()}
    say("spark: " + ", ".join(f"{n} views {ms:.0f} ms" for n, ms in p50.items()) + f", stages {stages}")
    most_jobs, last = max(jobs.values()), COUNTS[-1]
    most, allowed = max(stages.values(), key=lambda found: found[0] / found[1])
    ratio = float(np.median(np.divide(times[last], times[1])))
    names = f"{', '.join(map(str, COUNTS[:-1]))} and {last} views"
    return (
        Figure(f"Spark jobs an epoch, {names}", "bound", most_jobs, 1, "", most_jobs, at_most=1),
        Figure(f"Spark stages an epoch, {names}", "waves + 1", most, allowed, "", most / allowed, at_most=1),
        Figure(f"Spark epoch with {last} small views", "with 1", p50[last], p50[1], "ms", ratio, at_most=2),
    )


def build(place: Path, views: int, engine: Spark) -> Flow:
    """Four groupings times five aggregates over orders and their customers: the first so many of them."""
    flow = Flow(place)
    customers = ROWS // 10
    flow.sql("CREATE TABLE customers (id BIGINT, region BIGINT, segment BIGINT)")
    flow.sql("CREATE TABLE orders (customer BIGINT, status BIGINT, priority BIGINT, amount BIGINT)")
    flow.tick(
        {
            "customers": pa.table(
                {
                    "id": np.arange(customers),
                    "region": _random.integers(0, 5, customers),
                    "segment": _random.integers(0, 8, customers),
                }
            ),
            "orders": orders(ROWS),
        }
    )
    for number, (group, aggregate) in enumerate(list(product(GROUPS, AGGREGATES))[:views]):
        flow.sql(f"""
            CREATE MATERIALIZED VIEW v{number} AS SELECT {group} AS g, {aggregate} AS value
            FROM orders o JOIN customers c ON o.customer = c.id GROUP BY {group}""")
    flow.use_engine(engine)
    return flow


def orders(rows: int) -> pa.Table:
    return pa.table(
        {
            "customer": _random.integers(0, ROWS // 10, rows),
            "status": _random.integers(0, 3, rows),
            "priority": _random.integers(0, 5, rows),
            "amount": _random.integers(1, 1_000, rows),
        }
    )
