"""TPC-H: a tick of 1,000 changed rows, inline and as an epoch on Spark, against Spark's recomputation.

The flow is on disk. An inline tick ends when it can be read, as against DuckDB (`bench/tpch.py`), and is measured once
more until it is durable; an epoch on Spark ends when it is durable. Spark reads the tables as tpchgen-cli made them, before
any change: the few thousand rows that change meanwhile make no difference to what it takes.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np

from bench.measure import p50_ms, say, seconds
from bench.report import Figure, Section
from bench.scale import CHANGED_ROWS, FULL, SEED, Scale, Settings
from bench.spark_session import read_parquet, work_out
from bench.tpch import SPECIFICATION, comparable, recompute
from bench.tpch_data import TABLES, Data, make_files, tables_of
from penstock import Flow, Spark

SMALL_QUERIES = frozenset({1, 3, 6, 10, 13, 18})  # of the small scale, which is to end soon
WARM_UP_TICKS = 1
RECOMPUTES = 2


@dataclass(frozen=True)
class Query:
    """What was measured for one query, in milliseconds."""

    name: str
    tick_ms: float
    durable_ms: float
    epoch_ms: float
    recompute_ms: float
    right: bool

    @property
    def tick_gain(self) -> float:
        return self.recompute_ms / self.tick_ms

    @property
    def epoch_gain(self) -> float:
        return self.recompute_ms / self.epoch_ms

    def __str__(self) -> str:
        ours = f"tick {self.tick_ms:6.1f} ms (durable {self.durable_ms:6.1f}), Spark epoch {self.epoch_ms:5.0f} ms"
        gain = f"Spark recompute {self.recompute_ms:6.0f} ms  {self.tick_gain:6.1f}x  {self.epoch_gain:5.2f}x"
        return f"{self.name}  {ours}  {gain}" + ("" if self.right else "  WRONG")


def measure(settings: Settings, folder: Path, engine: Spark) -> Section:
    scale = settings.scale
    files = make_files(scale.tpch_factor, settings.folder)
    schema = (SPECIFICATION / "schema.sql").read_text()
    data = Data(files, schema, SEED)
    for table in TABLES:
        read_parquet(engine.session(), files / f"{table}.parquet", table)
    say("spark: loading TPC-H")
    chosen = settings.queries if scale is FULL else SMALL_QUERIES
    queries = []
    with Flow(folder / "tpch") as flow:
        for statement in schema.split(";"):
            if statement.strip():
                flow.sql(statement)
        for table in TABLES:
            flow.tick(table, data.arrow(table))
        flow.flush()
        for file in sorted((SPECIFICATION / "queries").glob("q*.sql")):
            if int(file.stem[1:]) in settings.queries & chosen:
                query = file.read_text().strip().rstrip(";")
                queries.append(measure_query(flow, data, engine, file.stem, query, scale))
                say(f"spark: TPC-H {queries[-1]}")
    text = "\n".join(f"  {query}" for query in queries)
    title = f"TPC-H, {CHANGED_ROWS:,} changed rows, inline and on Spark, against recomputing it by Spark:"
    wrong = tuple(f"TPC-H {query.name} is not what DuckDB answers" for query in queries if not query.right)
    return Section(figures(queries), f"{title}\n\n{text}\n", wrong)


def measure_query(flow: Flow, data: Data, engine: Spark, name: str, query: str, scale: Scale) -> Query:
    tables = tables_of(query)
    session = engine.session()
    flow.use_engine("inline")
    flow.sql(f"CREATE MATERIALIZED VIEW answer AS {query}")
    flow.flush()
    times: dict[str, list[float]] = {"visible": [], "durable": [], "spark": []}
    for kind in times:
        flow.use_engine(engine if kind == "spark" else "inline")
        commit = "visible" if kind == "visible" else "durable"
        for number in range(WARM_UP_TICKS + scale.tpch_ticks):
            changes = data.change(tables, CHANGED_ROWS)
            tick_s = seconds(partial(flow.tick, commit=commit), changes)
            data.apply(changes)
            if number >= WARM_UP_TICKS:
                times[kind].append(tick_s)
    recompute_s = [seconds(work_out, session, query) for _ in range(1 + RECOMPUTES)][1:]
    right = comparable(flow.snapshot("answer")) == comparable(recompute(data, query))
    flow.sql("DROP MATERIALIZED VIEW answer")
    p50 = {kind: p50_ms(found) for kind, found in times.items()}
    return Query(name, p50["visible"], p50["durable"], p50["spark"], p50_ms(recompute_s), right)


def figures(queries: list[Query]) -> tuple[Figure, ...]:
    middle = {
        field: float(np.median([getattr(query, field) for query in queries]))
        for field in ("tick_ms", "durable_ms", "epoch_ms", "recompute_ms", "tick_gain", "epoch_gain")
    }
    title, peer = f"TPC-H, {CHANGED_ROWS:,} changed rows: median gain of {len(queries)}", "Spark recompute"
    return (
        Figure(f"{title}, inline", peer, middle["tick_ms"], middle["recompute_ms"], "ms", middle["tick_gain"], at_least=100),
        Figure(f"{title}, inline, until durable", peer, middle["durable_ms"], middle["recompute_ms"], "ms", middle["recompute_ms"] / middle["durable_ms"]),
        Figure(f"{title}, Spark epoch", peer, middle["epoch_ms"], middle["recompute_ms"], "ms", middle["epoch_gain"]),
    )  # fmt: skip
