"""What must happen whole: a Ctrl-C that comes in the middle of it is heard when it is done.

Python runs the handler of SIGINT between any two steps of the main thread, and the usual one raises
KeyboardInterrupt there: half of an epoch would have been applied. While a shield is up the signal is remembered; when
it comes down the handler that was there before is called, and raises what it would have raised.

Where the main thread does something else, or SIGINT is ignored or left to the operating system, a shield does nothing.
"""

from __future__ import annotations

import _signal  # type: ignore[import-not-found]  # signal.signal takes ten times as long, over its enums
import os
import threading
from _thread import get_ident
from collections.abc import Callable
from signal import SIGINT
from types import FrameType
from typing import Any, TypeVar

T = TypeVar("T")
Handler = Callable[[int, FrameType | None], Any]

_NUMBER = int(SIGINT)
_main_thread = threading.main_thread().ident  # to ask threading each time takes longer than all the rest


def _forked() -> None:
    """The thread that forks is the main one of the child."""
    global _main_thread
    _main_thread = get_ident()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forked)


class Undivided:
    """Around what must not be interrupted. Shields may stand inside each other; each is used once.

    >>> import signal
    >>> before = signal.signal(signal.SIGINT, lambda *_: print("now"))
    >>> with Undivided():
    ...     signal.raise_signal(signal.SIGINT)
    ...     print("whole")
    whole
    now
    >>> _ = signal.signal(signal.SIGINT, before)
    """

    # Of the class until they are set: every tick makes a shield, and most shields set but one.
    _before: Handler | None = None  # None: there is nothing to be held off
    _noted = False
    _open = False  # what comes now is handled at once
    _frame: FrameType | None = None
    _raised: BaseException | None = None

    def __enter__(self) -> Undivided:
        if get_ident() == _main_thread:
            before = _signal.getsignal(_NUMBER)
            if callable(before):
                try:
                    _signal.signal(_NUMBER, self._on_signal)
                    self._before = before
                except ValueError:  # an interpreter inside another one hears no signals
                    pass
        return self

    def __exit__(self, *_: object) -> None:
        before = self._before
        if before is not None:
            _signal.signal(_NUMBER, before)
            if self._noted:
                before(_NUMBER, self._frame)

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        if not self._open:
            self._noted, self._frame = True, frame
            return
        assert self._before is not None
        try:
            self._before(number, frame)
        except BaseException as error:
            self._raised = error
            raise

    def stoppable(self, work: Callable[..., T], *args: Any) -> T:
        """Do something that a signal may stop, with the shield up before and after it. What the handler raised is
        raised, also where `work` has made another error of it, or nothing."""
        try:
            # A store and no call: between it and the end of the `try` no signal can slip by.
            self._open = True
            result = work(*args)
        except BaseException:
            self._open = False
            if self._raised is None:
                raise
        finally:
            self._open = False
        if self._raised is not None:
            raise self._raised from None
        return result


def interruptible(work: Callable[[], T]) -> T:
    """Do something long that leaves no trace if it is stopped, inside of what must happen whole.

    >>> with Undivided():
    ...     interruptible(lambda: 7)
    7
    """
    shields = _up()
    try:
        for shield in shields:
            shield._open = True
        for shield in shields:  # what has come before now counts as well: why begin?
            if shield._noted:
                shield._noted = False
                shield._on_signal(_NUMBER, shield._frame)
        return work()
    finally:
        for shield in shields:
            shield._open = False
        if shields:
            _stay(shields[0])


def _up() -> list[Undivided]:
    """The shields that are up in this thread, the innermost first."""
    found: list[Undivided] = []
    if get_ident() == _main_thread:
        handler = _signal.getsignal(_NUMBER)
        while isinstance(shield := getattr(handler, "__self__", None), Undivided):
            found.append(shield)
            handler = shield._before
    return found


def _stay(shield: Undivided) -> None:
    """Keep a shield up where somebody has set another handler (a Spark session that starts does): it is for later."""
    handler = _signal.getsignal(_NUMBER)
    if callable(handler) and getattr(handler, "__self__", None) is not shield:
        shield._before = handler
        _signal.signal(_NUMBER, shield._on_signal)
