"""What the sides of a session have in common. `Session` puts them together and sets what is named here."""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING

from penstock.engine.at_once import AtOnce
from penstock.engine.readers import Readers
from penstock.engine.rights import Rights
from penstock.engine.transaction import Mark, Transaction
from penstock.sql import statements as st

if TYPE_CHECKING:
    from penstock.engine.flow import Flow


class SessionParts(ABC):
    """Not to be made by itself: `Session` is one."""

    role: str | None  # None: the program that has the flow open, which may do everything
    statements: int
    transaction: Transaction | None
    aborted: bool  # a statement of the open transaction has failed
    isolation: str  # of transactions that do not say
    on_cancel: Callable[[], None]  # wakes whoever waits for us
    _flow: Flow
    _rights: Rights
    _readers: Readers | None  # None: the flow's own, under its lock
    _at_once: AtOnce
    _arrived_us: int  # when the change came that is being made
    _level: str  # of the transaction that is open
    _savepoints: list[tuple[str, Mark]]
    _cancel_lock: threading.Lock
    _cancelled: str | None  # why, if it is
    _interrupt: Callable[[], None] | None  # of the connection that works for us just now
    _interrupt_again: bool  # whether it may be called twice

    @abstractmethod
    def _begin_statement(self, s: st.Statement | None, ends: bool = False) -> None:
        """Raise if a statement may not be run."""

    @abstractmethod
    def _running(self, kind: str) -> AbstractContextManager[None]:
        """Around the work for such a statement."""
