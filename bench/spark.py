"""The Spark engine against plain Spark: one changed row, a million, many views, and TPC-H.

Both run in the same session, in turns. What Spark recomputes from is Parquet in a folder on the same disk as the
flow, read before so that the operating system has it in memory. Our epochs end when they are durable; what Spark
recomputes is thrown away, which costs it nothing.
"""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pyarrow as pa

from bench import spark_tpch
from bench.measure import p50_ms, say, seconds
from bench.report import Figure, Section
from bench.scale import SEED, Settings
from bench.spark_session import CORES, read_parquet, spark_engine, work_out, write_parquet
from bench.spark_views import many_views
from penstock import Flow, Spark
from penstock.base.errors import SparkUnavailable
from penstock.run.spark.ready import make_ready

WARM_UPS = 8  # Java compiles what it has run often
ROUNDS = 5
LARGE_WARM_UPS = 4
LARGE_ROUNDS = 5

VIEWS = {
    "by_customer": "SELECT customer, COUNT(*) AS n, SUM(amount) AS total FROM orders GROUP BY customer",
    "by_region": """
        SELECT region, COUNT(*) AS n, SUM(amount) AS total
        FROM orders o JOIN customers c ON o.customer = c.id GROUP BY region""",
}

_random = np.random.default_rng(SEED)


def measure(settings: Settings) -> Section:
    try:
        make_ready()
    except SparkUnavailable as missing:
        return Section((), f"Spark was not measured: {missing.message}. {missing.hint}\n")
    folder = settings.folder / "spark"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    try:
        with spark_engine() as engine:
            figures = (
                *one_table(folder, engine, settings.scale.growth_rows[-1]),
                *many_views(folder, engine),
            )
            tpch = spark_tpch.measure(settings, folder, engine)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return Section((*figures, *tpch.figures), tpch.details, tpch.wrong)


def one_table(folder: Path, engine: Spark, rows: int) -> tuple[Figure, ...]:
    """Epochs of one row and of many, over so many rows of state."""
    say(f"spark: making a flow of {rows:,} rows")
    customers = rows // 10
    session = engine.session()
    tables = {"orders": orders(rows, customers), "customers": people(customers)}
    with Flow(folder / "flow") as flow:
        flow.sql("CREATE TABLE orders (customer BIGINT, amount BIGINT)")
        flow.sql("CREATE TABLE customers (id BIGINT PRIMARY KEY, region BIGINT)")
        for name, table in tables.items():
            read_parquet(session, write_parquet(table, folder / name), name)
            flow.tick(name, table)
        figures = [one_row(flow, engine, name, rows) for name in VIEWS]
        flow.sql(f"CREATE MATERIALIZED VIEW by_customer AS {VIEWS['by_customer']}")
        figures.append(many_rows(flow, engine, folder, rows // 10, customers))
    shutil.rmtree(folder / "flow")
    return tuple(figures)


def one_row(flow: Flow, engine: Spark, name: str, rows: int) -> Figure:
    """One row changes: an epoch on Spark, and the same view computed anew by Spark."""
    flow.use_engine("inline")
    flow.sql(f"CREATE MATERIALIZED VIEW {name} AS {VIEWS[name]}")
    flow.flush()
    flow.use_engine(engine)
    session = engine.session()
    customers = rows // 10
    times: dict[str, list[float]] = {"epoch": [], "recompute": []}
    for number in range(WARM_UPS + ROUNDS):
        epoch_s = seconds(flow.tick, "orders", orders(1, customers))
        if number < WARM_UPS - 2:
            continue
        recompute_s = seconds(work_out, session, VIEWS[name])
        if number >= WARM_UPS:
            times["epoch"].append(epoch_s)
            times["recompute"].append(recompute_s)
    flow.sql(f"DROP MATERIALIZED VIEW {name}")
    p50 = {kind: p50_ms(values) for kind, values in times.items()}
    ratio = float(np.median(np.divide(times["recompute"], times["epoch"])))
    say(f"spark: {name}, one row {p50['epoch']:.0f} ms, Spark recompute {p50['recompute']:.0f} ms")
    return Figure(
        f"Spark epoch, 1 row, {rows:,} rows of state ({name.replace('_', ' ')})", "Spark recompute", p50["epoch"],
        p50["recompute"], "ms", ratio, at_least=10,
    )  # fmt: skip


def many_rows(flow: Flow, engine: Spark, folder: Path, rows: int, customers: int) -> Figure:
    """An epoch of many rows from a DataFrame; a plain job reads, shuffles and writes the same ones.

    What is merged beside the epochs is waited for: it would slow the plain job down."""
    session = engine.session()
    flow.use_engine(engine)
    times: dict[str, list[float]] = {"epoch": [], "plain": []}
    for number in range(LARGE_WARM_UPS + LARGE_ROUNDS):
        place = write_parquet(orders(rows, customers), folder / "more")
        frame = read_parquet(session, place, "more")
        epoch_s = seconds(flow.tick, {"orders": frame})
        flow._writer().flush_state()
        target = str((folder / "copy").absolute())
        plain_s = seconds(frame.repartition(CORES, "customer").write.mode("overwrite").parquet, target)
        if number >= LARGE_WARM_UPS:
            times["epoch"].append(epoch_s)
            times["plain"].append(plain_s)
    speed = {kind: rows / float(np.median(values)) for kind, values in times.items()}
    say(f"spark: {rows:,} rows, epoch {times['epoch']}, plain job {times['plain']}")
    return Figure(
        f"Spark epoch of {rows:,} rows, with a view", "Spark: read, shuffle, write", speed["epoch"], speed["plain"],
        "rows/s", float(np.median(np.divide(times["plain"], times["epoch"]))), at_least=0.5,
    )  # fmt: skip


def orders(rows: int, customers: int) -> pa.Table:
    return pa.table(
        {"customer": _random.integers(0, customers, rows), "amount": _random.integers(1, 1_000, rows)}
    )


def people(customers: int) -> pa.Table:
    return pa.table({"id": np.arange(customers), "region": _random.integers(0, 25, customers)})
