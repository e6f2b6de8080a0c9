"""The side of a flow that is fed from Python: ticks, which apply deltas to tables."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any

from penstock.base.errors import InvalidDelta, PenstockError, TransactionError
from penstock.commit.once import Offset
from penstock.engine.accept import upsert
from penstock.engine.applied import Applied
from penstock.engine.catalog import Table, VolatileDefault
from penstock.engine.change_feed import from_change_feed
from penstock.engine.epochs import Change as TableChange
from penstock.engine.flow_commits import CommitSide, commit_mode
from penstock.engine.flow_parts import read_only_error
from penstock.engine.follow import Follower
from penstock.engine.frames import Frame, FrameSource
from penstock.engine.ingest import to_zset
from penstock.engine.summary import TickSummary
from penstock.engine.transaction import Transaction
from penstock.run.spark.change_feed import from_change_feed as read_change_feed
from penstock.run.spark.engine import NO_FIGURES
from penstock.run.spark.session import is_data_frame
from penstock.sql.tokens import fold_all
from penstock.state.scattered import Rows, Scattered
from penstock.zset.change_feeds import AUTO
from penstock.zset.zset import ZSet


class TickSide(CommitSide):
    """What Flow offers to those who bring rows without SQL."""

    def tick(
        self,
        source: str | Mapping[str, Any],
        delta: Any = None,
        *,
        mode: str | None = None,
        commit: str | None = None,
        offset: Offset | Mapping[str, Offset] | None = None,
        idempotency_key: str | None = None,
        change_feed: str = AUTO,
    ) -> TickSummary:
        """Apply deltas to one table, or to several at once ({table: delta}), as one epoch.

        A delta is a pyarrow table or record batch, a pandas or polars frame, or a list of dicts. The
        column `_weight` says how often each row comes (positive) or goes (negative); without it each comes
        once. mode="upsert" replaces the rows that have the same primary key.

        Values are taken exactly or refused: an integer column takes 1.0 and no 1.5, DECIMAL(p,s) no Decimal that it
        cannot hold. A float becomes DECIMAL rounded to the scale, half away from zero, since floats are never exact.
        The index of a pandas frame is left out, unless it has the name of a column that the frame lacks.

        A flow on storage returns when the epoch is there (commit="durable"), or at once ("visible": it is
        there within the commit interval). `offset` says how far the source has been read: a tick whose
        offset has been applied changes nothing, also after a crash; so does one whose `idempotency_key`
        was used before.

        A change feed is turned into weights: `change_feed` is "delta", "iceberg" or "debezium"; "auto" knows
        one in Arrow by its columns.
        """
        began = time.perf_counter()
        if mode not in (None, "insert", "upsert"):
            raise InvalidDelta(f'unknown mode "{mode}"', hint='Use "insert" or "upsert".')
        # Whether it is a text is asked first: whether it is a Mapping takes ten times as long.
        if isinstance(source, str) or not isinstance(source, Mapping):
            deltas: Mapping[str, Any] = {source: delta}
            if delta is None:
                raise InvalidDelta(f'tick("{source}") has no delta', hint="Give the rows: tick(table, rows).")
        else:
            deltas = source
        if change_feed != AUTO and mode == "upsert":
            raise InvalidDelta("a change feed says itself which rows go", hint='Leave mode="upsert" out.')
        if commit is not None:
            commit = commit_mode(commit)
        self.meter.statements["tick"] += 1
        try:
            with self.meter.accepting(fold_all(tuple(deltas))) as arrived_us, self._lock:
                self._check_open()
                if self._session.transaction is not None:
                    raise TransactionError("a tick is an epoch of its own", hint="COMMIT or ROLLBACK first.")
                if isinstance(self._store, Follower):
                    raise read_only_error()
                summary = self._tick(deltas, mode, offset, idempotency_key, change_feed, began, arrived_us)
        except PenstockError as error:
            self.meter.error(error)
            raise
        self._settle(summary.epoch, commit)
        return summary

    def _tick(
        self,
        deltas: Mapping[str, Any],
        mode: str | None,
        offset: Any,
        key: str | None,
        feed: str,
        began: float,
        arrived_us: int,
    ) -> TickSummary:
        core = self._core
        applied = Applied(self._once, offset, key) if offset is not None or key is not None else None
        if applied is not None:
            applied.check(deltas)
            if applied.epoch is not None:
                return TickSummary(applied.epoch, 0, (time.perf_counter() - began) * 1000, {}, tuple(deltas))
        transaction = Transaction(core)
        note: dict[str, Any] = {}
        repeated: list[str] = []
        dropped: list[Table] = []
        frames: dict[str, Frame] = {}
        rows_in = 0
        for name, data in deltas.items():
            table = core.table(name)
            if applied is not None and applied.has(table):
                repeated.append(table.name)
                continue
            if core.executor is not None and self._engines.takes_frames and is_data_frame(data):
                frames[table.name] = self._frame(table, data, mode, feed)
                continue
            if mode != "upsert" and not (feed == AUTO and table.matching.knows(data)):
                data = from_change_feed(data, feed, table.schema.names)
            defaults = self._defaults(table) if table.has_volatile_defaults else table.defaults
            rows = to_zset(data, table.matching, defaults)
            count = len(rows)
            if not count:
                continue
            if table.dedup and self._once.repeats(table.id, self._given(table, data, rows), note):
                repeated.append(table.name)
                dropped.append(table)
                continue
            rows_in += count
            if mode == "upsert":
                rows = upsert(table, rows, transaction.pending(table))
            transaction.apply(table, rows)
        if applied is not None:
            applied.note(note)
        if frames:
            changed, read = self._commit_frames(transaction, list(frames.values()), arrived_us, note)
            rows_in += read
        else:
            changed = self._commit(transaction, arrived_us, note) if transaction.changes or note else {}
        for table in dropped:
            self._once.count(table.id)
        duration_ms = (time.perf_counter() - began) * 1000
        summary = TickSummary(core.epoch, rows_in, duration_ms, changed, tuple(repeated))
        figures = self._engines.take_figures()
        if figures is not NO_FIGURES:
            summary.took(figures)
        return summary

    def _frame(self, table: Table, data: Any, mode: str | None, feed: str) -> Frame:
        if table.dedup:
            raise InvalidDelta(
                f'table "{table.name}" compares each delta with the one before, and a DataFrame is never whole '
                "in one place",
                hint="Give offset= or idempotency_key= instead, or collect it: tick(table, df.toArrow()).",
            )
        rows = read_change_feed(data, feed, table.schema.names)
        source = FrameSource.of(table, self._defaults(table), mode == "upsert", rows.schema.names)
        return Frame(source, rows, table.piece()[1])

    def _commit_frames(
        self, transaction: Transaction, frames: Sequence[Frame], arrived_us: int, note: dict[str, Any]
    ) -> tuple[dict[str, Rows], int]:
        """Commit with DataFrames among the changes: those of the views, and the rows that were read."""
        given = {name: change for name, change in transaction.changes.items() if len(change[0])}
        epoch = self._core.propose_frames(given, frames)
        changes: dict[str, TableChange] = dict(given)
        for frame in frames:
            found = epoch.deltas.get(frame.source.node)
            if isinstance(found, Scattered):
                changes[frame.source.name] = (found, None)
        if not changes and not note:
            return {}, 0
        return self._commit_epoch(changes, lambda: epoch, arrived_us, note), epoch.rows_read

    def _given(self, table: Table, data: Any, rows: ZSet) -> ZSet:
        """A delta to be compared with the one before: without defaults such as now(), which always differ."""
        if not table.has_volatile_defaults:
            return rows
        fixed = [None if isinstance(d, VolatileDefault) else d for d in table.defaults]
        return to_zset(data, table.matching, fixed)

    def _defaults(self, table: Table) -> Sequence[Any]:
        if not table.has_volatile_defaults:
            return table.defaults
        types = table.schema.types
        return [
            self._core.evaluate(d.text, t) if isinstance(d, VolatileDefault) else d
            for d, t in zip(table.defaults, types, strict=True)
        ]
