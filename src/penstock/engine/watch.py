"""Watches: the changes of a view as they are committed, for one reader."""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pyarrow as pa

from penstock.base.errors import FlowClosed, WatchOverflow
from penstock.base.limits import WATCH_QUEUE_EPOCHS_MAX, WATCH_QUEUE_ROWS_MAX
from penstock.engine.consolidate import consolidated
from penstock.engine.plain_dicts import WEIGHT
from penstock.zset.export_few import dicts_of_few, export_few
from penstock.zset.few import Few
from penstock.zset.interchange import export, export_weights
from penstock.zset.types import Schema
from penstock.zset.zset import ZSet


class Change:
    """One epoch's change of a view: a RecordBatch of the rows with their weights in `_weight`."""

    __slots__ = ("_batch", "_rows", "_schema", "epoch", "num_rows")

    def __init__(self, schema: Schema, epoch: int, rows: ZSet) -> None:
        self.epoch = epoch
        self.num_rows = (
            len(rows.rows) if rows.__class__ is Few else len(rows)
        )  # that came or went: the batch's
        self._schema = schema
        self._rows = rows
        self._batch: pa.RecordBatch | None = None

    @property
    def batch(self) -> pa.RecordBatch:
        # Made when somebody looks: rows never change, so it does not matter when that is.
        if self._batch is None:
            self._batch = _record_batch(self._schema, self._rows)
        return self._batch

    def to_pylist(self) -> list[dict[str, Any]]:
        """The rows as dicts: what `batch.to_pylist()` gives. Of a few rows no batch is made for it."""
        rows = self._rows
        few = dicts_of_few(rows, self._schema.names, WEIGHT) if isinstance(rows, Few) else None
        return self.batch.to_pylist() if few is None else few

    def __repr__(self) -> str:
        return f"Change(epoch={self.epoch}, num_rows={self.num_rows})"


def as_change(schema: Schema, epoch: int, rows: ZSet) -> Change:
    """An epoch's delta as it is shown."""
    return Change(schema, epoch, consolidated(rows, schema.types))


def _record_batch(schema: Schema, rows: ZSet) -> pa.RecordBatch:
    arrays = export_few(rows) if isinstance(rows, Few) else [export(c) for c in rows.columns]
    arrays.append(export_weights(rows.weights))
    return pa.RecordBatch.from_arrays(arrays, names=[*schema.names, WEIGHT])


class Watch:
    """Iterate over it (for, or async for). It ends when it, the view or the flow is closed. A wait that is cancelled,
    such as anext() in asyncio.wait_for, has taken nothing: wait again.

    The queue is bounded: a watch that is not read fails with WatchOverflow instead of growing.
    """

    def __init__(
        self, view: str, schema: Schema, on_close: Callable[[Watch], None], relation: int = 0, epoch: int = 0
    ) -> None:
        self.view = view
        self.relation = relation  # its id: a name may come to mean another one
        self.reached = epoch  # every change up to this epoch has been put into the queue
        self.ended: str | None = None  # why somebody else than the reader has closed it
        self._schema = schema
        self._on_close = on_close
        self._rows = 0  # in the queue
        self._queue: deque[tuple[int, ZSet, int]] = deque()  # epoch, rows, and how many they are
        self._lock = threading.RLock()
        self._ready = threading.Condition(self._lock)
        self._sleepers = 0  # those who wait for it: mostly nobody, and then nobody has to be woken
        self._closed = False
        self._overflow = False
        self._wakers: set[tuple[asyncio.AbstractEventLoop, asyncio.Event]] = set()

    # -- the flow's side -------------------------------------------------------------------

    def push(self, epoch: int, rows: ZSet | None) -> None:
        """An epoch has been committed; None: it did not change the view."""
        with self._lock:
            if self._closed or self._overflow:
                return
            self.reached = epoch
            if rows is None:
                return
            queue, count = self._queue, len(rows.rows) if rows.__class__ is Few else len(rows)
            # One change alone is always taken: it is as large as the epoch that made it, and no larger.
            if queue and (len(queue) >= WATCH_QUEUE_EPOCHS_MAX or self._rows + count > WATCH_QUEUE_ROWS_MAX):
                self._overflow = True
                queue.clear()  # it has a gap now, so the rest of it is of no use to anybody
                self._rows = 0
            else:
                queue.append((epoch, rows, count))
                self._rows += count
            if self._sleepers or self._wakers:
                self._wake()

    def _wake(self) -> None:
        if self._sleepers:
            self._ready.notify_all()
        for loop, event in list(self._wakers):
            try:
                loop.call_soon_threadsafe(event.set)
            except RuntimeError:  # the reader's event loop has ended
                self._wakers.discard((loop, event))

    # -- the reader's side -----------------------------------------------------------------

    def close(self, why: str | None = None) -> None:
        """End the watch: whoever waits on it stops. `why` is for those who did not do it themselves."""
        with self._lock:
            if self._closed:
                return
            self._closed = True
            self.ended = why
            self._wake()
        self._on_close(self)

    @property
    def next_epoch(self) -> int | None:
        """The epoch of the next change in the queue; None if there is none."""
        try:
            return self._queue[0][0]
        except IndexError:
            return None

    @property
    def is_over(self) -> bool:
        """Whether nothing more will be put into the queue."""
        return self._closed or self._overflow

    def take(self, up_to: int) -> tuple[Change | None, int]:
        """The next change, if its epoch is not beyond `up_to`; and the epoch up to which all has been taken."""
        with self._lock:
            if self._queue and self._queue[0][0] > up_to:
                return None, min(self._queue[0][0] - 1, up_to)
            taken = self._take()
            if taken is None:
                return None, min(self.reached, up_to)
        return as_change(self._schema, taken[0], taken[1]), taken[0]

    def poll(self, timeout: float | None = 0) -> Change | None:
        """The next change; None if there is none within the timeout (in seconds; None waits for ever)."""
        with self._lock:
            if not (self._queue or self._closed or self._overflow):
                self._sleep(timeout)
            taken = self._take()
        return None if taken is None else as_change(self._schema, taken[0], taken[1])

    def _sleep(self, timeout: float | None) -> None:
        self._sleepers += 1
        try:
            self._ready.wait_for(lambda: self._queue or self._closed or self._overflow, timeout)
        finally:
            self._sleepers -= 1

    def _take(self) -> tuple[int, ZSet, int] | None:
        if self._queue:
            taken = self._queue.popleft()
            self._rows -= taken[2]
            return taken
        if self._overflow:
            raise WatchOverflow(
                f'what changed in "{self.view}" was not read fast enough: its queue has room for '
                f"{WATCH_QUEUE_EPOCHS_MAX:,} epochs (WATCH_QUEUE_EPOCHS_MAX) and {WATCH_QUEUE_ROWS_MAX:,} rows "
                "(WATCH_QUEUE_ROWS_MAX)",
                hint="Read faster, and begin again from a snapshot or from the last epoch that was read.",
            )
        return None

    def __iter__(self) -> Iterator[Change]:
        while True:
            change = self.poll(None)
            if change is not None:
                if change.num_rows:
                    yield change
            elif self._closed:
                return

    def __aiter__(self) -> AsyncIterator[Change]:
        return _Changes(self)

    @contextmanager
    def waking(self) -> Iterator[asyncio.Event]:
        """An event that is set, within the running event loop, whenever something has happened here."""
        waker = (asyncio.get_running_loop(), asyncio.Event())
        with self._lock:
            self._wakers.add(waker)
        try:
            yield waker[1]
        finally:
            with self._lock:
                self._wakers.discard(waker)

    def __enter__(self) -> Watch:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def check_open(self) -> None:
        if self._closed:
            raise FlowClosed(f'the watch on "{self.view}" is closed')


class _Changes:
    """`async for` over a watch. No generator: one is over for good when a call of it is cancelled, as wait_for does
    when its time is up. Here a cancelled call has taken nothing, and the next one goes on."""

    def __init__(self, watch: Watch) -> None:
        self._watch = watch

    def __aiter__(self) -> _Changes:
        return self

    async def __anext__(self) -> Change:
        watch = self._watch
        while True:
            change = self._next()
            if change is not None:
                return change
            with watch.waking() as event:
                # Only now would a change wake us: it may have come between.
                if watch.next_epoch is None and not watch.is_over:
                    await event.wait()

    def _next(self) -> Change | None:
        """The next change that has rows. There is no await between taking it and handing it over."""
        watch = self._watch
        while True:
            over = watch.is_over  # asked first: what is put in before the end is still read
            change = watch.poll(0)
            if change is None:
                if over:
                    raise StopAsyncIteration
                return None
            if change.num_rows:
                return change
