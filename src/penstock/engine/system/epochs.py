"""penstock.epochs: the last epochs that this process has made or followed."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from penstock.engine.system.relation import TIME, SystemRelation

if TYPE_CHECKING:
    from penstock.engine.flow import Flow


def _rows(flow: Flow) -> Iterator[tuple[Any, ...]]:
    durable = flow.durable_epoch if flow.is_on_storage else None
    for e in list(flow.meter.epochs):
        lag_ms = (e.visible_us - e.arrived_us) / 1000
        is_durable = None if durable is None else e.epoch <= durable
        yield e.epoch, e.arrived_us, e.visible_us, lag_ms, e.rows_in, e.rows_out, e.engine, is_durable


EPOCHS = SystemRelation(
    "epochs",
    "the last epochs of this process",
    (
        ("epoch", "BIGINT"),
        ("accepted_at", TIME),
        ("visible_at", TIME),
        ("lag_ms", "DOUBLE"),
        ("rows_in", "BIGINT"),  # of tables
        ("rows_out", "BIGINT"),  # of views
        ("engine", "VARCHAR"),
        ("durable", "BOOLEAN"),  # NULL: the flow is in memory
    ),
    _rows,
    at_any_time=True,
)
