"""Waiting for what happens at once, on a machine that is busy."""

from __future__ import annotations

import time
from collections.abc import Callable

from penstock import Flow

WAIT_S = 60


def until(condition: Callable[[], bool]) -> None:
    end = time.monotonic() + WAIT_S
    while not condition():
        assert time.monotonic() < end, "it has not happened"
        time.sleep(0.005)


def until_it_runs(flow: Flow) -> None:
    """Until a client's statement runs: one that is cancelled before that would not show anything."""
    until(lambda: any(session.state == "active" for session in flow.sessions()))
