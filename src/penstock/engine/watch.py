"""Watches: the changes of a view as they are committed, for one reader."""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass

import pyarrow as pa

from penstock.base.errors import FlowClosed, WatchOverflow
from penstock.base.limits import WATCH_QUEUE_EPOCHS_MAX
from penstock.engine.consolidate import consolidated
from penstock.engine.ingest import WEIGHT
from penstock.zset.interchange import export
from penstock.zset.types import Schema
from penstock.zset.zset import ZSet


@dataclass(frozen=True)
class Change:
    """One epoch's change of a view: a RecordBatch of the rows with their weights in `_weight`."""

    epoch: int
    batch: pa.RecordBatch


def as_change(schema: Schema, epoch: int, rows: ZSet) -> Change:
    """An epoch's delta as it is shown."""
    rows = consolidated(rows, schema.types)
    arrays = [export(c) for c in rows.columns] + [pa.array(rows.weights)]
    return Change(epoch, pa.record_batch(arrays, names=[*schema.names, WEIGHT]))


class Watch:
    """Iterate over it (for, or async for). It ends when it, the view or the flow is closed.

    The queue is bounded: a watch that is not read fails with WatchOverflow instead of growing.
    """

    def __init__(self, view: str, schema: Schema, on_close: Callable[[Watch], None]) -> None:
        self.view = view
        self._schema = schema
        self._on_close = on_close
        self._queue: deque[tuple[int, ZSet]] = deque()
        self._ready = threading.Condition()
        self._closed = False
        self._overflow = False
        self._wakers: set[tuple[asyncio.AbstractEventLoop, asyncio.Event]] = set()

    # -- the flow's side -------------------------------------------------------------------

    def push(self, epoch: int, rows: ZSet) -> None:
        with self._ready:
            if self._closed or self._overflow:
                return
            if len(self._queue) >= WATCH_QUEUE_EPOCHS_MAX:
                self._overflow = True
            else:
                self._queue.append((epoch, rows))
            self._wake()

    def _wake(self) -> None:
        self._ready.notify_all()
        for loop, event in list(self._wakers):
            try:
                loop.call_soon_threadsafe(event.set)
            except RuntimeError:  # the reader's event loop has ended
                self._wakers.discard((loop, event))

    # -- the reader's side -----------------------------------------------------------------

    def close(self) -> None:
        """End the watch: whoever waits on it stops."""
        with self._ready:
            if self._closed:
                return
            self._closed = True
            self._wake()
        self._on_close(self)

    def poll(self, timeout: float | None = 0) -> Change | None:
        """The next change; None if there is none within the timeout (in seconds; None waits for ever)."""
        with self._ready:
            self._ready.wait_for(lambda: self._queue or self._closed or self._overflow, timeout)
            taken = self._take()
        return None if taken is None else as_change(self._schema, *taken)

    def _take(self) -> tuple[int, ZSet] | None:
        if self._queue:
            return self._queue.popleft()
        if self._overflow:
            raise WatchOverflow(
                f'the watch on "{self.view}" was not read for {WATCH_QUEUE_EPOCHS_MAX} epochs',
                hint="Read it faster, or open a new watch and begin from a snapshot.",
            )
        return None

    def __iter__(self) -> Iterator[Change]:
        while True:
            change = self.poll(None)
            if change is not None:
                if change.batch.num_rows:
                    yield change
            elif self._closed:
                return

    async def __aiter__(self) -> AsyncIterator[Change]:
        event = asyncio.Event()
        waker = (asyncio.get_running_loop(), event)
        with self._ready:
            self._wakers.add(waker)
        try:
            while True:
                event.clear()
                change = self.poll(0)
                if change is not None:
                    if change.batch.num_rows:
                        yield change
                    continue
                if self._closed:
                    return
                await event.wait()
        finally:
            with self._ready:
                self._wakers.discard(waker)

    def __enter__(self) -> Watch:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def check_open(self) -> None:
        if self._closed:
            raise FlowClosed(f'the watch on "{self.view}" is closed')
