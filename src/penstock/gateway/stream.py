"""SUBSCRIBE as rows: the epoch, the diff and then the view's columns, epoch after epoch and without an end.

With PROGRESS there is a column `progress` after the epoch. It is false in rows of the view; a row in which it is true
says that no row of an epoch before its own will come any more, and has NULL in all other columns.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from penstock.base.errors import LimitExceeded, PenstockError
from penstock.base.limits import SUBSCRIPTIONS_MAX
from penstock.engine.subscription import Subscription
from penstock.engine.watch import Change
from penstock.gateway.backend import row_description
from penstock.gateway.pause import Pause
from penstock.gateway.portals import Portal
from penstock.gateway.result import Result, check_announced, fields, spread
from penstock.gateway.types import ColumnType, column_type
from penstock.sql import statements as st
from penstock.zset.interchange import export_type

if TYPE_CHECKING:
    from penstock.gateway.work import Work


class Stream:
    """The rows that have come and have not been taken yet, and the subscription that they come from."""

    def __init__(self, subscription: Subscription, s: st.Subscribe, formats: tuple[int, ...]) -> None:
        schema = subscription.schema
        ducks = [t.duck for t in schema.types]
        self._subscription = subscription
        self._progress = s.progress
        self._told = -1  # the frontier that the client knows
        self.columns: list[tuple[str, ColumnType]] = [
            (name, column_type(duck)) for name, duck in s.columns(list(zip(schema.names, ducks, strict=True)))
        ]
        self.formats = spread(formats, len(self.columns))
        self._tables: deque[pa.Table] = deque()
        self.waiting = 0  # rows that can be taken at once

    @property
    def types(self) -> list[ColumnType]:
        return [type for _, type in self.columns]

    @property
    def description(self) -> bytes:
        """RowDescription."""
        return row_description(fields(self.columns, self.formats))

    def pause(self, until: float | None = None) -> Pause:
        """Until the subscription has something to give or to say; that is found out without a lock."""
        come = self._subscription.advanced if self._progress else self._subscription.ready
        return Pause(come, until)

    def gather(self, rows: int | None) -> int:
        """Have at least so many rows waiting (None: all), if they have come; how many are."""
        try:
            while (rows is None or self.waiting < rows) and self._pull():
                pass
        except PenstockError:
            if not self.waiting:
                raise  # else what came before it is given first
        return self.waiting

    def take(self, rows: int | None, formats: list[int] | None = None) -> Result | None:
        """The next rows, at most so many; None if none have come."""
        self.gather(rows)
        taken: list[pa.Table] = []
        left = self.waiting if rows is None else min(rows, self.waiting)
        while left:
            table = self._tables.popleft()
            if table.num_rows > left:
                self._tables.appendleft(table.slice(left))
                table = table.slice(0, left)
            taken.append(table)
            left -= table.num_rows
            self.waiting -= table.num_rows
        if not taken:
            return None
        return Result(pa.concat_tables(taken), self.types, formats or self.formats)

    def empty(self, formats: list[int] | None = None) -> Result:
        """No rows, of the right columns."""
        return Result(self._table(self._arrays(0, 0)).slice(0, 0), self.types, formats or self.formats)

    def close(self) -> None:
        self._tables.clear()
        self.waiting = 0
        self._subscription.close()

    def _pull(self) -> bool:
        """Take one change from the subscription; whether anything came of it."""
        before = self.waiting
        if self._told >= 0 or not self._progress:
            change = self._subscription.poll()
            if change is not None:
                self._add(self._rows(change))
        frontier = self._subscription.frontier
        if self._progress and frontier > self._told:
            self._add(self._table(self._arrays(frontier, 1)))
            self._told = frontier
        return self.waiting > before

    def _add(self, table: pa.Table) -> None:
        self._tables.append(table)
        self.waiting += table.num_rows

    def _rows(self, change: Change) -> pa.Table:
        batch = change.batch
        *columns, weights = batch.columns
        count = batch.num_rows
        progress = [pa.array(np.zeros(count, np.bool_))] if self._progress else []
        table = self._table([pa.array(np.full(count, change.epoch, np.int64)), *progress, weights, *columns])
        gone = weights.to_numpy() < 0
        if not gone.any() or gone.all():
            return table
        # What goes comes before what comes: a client that keeps rows by key can apply them in this order.
        return table.take(pa.array(np.argsort(~gone, kind="stable")))

    def _arrays(self, epoch: int, count: int) -> list[pa.Array]:
        """`count` rows that say how far the subscription is."""
        epochs = pa.array(np.full(count, epoch, np.int64))
        progress = [pa.array(np.ones(count, np.bool_))] if self._progress else []
        types = [export_type(t) for t in self._subscription.schema.types]
        return [epochs, *progress, pa.nulls(count, pa.int64()), *[pa.nulls(count, t) for t in types]]

    def _table(self, arrays: list[pa.Array]) -> pa.Table:
        return pa.Table.from_arrays(arrays, names=[name for name, _ in self.columns])


def open_stream(work: Work, portal: Portal, s: st.Subscribe) -> None:
    """Begin a subscription; it is the portal's, and ends with it."""
    if len(work.streams) >= SUBSCRIPTIONS_MAX:
        raise LimitExceeded(
            f"a client may have {SUBSCRIPTIONS_MAX} subscriptions open (SUBSCRIPTIONS_MAX)",
            hint="CLOSE a cursor, or use another connection.",
        )
    stream = Stream(work.session.subscribe(s), s, portal.formats)
    prepared = portal.prepared
    portal.stream, portal.tag = stream, "SUBSCRIBE"
    work.streams.append(portal)
    if prepared.statement is s:
        check_announced(portal.announced, stream.types)
