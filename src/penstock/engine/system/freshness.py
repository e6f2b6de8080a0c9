"""penstock.freshness: how fresh every materialized view is, and why it is not fresher."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from penstock.engine.system.relation import SystemRelation

if TYPE_CHECKING:
    from penstock.engine.flow import Flow


def _rows(flow: Flow) -> Iterator[tuple[Any, ...]]:
    for f in flow.freshness():
        yield f.view, f.target_s, f.lag_s, f.p50_s, f.p99_s, f.compliance, f.window_s, f.reason


FRESHNESS = SystemRelation(
    "freshness",
    "how fresh every materialized view is, and why it is not fresher",
    (
        ("view", "VARCHAR"),
        ("target_s", "DOUBLE"),
        ("lag_s", "DOUBLE"),
        ("p50_s", "DOUBLE"),
        ("p99_s", "DOUBLE"),
        ("compliance", "DOUBLE"),
        ("window_s", "DOUBLE"),
        ("degraded_reason", "VARCHAR"),
    ),
    _rows,
    at_any_time=True,
)
