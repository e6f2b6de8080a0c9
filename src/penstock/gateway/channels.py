"""LISTEN and NOTIFY: who listens to which channel, and what waits for each client.

A view is a channel, too: each epoch that changed it is told to those who listen to its name.
"""

from __future__ import annotations

import json
import threading
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from penstock.base.errors import InvalidOption
from penstock.base.limits import (
    CHANNEL_NAME_BYTES_MAX,
    NOTIFICATIONS_WAITING_MAX,
    NOTIFY_PAYLOAD_BYTES_MAX,
)
from penstock.engine.consolidate import consolidated
from penstock.gateway import backend as b
from penstock.sql.tokens import fold
from penstock.state.scattered import Rows, rows_of


class Mailbox:
    """Notifications that wait for one client. `wake` is called, in any thread, when there are some."""

    def __init__(
        self,
        process: int = 0,
        wake: Callable[[], None] = lambda: None,
        may_read: Callable[[str], bool] = lambda _: True,
    ) -> None:
        self.process = process
        self.may_read = may_read  # whether this client may know what happens to a relation
        self.overflowed = False
        self._wake = wake
        self._waiting: deque[bytes] = deque()

    def put(self, notification: bytes) -> None:
        if len(self._waiting) >= NOTIFICATIONS_WAITING_MAX:
            self.overflowed = True
        else:
            self._waiting.append(notification)
        self._wake()

    @property
    def is_empty(self) -> bool:
        return not self._waiting

    def take(self) -> bytes:
        """All that wait."""
        taken = []
        while self._waiting:
            try:
                taken.append(self._waiting.popleft())
            except IndexError:  # another thread has taken the last one
                break
        return b"".join(taken)


class Channels:
    """Who listens to what, for all clients of a server. It may be used from any thread.

    >>> channels, ann = Channels(), Mailbox(7)
    >>> channels.listen("news", ann)
    >>> channels.notify(9, "news", "hello")
    >>> ann.take()
    b'A\\x00\\x00\\x00\\x13\\x00\\x00\\x00\\tnews\\x00hello\\x00'
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._listeners: dict[str, tuple[Mailbox, ...]] = {}
        self._changed: deque[tuple[int, str, int]] = deque()  # epochs that are not on storage yet

    def listen(self, channel: str, mailbox: Mailbox) -> None:
        with self._lock:
            found = self._listeners.get(channel, ())
            if mailbox not in found:
                self._listeners[channel] = (*found, mailbox)

    def unlisten(self, channel: str | None, mailbox: Mailbox) -> None:
        """None: from all channels."""
        with self._lock:
            for name in list(self._listeners) if channel is None else [channel]:
                left = tuple(one for one in self._listeners.get(name, ()) if one is not mailbox)
                if left:
                    self._listeners[name] = left
                else:
                    self._listeners.pop(name, None)

    def listened_by(self, mailbox: Mailbox) -> list[str]:
        with self._lock:
            return sorted(name for name, found in self._listeners.items() if mailbox in found)

    def notify(self, process: int, channel: str, payload: str) -> None:
        for mailbox in self._listeners.get(channel, ()):
            mailbox.put(b.notification(process, channel, payload))

    # -- views -------------------------------------------------------------------------------

    def note(self, epoch: int, changes: Mapping[str, Rows]) -> None:
        """An epoch is visible; under the flow's lock."""
        for name, rows in changes.items():
            channels = [channel for channel in {fold(name), name} if channel in self._listeners]
            if channels:
                found = rows_of(rows)  # fetched only where somebody listens
                count = len(consolidated(found, tuple(c.type for c in found.columns)))
                self._changed += [(epoch, channel, count) for channel in channels if count]

    def tell(self, settled: int) -> None:
        """Epochs up to this one cannot be lost any more: tell of them, in order. In one thread at a time."""
        while self._changed and self._changed[0][0] <= settled:
            epoch, channel, count = self._changed.popleft()
            told = b.notification(0, channel, json.dumps({"epoch": epoch, "rows": count}))
            for mailbox in self._listeners.get(channel, ()):
                if mailbox.may_read(channel):
                    mailbox.put(told)


@dataclass(frozen=True)
class Letter:
    """What a statement asks of the channels, to be done when its transaction is committed: `payload` None is LISTEN,
    or UNLISTEN if `ends`."""

    channel: str | None
    payload: str | None = None
    ends: bool = False


class Outbox:
    """The letters of one client's transaction."""

    def __init__(self, channels: Channels, mailbox: Mailbox) -> None:
        self.mailbox = mailbox
        self._channels = channels
        self._letters: list[Letter] = []
        self._marks: list[tuple[str, int]] = []  # savepoints

    def add(self, letter: Letter) -> None:
        """The same notification twice in one transaction is one, as in Postgres."""
        if letter.payload is None or letter not in self._letters:
            self._letters.append(letter)

    def mark(self, savepoint: str) -> None:
        self._marks.append((savepoint, len(self._letters)))

    def go_back(self, savepoint: str) -> None:
        places = [i for i, (name, _) in enumerate(self._marks) if name == savepoint]
        if places:
            del self._letters[self._marks[places[-1]][1] :]
            del self._marks[places[-1] + 1 :]

    def send(self) -> None:
        """The transaction is committed."""
        letters, self._letters, self._marks = self._letters, [], []
        for letter in letters:
            if letter.payload is not None and letter.channel is not None:
                self._channels.notify(self.mailbox.process, letter.channel, letter.payload)
            elif letter.ends:
                self._channels.unlisten(letter.channel, self.mailbox)
            elif letter.channel is not None:
                self._channels.listen(letter.channel, self.mailbox)

    def forget(self) -> None:
        """The transaction is rolled back."""
        self._letters, self._marks = [], []

    def close(self) -> None:
        self.forget()
        self._channels.unlisten(None, self.mailbox)


def check_channel(name: str) -> str:
    """The name, if it can be one."""
    if len(name.encode()) > CHANNEL_NAME_BYTES_MAX:
        raise InvalidOption(f"channel name too long: it may have {CHANNEL_NAME_BYTES_MAX} bytes")
    return name


def check_payload(text: str) -> str:
    if len(text.encode()) > NOTIFY_PAYLOAD_BYTES_MAX:
        raise InvalidOption(
            f"payload string too long: it may have {NOTIFY_PAYLOAD_BYTES_MAX} bytes",
            hint="Put it into a table, and notify of its key.",
        )
    return text
