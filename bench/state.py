"""Bytes of state, and the bytes of the same rows as plain Arrow."""

from __future__ import annotations

from bench.measure import say
from bench.report import Figure, Section
from bench.scale import SEED, Settings
from penstock import Flow


def state_bytes(flow: Flow) -> int:
    """Bytes of everything that the flow holds: tables, arrangements, views."""
    return sum(part.bytes for part in flow.state())


def arrow_bytes(flow: Flow, *names: str) -> int:
    """Bytes of the rows of tables and views as plain Arrow."""
    return sum(int(flow.snapshot(name).nbytes) for name in names)


def figure(name: str, state: int, held: int, rows: int) -> Figure:
    """State against the same rows as plain Arrow, both for each row of input."""
    peer = "same rows, plain Arrow"
    return Figure(name, peer, state / rows, held / rows, "B/row", state / held, at_most=3)


def measure(settings: Settings) -> Section:
    """Two tables and the join between them: every row of both finds one or a few partners."""
    from bench.growth import join_flow

    rows = settings.scale.growth_rows[-1]
    say(f"state: a join of two tables, {rows:,} rows in all")
    with join_flow(rows, SEED) as flow:
        held = arrow_bytes(flow, "a", "b", "joined")
        found = figure("bytes of state: two-table join and its view", state_bytes(flow), held, rows)
    return Section((found,))
