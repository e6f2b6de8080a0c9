"""Flows that run elsewhere beside one that runs inline: after every call both must hold the same.

`Beside` is a flow with an inline twin. Whatever is asked of the flow is asked of the twin as well; answers,
refusals (class, message and hint), tables and views (rows and weights) are compared, and what is held too.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pyarrow as pa

import penstock
from durable.small_limits import set_limits
from penstock.engine.catalog import MaterializedView, Table
from penstock.run.distributed import Executor
from penstock.run.partitioned import Partitioned
from penstock.run.ranges import Ranges
from rows import Row, rows_of

# With these every path is taken by a handful of rows: what tasks give is files, packets are cut, keys are hot.
FEW = {
    "PACKET_BYTES_MAX": 64,
    "RECEIPT_BYTES_MAX": 1,
    "HOT_KEY_ROWS_MIN": 3,
    "SHIPPED_BYTES_MAX": 64,
    "SENT_BYTES_MAX": 64,
    "MERGE_HERE_ROWS_MAX": 4,
    "FRAME_ROWS_AT_ONCE": 2,
}

Weighted = Counter[Row]


@contextmanager
def few(**more: float) -> Iterator[None]:
    """The limits of FEW for the length of a `with` block."""
    before = set_limits({**FEW, **more})
    try:
        yield
    finally:
        set_limits(before)


def weighted(flow: penstock.Flow, name: str) -> Weighted:
    """The rows of a relation with their weights, which a snapshot writes out."""
    relation = flow._core.catalog.get(name)
    assert isinstance(relation, (Table, MaterializedView))
    held = relation.rows()
    table = pa.table(flow.snapshot(name))
    assert int(held.weights.sum()) == table.num_rows, f"{name}: a weight is below zero"
    return Counter(rows_of(table))


def compare(
    flow: penstock.Flow,
    twin: penstock.Flow,
    note: str = "",
    seen: dict[str, tuple[object, ...]] | None = None,
) -> None:
    """Every table and materialized view of both; none again that is in `seen` as it is now."""
    ours, theirs = flow._core.catalog, twin._core.catalog
    assert [r.name for r in ours] == [r.name for r in theirs], note
    assert flow.epoch == twin.epoch, note
    for relation in ours:
        if isinstance(relation, (Table, MaterializedView)):
            other = theirs.get(relation.name)
            assert isinstance(other, type(relation)), note
            now = (relation.id, relation.version, other.id, other.version)
            if seen is not None and seen.get(relation.name) == now:
                continue
            if seen is not None:
                seen[relation.name] = now
            a, b = weighted(flow, relation.name), weighted(twin, relation.name)
            wrong = {row: (a[row], b[row]) for row in a.keys() | b.keys() if a[row] != b[row]}
            assert not wrong, f"{note}\n{relation.kind} {relation.name} (row: here, inline): {wrong}"


def anywhere(chance: random.Random) -> Executor | None:
    """Some number of partitions, of one size or not; now and then inline."""
    if chance.random() < 0.2:
        return None
    ranges = Ranges.even(chance.choice((1, 2, 3, 5)))
    for _ in range(chance.choice((0, 0, 1, 3))):
        ranges = ranges.split([chance.randrange(len(ranges))])
    return Partitioned(ranges)


class Beside(penstock.Flow):
    """A flow whose next epoch runs where `place` says, and its inline twin."""

    def __init__(self, seed: object = 0, **options: Any) -> None:
        super().__init__(**options)
        self._chance = random.Random(f"beside {seed}")
        self.twin = penstock.Flow(engine="inline")
        self._seen: dict[str, tuple[object, ...]] = {}  # relations as they were last compared

    def place(self) -> None:
        self._core.executor = anywhere(self._chance)

    def sql(self, sql: str, *args: Any, **options: Any) -> Any:
        return self._both(sql, lambda flow: penstock.Flow.sql(flow, sql, *args, **options))

    def tick(self, *args: Any, **options: Any) -> Any:
        return self._both("a tick", lambda flow: penstock.Flow.tick(flow, *args, **options))

    def close(self) -> None:
        self.twin.close()
        super().close()

    def _both(self, note: str, call: Callable[[penstock.Flow], Any]) -> Any:
        self.place()
        expected, refusal = _attempt(call, self.twin)
        given, error = _attempt(call, self)
        assert _said(error) == _said(refusal), f"{note}\nhere:   {error!r}\ninline: {refusal!r}"
        if isinstance(given, pa.Table) and given.num_rows and "now" not in note:
            assert Counter(rows_of(given)) == Counter(rows_of(expected)), note
        if self._session.transaction is None:
            compare(self, self.twin, note, self._seen)
        if error is not None:
            raise error
        return given


def _attempt(
    call: Callable[[penstock.Flow], Any], flow: penstock.Flow
) -> tuple[Any, penstock.PenstockError | None]:
    try:
        return call(flow), None
    except penstock.PenstockError as error:
        return None, error


def _said(error: penstock.PenstockError | None) -> object:
    return None if error is None else (type(error), error.message, error.hint)
