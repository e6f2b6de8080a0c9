"""penstock.sessions: who is connected, and what they do."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from penstock.engine.system.relation import TIME, SystemRelation

if TYPE_CHECKING:
    from penstock.engine.flow import Flow


def _rows(flow: Flow) -> Iterator[tuple[Any, ...]]:
    for s in flow.sessions():
        transaction = s.transaction
        yield (
            s.number,
            s.actor,
            s.application,
            s.began_us,
            s.state,
            s.running,
            s.running_since_us,
            s.statements,
            None if transaction is None else sorted(transaction.changes),
        )


SESSIONS = SystemRelation(
    "sessions",
    "sessions of this process: clients of the server, and those that the program has opened",
    (
        ("id", "BIGINT"),
        ("role", "VARCHAR"),
        ("application", "VARCHAR"),
        ("since", TIME),
        ("state", "VARCHAR"),  # idle, active, idle in transaction
        ("statement", "VARCHAR"),  # the kind of statement that runs
        ("statement_since", TIME),
        ("statements", "BIGINT"),  # so far
        ("changed_tables", "VARCHAR[]"),  # of the open transaction
    ),
    _rows,
    at_any_time=True,
)
