"""Sinks: a function that is handed each epoch's delta of a view, in order, as a Spark DataFrame.

A sink is called after the epoch is committed. If it fails, the epoch stays committed, the error comes out of the
tick, and the next commit (or `Sink.deliver`) hands the same epoch over again: at least once, in order. A writer that
stores the epoch with the rows makes that exactly once, and says after a restart where to go on: `from_epoch`.

A sink ends when its view is dropped or replaced, or when it has failed for so long that history has forgotten what it
has not taken. The flow goes on.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

from penstock.base.errors import HistoryGone, PenstockError, SinkFailed
from penstock.run.spark.connectors import missing_connector

Writer = Callable[[Any, int], object]
Deltas = Callable[[int, int], list[tuple[int, Any]]]  # epochs after the first up to the last, as DataFrames


class Sink:
    """One view's deltas on their way to a writer. `epoch` is the last one that it has taken."""

    def __init__(
        self,
        view: str,
        writer: Writer,
        epoch: int,
        deltas: Deltas,
        newest: Callable[[], int],
        on_close: Callable[[Sink], None],
    ) -> None:
        self.view = view
        self.epoch = epoch
        self.ended: str | None = (
            None  # why it is handed nothing more, if somebody else than its owner ended it
        )
        self._writer = writer
        self._deltas = deltas
        self._newest = newest
        self._on_close = on_close
        self._lock = threading.Lock()
        self._busy = threading.local()

    def deliver(self) -> int:
        """Hand over what is new; the last epoch that the writer has taken."""
        if getattr(self._busy, "now", False):
            return self.epoch  # the writer itself has made an epoch: it comes after this one
        with self._lock:
            if self.ended is not None:
                raise SinkFailed(f'the sink of "{self.view}" has ended: {self.ended}')
            self._busy.now = True
            try:
                newest = self._newest()
                for epoch, frame in self._new_deltas(newest):
                    self._hand_over(epoch, frame)
                self.epoch = newest
            finally:
                self._busy.now = False
            return self.epoch

    def _new_deltas(self, newest: int) -> list[tuple[int, Any]]:
        if newest <= self.epoch:
            return []
        try:
            return self._deltas(self.epoch, newest)
        except HistoryGone as error:
            self.end("history no longer has the epochs that it has not taken")
            raise SinkFailed(
                f'the sink of "{self.view}" ends: {error.message}',
                hint="The epochs are committed. Write a snapshot of the view, and begin again after its epoch.",
            ) from error

    def _hand_over(self, epoch: int, frame: Any) -> None:
        try:
            self._writer(frame, epoch)
        except PenstockError:
            raise
        except Exception as error:
            raise SinkFailed(
                f'the sink of "{self.view}" failed at epoch {epoch}: {error}',
                hint=missing_connector(str(error))
                or "The epoch is committed. It is handed over again with the next one, or by Sink.deliver().",
            ) from error
        self.epoch = epoch

    def end(self, why: str) -> None:
        """Hand over nothing more, and say why to those who ask."""
        self.ended = why
        self._on_close(self)

    def close(self) -> None:
        """Hand over nothing more."""
        self._on_close(self)
