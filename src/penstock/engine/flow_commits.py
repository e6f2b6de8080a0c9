"""The side of a flow that commits: changes of tables become an epoch, which is stored, told of and measured."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any

from penstock.base.errors import FlowPaused, InvalidOption
from penstock.base.undivided import Undivided
from penstock.engine.durable import Durable
from penstock.engine.epochs import Change as TableChange
from penstock.engine.flow_parts import FlowParts
from penstock.engine.transaction import Transaction
from penstock.run.inline import Epoch
from penstock.sql.tokens import fold_all
from penstock.state.scattered import Rows, rows_of
from penstock.zset.few import Few


class CommitSide(FlowParts):
    """What every change of rows goes through, be it of a tick or of a statement."""

    def _commit(
        self, transaction: Transaction, arrived_us: int, note: dict[str, Any] | None = None
    ) -> dict[str, Rows]:
        changes = transaction.effective()
        if not changes and not note:
            return {}
        return self._commit_epoch(changes, transaction.epoch, arrived_us, note)

    def _commit_epoch(
        self,
        changes: Mapping[str, TableChange],
        work_out: Callable[[], Epoch],
        arrived_us: int,
        note: dict[str, Any] | None,
    ) -> dict[str, Rows]:
        if self._paused_us is not None:
            raise FlowPaused("the flow is paused: it takes no changes", hint="ALTER SYSTEM RESUME.")
        if self._store is not None:
            store = self._writer()
            store.check()
            if changes:
                store.check_fits(changes, work_out())
        began = time.perf_counter()
        epoch = work_out() if changes else None  # an offset without rows is an epoch too
        with Undivided():  # until here it may be stopped, and nothing has happened
            if epoch is not None:
                changed = self._core.commit(changes, epoch)
            else:
                self._core.epoch += 1
                changed = {}
            if self._store is not None:
                placed = epoch is not None and epoch.placed
                self._record(changes, changed, note or {}, time.perf_counter() - began, placed)
            elif note:
                self._once.writes(note, self._core.epoch)
            if self._watches or self.bell.is_heard:
                told = changed.copy()
                for name, change in changes.items():
                    told[name] = change[0]
                self._push(self._core.epoch, told)
            self._measure(changes, changed, arrived_us)
        return changed

    def _measure(self, changes: Mapping[str, TableChange], changed: dict[str, Rows], arrived_us: int) -> None:
        held = self._store.held if isinstance(self._store, Durable) else None
        rows_in = rows_out = 0
        for delta, _ in changes.values():
            rows_in += len(delta.rows) if delta.__class__ is Few else len(delta)
        for rows in changed.values():
            rows_out += len(rows.rows) if rows.__class__ is Few else len(rows)
        self.meter.epoch(
            self._core.epoch,
            arrived_us,
            rows_in,
            rows_out,
            fold_all(tuple(changes)),
            held or "STRESSED",
            self._engines.ran_on(),
        )

    def _record(
        self,
        changes: Mapping[str, TableChange],
        views: dict[str, Rows],
        note: dict[str, Any],
        cost_s: float,
        placed: bool,
    ) -> None:
        store = self._writer()
        entry = store.entry(changes, views, note)
        if self._pending is not None:
            self._pending.append(entry)
        elif placed:
            store.commit_placed(entry)
        else:
            store.commit(entry, changes, cost_s)

    def _push(self, epoch: int, changes: Mapping[str, Rows]) -> None:
        """Tell those who watch; `changes` has the relations under their names."""
        for watches in self._watches.values():  # those of one relation, one at least
            delta = changes.get(watches[0].view)
            rows = None if delta is None else rows_of(delta)
            for watch in watches:
                watch.push(epoch, rows)
        if self.bell.is_heard:
            self.bell.ring(epoch, changes)

    def _settle(self, epoch: int, mode: str | None) -> None:
        """Wait until an epoch is on storage, where that was asked for. Without the lock: others go on."""
        if self._store is None and not self._sinks:  # the usual flow in memory
            return
        if epoch and isinstance(self._store, Durable) and (mode or self._store.settings.commit) == "durable":
            self._store.wait(epoch)
        for sink in list(self._sinks) if epoch else ():
            sink.deliver()


def commit_mode(mode: str) -> str:
    if mode not in ("durable", "visible"):
        raise InvalidOption(f'unknown commit mode "{mode}"', hint='Use "durable" or "visible".')
    return mode
