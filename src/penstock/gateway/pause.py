"""A pause in what is sent: the statement goes on when something has happened, and holds no thread until then."""

from __future__ import annotations

from collections.abc import Callable


class Pause(bytes):
    """A portion of no bytes. Whoever sends goes on when `ready()`, when the time `until` (of the monotonic clock) has
    come, or when the statement is cancelled; what came before it is sent first.

    >>> pause = Pause(lambda: True)
    >>> len(pause), pause.ready(), pause.until
    (0, True, None)
    """

    ready: Callable[[], bool]
    until: float | None

    def __new__(cls, ready: Callable[[], bool], until: float | None = None) -> Pause:
        pause = super().__new__(cls)
        pause.ready = ready
        pause.until = until
        return pause
