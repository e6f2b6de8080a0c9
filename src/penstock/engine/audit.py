"""The audit log: what happened to a flow as a whole, when, by whom, and with which figures.

It is for people who ask afterwards why something is as it is, so it has definitions, openings, checkpoints,
verifications and stops, not the changes of rows. It is bounded by count and by age. A flow on storage keeps it
there: entries go along with the next write of epochs, or by themselves a moment later, and those about
definitions in the same atomic write as the definition.
"""

from __future__ import annotations

import json
import threading
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

from penstock.base.limits import AUDIT_DETAIL_BYTES_MAX, AUDIT_ENTRIES_MAX, AUDIT_SECONDS_MAX
from penstock.commit import keys
from penstock.commit.alongside import Writes
from penstock.commit.history import now_us
from penstock.commit.truth import Truth

EVENTS = (
    "opened",  # a flow was opened for writing, after it had been closed; or it is new
    "recovered",  # the same, but the process before this one did not close it
    "closed",
    "create",  # a table or view
    "replace",
    "drop",
    "alter",
    "checkpoint",
    "branch",  # another flow was made of this one
    "restored",  # this flow was made of a checkpoint
    "branched",  # this flow was made of another one
    "verify",
    "role",  # somebody's rights changed
    "pause",  # changes are refused from now on
    "resume",
    "engine",  # epochs run elsewhere from now on
    "fenced",  # another process has taken the flow over
    "stopped",  # an error after which the flow does nothing more
)


@dataclass(frozen=True)
class AuditEntry:
    """One thing that happened."""

    number: int
    time_us: int
    epoch: int
    event: str
    actor: str | None  # the role that did it; None: the program that has the flow open
    session: int | None
    detail: dict[str, Any] = field(default_factory=dict)

    def encode(self) -> bytes:
        value = [self.time_us, self.epoch, self.event, self.actor, self.session, self.detail]
        return json.dumps(value, separators=(",", ":")).encode()

    @staticmethod
    def decode(number: int, data: bytes) -> AuditEntry:
        """What `encode` wrote.

        >>> entry = AuditEntry(7, 1_000_000, 3, "create", "ann", 2, {"name": "orders"})
        >>> AuditEntry.decode(7, entry.encode()) == entry
        True
        """
        return AuditEntry(number, *json.loads(data))


class AuditLog:
    """The newest entries, oldest first. Threads may call it at any time; it waits for nobody.

    >>> log = AuditLog(lambda: 1_000_000, lambda: 3)
    >>> log.record("create", kind="table", name="orders")
    >>> [(e.epoch, e.event, e.detail) for e in log.entries()]
    [(3, 'create', {'kind': 'table', 'name': 'orders'})]
    """

    def __init__(
        self,
        clock_us: Callable[[], int] = now_us,
        epoch: Callable[[], int] = lambda: 0,
        stored: Callable[[], Iterable[AuditEntry]] | None = None,
    ) -> None:
        self._clock_us = clock_us
        self._epoch = epoch
        self._stored = stored  # a reader's: what the writer has written
        self._lock = threading.Lock()
        self._entries: deque[AuditEntry] = deque()
        self._number = 0
        self._kept = False  # storage keeps it
        self._unwritten: list[AuditEntry] = []
        self._with_catalog: list[AuditEntry] = []  # for the write that makes a definition durable
        self._deletes: list[bytes] = []
        self._wake: Callable[[], None] = lambda: None

    def record(
        self,
        event: str,
        *,
        actor: str | None = None,
        session: int | None = None,
        with_catalog: bool = False,
        **figures: Any,
    ) -> None:
        """Take note of something. `with_catalog` is for definitions, inside `Flow._defining`."""
        assert event in EVENTS, event
        with self._lock:
            self._number += 1
            entry = AuditEntry(
                self._number, self._clock_us(), self._epoch(), event, actor, session, _bounded(figures)
            )
            self._entries.append(entry)
            if self._kept:
                (self._with_catalog if with_catalog else self._unwritten).append(entry)
            self._forget(entry.time_us)
            wake = self._wake if self._kept and not with_catalog else None
        if wake is not None:
            wake()

    def entries(self) -> list[AuditEntry]:
        """What is known, oldest first."""
        with self._lock:
            own = list(self._entries)
        return own if self._stored is None else [*self._stored(), *own]

    def _forget(self, now: int) -> None:
        """Drop what is too old or too much."""
        oldest_us = now - AUDIT_SECONDS_MAX * 1_000_000
        while len(self._entries) > AUDIT_ENTRIES_MAX or self._entries[0].time_us < oldest_us:
            gone = self._entries.popleft()
            if self._kept:
                self._deletes.append(keys.serial(keys.AUDIT, gone.number))

    # -- storage ---------------------------------------------------------------------------

    def load(self, entries: Iterable[AuditEntry]) -> None:
        """Begin with what storage has, and keep there what comes."""
        with self._lock:
            self._entries.extend(entries)
            self._number = self._entries[-1].number if self._entries else 0
            self._kept = True

    def on_record(self, wake: Callable[[], None]) -> None:
        """Call this when there is something to write."""
        self._wake = wake

    def take(self, with_catalog: bool = False) -> Writes:
        """What has to be written; it is not given out again unless it is put back."""
        if not self._unwritten and not with_catalog:
            return _NOTHING
        with self._lock:
            entries = self._unwritten
            self._unwritten = []
            if with_catalog:
                entries = sorted([*entries, *self._with_catalog], key=lambda e: e.number)
                self._with_catalog = []
            deletes, self._deletes = self._deletes, []
        puts = {keys.serial(keys.AUDIT, e.number): e.encode() for e in entries}
        return Writes(puts, tuple(k for k in deletes if k not in puts), tuple(entries))

    def put_back(self, writes: Writes) -> None:
        """The write failed: it goes along with the next one."""
        with self._lock:
            self._unwritten = [*writes.entries, *self._unwritten][-AUDIT_ENTRIES_MAX:]
            self._deletes = [*writes.deletes, *self._deletes]


_NOTHING = Writes()


def read_audit(truth: Truth) -> list[AuditEntry]:
    """The log as storage has it."""
    rows = truth.scan(keys.AUDIT, keys.after(keys.AUDIT))
    return [AuditEntry.decode(keys.number_of(key), value) for key, value in rows]


def first_entry(time_us: int, epoch: int, event: str, **figures: Any) -> dict[bytes, bytes]:
    """How the log of a flow begins that is made of another one."""
    entry = AuditEntry(1, time_us, epoch, event, None, None, _bounded(figures))
    return {keys.serial(keys.AUDIT, 1): entry.encode()}


def was_closed(entries: Iterable[AuditEntry]) -> bool:
    """Whether whoever wrote before has closed the flow; a flow that nobody has opened yet counts as closed."""
    last = [e.event for e in entries if e.event in ("opened", "recovered", "closed")]
    return not last or last[-1] == "closed"


def _bounded(figures: dict[str, Any]) -> dict[str, Any]:
    """Figures that are not too long for the log, and nothing that JSON does not know."""
    text = json.dumps(figures, default=str)
    if len(text) <= AUDIT_DETAIL_BYTES_MAX:
        bounded: dict[str, Any] = json.loads(text)
        return bounded
    share = AUDIT_DETAIL_BYTES_MAX // max(len(figures), 1)
    return {name[:60]: _cut(json.dumps(value, default=str), share) for name, value in figures.items()}


def _cut(text: str, length: int) -> str:
    return text if len(text) <= length else f"{text[:length]}..."
