"""statement_timeout: a statement that takes longer is cancelled."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

WHY = "canceling statement due to statement timeout"


@contextmanager
def alarm(after_ms: int, cancel: Callable[[str], None]) -> Iterator[None]:
    """Cancel what runs in the context if it lasts longer; 0 is for ever."""
    if not after_ms:
        yield
        return
    timer = threading.Timer(after_ms / 1000, cancel, [WHY])
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
