"""penstock.audit_log: what happened to the flow as a whole."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from penstock.engine.system.relation import TIME, SystemRelation

if TYPE_CHECKING:
    from penstock.engine.flow import Flow


def _rows(flow: Flow) -> Iterator[tuple[Any, ...]]:
    for e in flow._core.audit.entries():
        yield e.number, e.time_us, e.epoch, e.event, e.actor, e.session, json.dumps(e.detail)


AUDIT_LOG = SystemRelation(
    "audit_log",
    "what happened to the flow as a whole: definitions, openings, checkpoints, stops",
    (
        ("number", "BIGINT"),
        ("time", TIME),
        ("epoch", "BIGINT"),
        ("event", "VARCHAR"),
        ("actor", "VARCHAR"),  # the role; NULL: the program that has the flow open
        ("session", "BIGINT"),
        ("detail", "JSON"),
    ),
    _rows,
    at_any_time=True,
)
