"""The run: load the shop, apply changes one by one until time is up, judge the result."""

from __future__ import annotations

import signal
import time
from collections import Counter, deque
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import FrameType
from typing import Protocol

import numpy as np
import pyarrow as pa

from penstock import Flow
from penstock.demo.place import load, open_flow, why_no_spark
from penstock.demo.recompute import Recompute
from penstock.demo.shop import TABLES, VIEWS, Shop
from penstock.demo.stream import Change, changes

SHOW_EVERY_S = 0.125
RECOMPUTE_EVERY_S = 2.5
RECENT_CHANGES = 5

Rows = list[dict[str, object]]


@dataclass
class Run:
    """What has happened so far."""

    seconds: float
    rows_loaded: int = 0
    load_s: float = 0.0
    loaded_by: str = ""
    no_spark: str | None = None  # why the load did not run on Spark, if it did not
    elapsed_s: float = 0.0
    change_times_s: list[float] = field(default_factory=list)
    rows_changed: int = 0
    changes_on_spark: int = 0  # the engine decides, and for a few rows it should never be Spark
    recompute_times_s: list[float] = field(default_factory=list)
    recent: deque[str] = field(default_factory=lambda: deque(maxlen=RECENT_CHANGES))
    views: dict[str, Rows] = field(default_factory=dict)
    views_wrong: list[str] = field(default_factory=list)
    interrupted: bool = False

    @property
    def changes(self) -> int:
        return len(self.change_times_s)

    def change_ms(self, percent: float) -> float:
        return float(np.percentile(self.change_times_s, percent)) * 1000 if self.change_times_s else 0.0

    @property
    def recompute_ms(self) -> float:
        return float(np.median(self.recompute_times_s)) * 1000 if self.recompute_times_s else 0.0

    @property
    def times_faster(self) -> float:
        p50 = self.change_ms(50)
        return self.recompute_ms / p50 if p50 else 0.0


class Display(Protocol):
    """Where the run is shown: a live screen, or lines."""

    def loading(self, text: str) -> None: ...

    def show(self, run: Run) -> None: ...

    def summary(self, run: Run) -> None: ...


def run_demo(seconds: float, seed: int, display: Display, spark: bool = True) -> Run:
    """The whole demo; returns what happened."""
    run = Run(seconds)
    display.loading("Making up a shop ...")
    shop = Shop(seed)
    tables = shop.tables()
    run.rows_loaded = sum(table.num_rows for table in tables.values())
    run.no_spark = why_no_spark(spark)
    with open_flow(run.no_spark is None, display.loading) as (flow, folder):
        for statement in TABLES.values():
            flow.sql(statement)
        for name, query in VIEWS.items():
            flow.sql(f"CREATE MATERIALIZED VIEW {name} AS {query}")
        display.loading(
            f"Loading {run.rows_loaded:,} rows into {len(TABLES)} tables and {len(VIEWS)} views ..."
        )
        run.load_s, run.loaded_by = load(flow, tables, folder)
        judge = Recompute(tables)
        run.recompute_times_s.append(judge.refresh())
        with _interruptible(run):
            _stream(flow, shop, judge, run, display)
        display.loading("Computing every view from the start with DuckDB and comparing ...")
        judge.refresh()
        run.views_wrong = [name for name in VIEWS if not same_rows(flow.snapshot(name), judge.rows(name))]
        _look(flow, run)
    display.summary(run)
    return run


def _stream(flow: Flow, shop: Shop, judge: Recompute, run: Run, display: Display) -> None:
    """Changes, one tick each, for as long as the run lasts; now and then a look and a recomputation."""
    began = time.perf_counter()
    next_show, next_recompute = 0.0, RECOMPUTE_EVERY_S
    for change in changes(shop):
        apply(flow, change, run)
        judge.note(change)
        run.elapsed_s = time.perf_counter() - began
        if run.elapsed_s >= next_recompute:
            run.recompute_times_s.append(judge.refresh())
            next_recompute += RECOMPUTE_EVERY_S
        over = run.elapsed_s >= run.seconds or run.interrupted
        if over or run.elapsed_s >= next_show:
            _look(flow, run)
            display.show(run)
            next_show = run.elapsed_s + SHOW_EVERY_S
        if over:
            return


def apply(flow: Flow, change: Change, run: Run) -> None:
    """One change, one epoch; only the tick is timed."""
    deltas = change.deltas()
    began = time.perf_counter()
    done = flow.tick(deltas)
    run.change_times_s.append(time.perf_counter() - began)
    run.changes_on_spark += done.spark_jobs > 0
    run.rows_changed += sum(delta.num_rows for delta in deltas.values())
    run.recent.append(change.text)


def _look(flow: Flow, run: Run) -> None:
    """Read the views that are shown; of the longest one, its count by segment is enough."""
    run.views = {name: flow.snapshot(name).to_pylist() for name in VIEWS if name != "without_orders"}


def same_rows(ours: pa.Table, theirs: pa.Table) -> bool:
    """True where both have the same rows, in whatever order.

    >>> same_rows(pa.table({"a": [1, 2, 2]}), pa.table({"a": [2, 1, 2]}))
    True
    """
    return Counter(map(repr, ours.to_pylist())) == Counter(map(repr, theirs.to_pylist()))


@contextmanager
def _interruptible(run: Run) -> Iterator[None]:
    """Ctrl-C ends the run after the change at hand, so that nothing is cut in half."""

    def stop(signum: int, frame: FrameType | None) -> None:
        run.interrupted = True

    before = signal.signal(signal.SIGINT, stop)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
