"""The side of a session that can be stopped: by a cancel request, which comes from another thread."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from penstock.base.errors import QueryCanceled
from penstock.base.limits import INTERRUPT_AGAIN_SECONDS
from penstock.duck.connect import DuckError, translate
from penstock.engine.session_parts import SessionParts

USER_REQUEST = "canceling statement due to user request"


class CancelSide(SessionParts):
    """What stops a statement, and what lets it be stopped."""

    @property
    def is_cancelled(self) -> bool:
        return self._cancelled is not None

    def check_not_cancelled(self) -> None:
        """Raise if somebody has cancelled what this session does."""
        if self._cancelled is not None:
            raise QueryCanceled(self._cancelled)

    @contextmanager
    def _working(self, interrupt: Callable[[], None], again: bool = True) -> Iterator[None]:
        """What is done in the context can be stopped by `interrupt`; `again`: if it does not stop, more than once."""
        with self._cancel_lock:
            if self._cancelled is not None:
                raise QueryCanceled(self._cancelled)
            self._interrupt, self._interrupt_again = interrupt, again
        try:
            yield
        except QueryCanceled:
            if self._cancelled is not None:
                raise QueryCanceled(self._cancelled) from None
            raise
        except DuckError as error:  # it was stopped in the middle of what we do around a query
            if self._cancelled is not None and isinstance(translate(error, ""), QueryCanceled):
                raise QueryCanceled(self._cancelled) from None
            raise
        finally:
            with self._cancel_lock:
                self._interrupt = None

    @contextmanager
    def working(self, interrupt: Callable[[], None]) -> Iterator[None]:
        """Around what somebody else does for a statement of this session: `interrupt` stops it."""
        with self._working(interrupt):
            yield

    def not_cancelled(self) -> None:
        """A new piece of work begins: what was cancelled was the one before it."""
        with self._cancel_lock:
            self._cancelled = None

    def cancel(self, why: str = USER_REQUEST) -> None:
        """Stop the statement that runs, from another thread: it raises QueryCanceled if DuckDB works for it or
        it waits for others; applying an epoch is never stopped half-way."""
        with self._cancel_lock:
            self._cancelled = why
        self._stop()
        self.on_cancel()

    def _stop(self, after_s: float = INTERRUPT_AGAIN_SECONDS) -> None:
        """Interrupt what works for a statement that is cancelled, again and again: DuckDB forgets an interrupt that
        comes just before a query begins."""
        with self._cancel_lock:
            if self._cancelled is None or self._interrupt is None:
                return
            self._interrupt()
            if not self._interrupt_again:
                return
        timer = threading.Timer(after_s, self._stop, [after_s * 2])
        timer.daemon = True
        timer.start()
