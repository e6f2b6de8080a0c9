"""What a change costs a view: measured by trying it, with nothing changed.

An epoch can be worked out without being committed, so the honest estimate is to do that: for rows of each table
that the view is built on, what would their removal do? The rows are a sample of those that are there, so that keys
with many matches are met as often as they occur. An insertion costs the same, except where a removal makes MIN, MAX
or LIMIT read further.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from penstock.base.errors import PenstockError
from penstock.base.limits import ESTIMATE_ROWS
from penstock.circuit.circuit import Circuit
from penstock.circuit.operator import Delta
from penstock.engine.accept import accept
from penstock.engine.catalog import MaterializedView, Table
from penstock.engine.core import Core
from penstock.run.inline import run
from penstock.zset.zset import ZSet


@dataclass(frozen=True)
class TableCost:
    """What the removal of one row of a table does to a view; `tried` rows of the table's were tried."""

    table: str
    rows: int
    tried: int
    ms: Sequence[float]
    worked_on: Sequence[int]  # rows of deltas that the view's operators gave
    changed: Sequence[int]  # rows of the view that came or went

    def line(self) -> str:
        """For people."""
        head = f"{self.table}: {self.rows:,} rows"
        if not self.tried:
            return f"{head}, none to try"
        return (
            f"{head}, {self.tried} tried: {_median(self.ms):.2f} ms (p50), {_high(self.ms):.2f} ms (p99); "
            f"operators give {_median(self.worked_on):.0f} rows (p50), {max(self.worked_on):,} (most); "
            f"the view changes by {_median(self.changed):.0f} (p50), {max(self.changed):,} (most)"
        )


def estimate(core: Core, view: MaterializedView) -> list[TableCost]:
    """One for each base table of the view. Nothing is changed. The flow's lock must be held."""
    circuit = Circuit()
    circuit.add(core.circuit.below([view.node]))
    tables = [t for t in core.catalog.tables() if t.node in circuit.nodes or t.key_node in circuit.nodes]
    return [_cost(circuit, view, table) for table in tables]


def estimate_lines(core: Core, view: MaterializedView) -> list[str]:
    """The same as text."""
    head = "what the removal of one row costs this view alone, measured by working it out and dropping it:"
    return [head, *[f"  {cost.line()}" for cost in estimate(core, view)]]


def _cost(circuit: Circuit, view: MaterializedView, table: Table) -> TableCost:
    ms: list[float] = []
    worked_on: list[int] = []
    changed: list[int] = []
    for delta in _removals(table):
        try:
            rows, batch = accept(table, delta)
        except PenstockError:
            continue  # a later delta has taken this row away already
        deltas: dict[int, Delta] = {table.node: rows}
        if table.key_node is not None:
            deltas[table.key_node] = batch
        began = time.perf_counter()
        try:
            epoch = run(circuit, {id: d for id, d in deltas.items() if id in circuit.nodes})
        except PenstockError:
            continue  # a view may refuse to be without a row, as an expression may fail on what is left
        ms.append((time.perf_counter() - began) * 1000)
        given = {id: len(d) for id, d in epoch.deltas.items() if d is not None and id not in deltas}
        worked_on.append(sum(given.values()))
        changed.append(given.get(view.node, 0))
    return TableCost(table.name, table.row_count(), len(ms), ms, worked_on, changed)


def _removals(table: Table) -> Iterator[ZSet]:
    """Some rows of the table, each as the delta that removes it."""
    if table.keyed is not None:
        # Batches are sorted by hash, so their first rows are a random sample.
        largest = max(table.keyed.batches, key=len, default=None)
        sample = None if largest is None else largest.slice(0, ESTIMATE_ROWS).zset()
    else:
        assert table.bag is not None
        sample = table.bag.sample(ESTIMATE_ROWS)
    for i in range(0 if sample is None else min(len(sample), ESTIMATE_ROWS)):
        assert sample is not None
        row = sample.take(np.array([i]))
        if row.weights[0] > 0:
            yield ZSet(row.columns, np.array([-1], np.int64))


def _median(values: Sequence[float]) -> float:
    return float(np.median(values))


def _high(values: Sequence[float]) -> float:
    return float(np.percentile(values, 99))
