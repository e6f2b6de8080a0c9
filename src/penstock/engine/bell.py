"""A bell: tells whoever listens that an epoch is visible, that epochs are on storage, or that the flow has ended."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping

from penstock.state.scattered import Rows

Listener = Callable[[int, Mapping[str, Rows]], None]


class Bell:
    """Listeners are called with the epoch and the changes that it made (none if it is about something else), in the
    thread that rings and perhaps under the flow's lock: they take note and return.

    >>> bell, heard = Bell(), []
    >>> silence = bell.listen(lambda epoch, changes: heard.append(epoch))
    >>> bell.ring(5)
    >>> silence()
    >>> bell.ring(6)
    >>> heard
    [5]
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._listeners: tuple[Listener, ...] = ()
        self.is_heard = False  # whether somebody listens

    def listen(self, listener: Listener) -> Callable[[], None]:
        """Call this listener from now on, until what is given back is called."""
        with self._lock:
            self._listeners = (*self._listeners, listener)
            self.is_heard = True
        return lambda: self._forget(listener)

    def _forget(self, listener: Listener) -> None:
        with self._lock:
            self._listeners = tuple(one for one in self._listeners if one is not listener)
            self.is_heard = bool(self._listeners)

    def ring(self, epoch: int, changes: Mapping[str, Rows] | None = None) -> None:
        for listener in self._listeners:
            listener(epoch, changes or {})
