"""What a statement waits for before it runs: freshness, or the rows that FETCH ... WITH (TIMEOUT) asks for."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import TYPE_CHECKING

from penstock.gateway import commands as c
from penstock.gateway.copy_command import Copy
from penstock.gateway.pause import Pause
from penstock.gateway.portals import Portal, Prepared
from penstock.gateway.prepare_command import Execute
from penstock.sql import statements as st

if TYPE_CHECKING:
    from penstock.gateway.work import Work

_NO_READS = (st.Begin, st.Commit, st.Rollback, st.Savepoint, st.Release, st.RollbackTo)


def waits(work: Work, portal: Portal) -> Iterator[Pause]:
    """A pause for each time that it has to wait, until it can run."""
    if portal.tag or work.failed:
        return
    freshness = work.settings.freshness
    if not freshness.holds() and _reads(portal.prepared):
        began = time.monotonic()
        while not freshness.holds():
            freshness.check(began)
            yield Pause(freshness.holds, freshness.until(began))
            work.session.check_not_cancelled()
    command = portal.prepared.command
    if isinstance(command, c.Fetch) and command.timeout_s is not None:
        yield from _rows(work, command, command.timeout_s)


def _reads(prepared: Prepared) -> bool:
    if prepared.command is not None:
        return isinstance(prepared.command, (Copy, Execute, c.Declare))
    return prepared.statement is not None and not isinstance(prepared.statement, _NO_READS)


def _rows(work: Work, command: c.Fetch, timeout_s: float) -> Iterator[Pause]:
    """Until there are as many rows as it wants (ALL: any), or the time is up."""
    cursor = work.portals.get(command.name)
    stream = cursor.stream if cursor is not None else None
    if stream is None:
        return  # the statement itself says what is wrong
    until = time.monotonic() + timeout_s
    wanted = 1 if command.count is None else command.count
    while stream.gather(wanted) < wanted and time.monotonic() < until:
        yield stream.pause(until)
        work.session.check_not_cancelled()
