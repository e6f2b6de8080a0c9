"""The server's side of the Postgres protocol, version 3, without I/O.

Bytes go in with `receive`, messages come out of `next_message`; what is to be sent are bytes that the functions of
backend.py make, and `sent` says which of them change the state. Whatever bytes come, they are read or ProtocolError
is raised, never anything else; after it the connection is closed.

    state       meaning                                              left by
    STARTUP     the first packet, or another after SSLRequest        AUTHENTICATION, CLOSED
    AUTH        the client is proving who it is                      READY
    READY       statements are read                                  COPY_IN, SKIPPING, CLOSED
    SKIPPING    an extended query failed: all is dropped until Sync  READY
    COPY_IN     rows are read                                        READY, SKIPPING
    CLOSED      nothing is read any more
"""

from __future__ import annotations

import struct
from collections import deque
from enum import Enum

from penstock.base.limits import (
    MESSAGE_BYTES_MAX,
    REPEATED_MESSAGE_BYTES_MAX,
    REPEATED_MESSAGES_MAX,
    STARTUP_BYTES_MAX,
)
from penstock.gateway import messages as m
from penstock.gateway.errors import ProtocolError

_LENGTH = struct.Struct(">i").unpack_from


class State(Enum):
    STARTUP = "the first packet is awaited"
    AUTH = "authentication is going on"
    READY = "statements are read"
    SKIPPING = "everything until Sync is dropped"
    COPY_IN = "rows are read"
    CLOSED = "the connection is closed"


_EXTENDED = (m.Parse, m.Bind, m.Describe, m.Execute, m.Close, m.Flush, m.Sync)
_COPYING = (m.CopyData, m.CopyDone, m.CopyFail)

# What may come in each state, and what is read and dropped there. Everything else is an error.
ACCEPTED: dict[State, tuple[type[m.Message], ...]] = {
    State.STARTUP: (m.SslRequest, m.GssRequest, m.CancelRequest, m.Startup),
    State.AUTH: (m.Password, m.Terminate),
    State.READY: (m.Query, m.FunctionCall, m.Terminate, *_EXTENDED),
    State.SKIPPING: (m.Sync, m.Terminate),
    State.COPY_IN: (*_COPYING, m.Terminate),
}
DROPPED: dict[State, tuple[type[m.Message], ...]] = {
    State.STARTUP: (),
    State.AUTH: (),
    State.READY: _COPYING,  # of a COPY that has failed: the client did not know yet
    State.SKIPPING: (m.Query, m.FunctionCall, *_EXTENDED, *_COPYING),
    State.COPY_IN: (m.Flush, m.Sync),
}
_SETS = {state: (frozenset(ACCEPTED.get(state, ())), frozenset(DROPPED.get(state, ()))) for state in State}
_EXTENDED_SET = frozenset(_EXTENDED)
_OFTEN_ALIKE = frozenset(
    b"QPBDECSH"
)  # those that come with the same bytes again and again, and hold no secrets
_BIND = ord("B")


class Connection:
    """One client's bytes. `receive` may be called in another thread than the rest.

    >>> connection = Connection()
    >>> connection.receive(struct.pack(">ii", 8, m.SSL_REQUEST))
    >>> connection.next_message(), connection.next_message()
    (SslRequest(), None)
    """

    def __init__(self) -> None:
        self._came: deque[bytes] = deque()
        self._buffer: bytes | bytearray = b""  # a bytearray while a message comes in pieces
        self._at = 0  # what has been read of the buffer
        self._known: dict[bytes, m.Message] = {}  # messages that came before, by their bytes
        self.state = State.STARTUP
        self._extended = False  # the last message was one of an extended query

    @property
    def state(self) -> State:
        return self._state

    @state.setter
    def state(self, state: State) -> None:
        # Looked up here, because each message asks for them.
        self._state = state
        self._accepted, self._dropped = _SETS[state]
        self._head = 4 if state is State.STARTUP else 5
        # Strangers are given little memory.
        before = state is State.STARTUP or state is State.AUTH
        self._longest = STARTUP_BYTES_MAX if before else MESSAGE_BYTES_MAX

    def receive(self, data: bytes) -> None:
        self._came.append(data)

    @property
    def waiting_bytes(self) -> int:
        """How much has come and has not been read."""
        return len(self._buffer) - self._at + sum(len(piece) for piece in list(self._came))

    @property
    def is_idle(self) -> bool:
        """Whether the client is between two queries."""
        return self.state is State.READY and not self._extended

    def next_message(self) -> m.Message | None:
        """The next message that counts; None until more bytes come."""
        if not self._buffer and not self._came:
            return None
        try:
            while self._state is not State.CLOSED:
                message = self._read()
                if message is None:
                    return None
                kind = type(message)
                if kind in self._accepted:
                    self._follow(kind)
                    return message
                if kind not in self._dropped:
                    raise ProtocolError(
                        f"the message {kind.__name__} does not belong here: {self.state.value}"
                    )
        except ProtocolError:
            self.close()
            raise
        return None

    def _read(self) -> m.Message | None:
        if self._came:
            self._gather()
        buffer, at, head = self._buffer, self._at, self._head
        size, body = len(buffer), at + head
        if size < body:
            return None
        (length,) = _LENGTH(buffer, body - 4)
        if not 4 <= length <= self._longest:
            raise ProtocolError(
                f"a message says that it has {length} bytes: there may be 4 to {self._longest}"
            )
        end = body - 4 + length
        if size < end:
            return None
        if end == size:
            self._buffer, self._at = b"", 0  # all of it has been read
        else:
            self._at = end
        if head == 4:
            return m.read_startup(bytes(buffer[body:end]))
        kind = buffer[at]
        if length > REPEATED_MESSAGE_BYTES_MAX or kind not in _OFTEN_ALIKE:
            return m.read_message(bytes(buffer[at : at + 1]), bytes(buffer[body:end]))
        data = bytes(buffer[at:end])
        known = self._known.get(data)
        if known is not None:
            return known
        if kind == _BIND and (message := m.read_bind(data[5:])).values:
            return message
        return self._learn(data)

    def _learn(self, data: bytes) -> m.Message:
        """A message that will come again as likely as not: drivers say the same for each statement but for its
        values, and those are in Bind."""
        message = m.read_message(data[:1], data[5:])
        if len(self._known) >= REPEATED_MESSAGES_MAX:
            self._known.clear()
        self._known[data] = message
        return message

    def sync_follows(self) -> bool:
        """Whether Sync has come and nothing that runs stands before it."""
        if self._came:
            self._gather()
        buffer, at = self._buffer, self._at
        while len(buffer) >= at + 5:
            kind, length = buffer[at], _LENGTH(buffer, at + 1)[0]
            if kind not in b"CH" or length < 4:  # neither Close nor Flush
                return kind == ord("S")
            at += 1 + length
        return False

    def rest(self, bytes_max: int) -> bytes:
        """What has come and has not been read, if it is as short as that; else nothing."""
        if self._came:
            self._gather()
        return bytes(self._buffer[self._at :]) if len(self._buffer) - self._at <= bytes_max else b""

    def rest_is_read(self) -> None:
        """What `rest` gave was messages of an extended query up to a Sync, and is answered."""
        self._buffer, self._at, self._extended = b"", 0, False

    def _gather(self) -> None:
        """Put what has come to what is left, and let go of what has been read."""
        left = self._buffer
        if not left:  # as a rule: whole messages came, and nothing of them is copied
            self._buffer = self._came.popleft()
        else:
            if isinstance(left, bytes):
                left = self._buffer = bytearray(left[self._at :])
            else:
                del left[: self._at]
            while self._came:
                left += self._came.popleft()
        self._at = 0

    def _follow(self, kind: type[m.Message]) -> None:
        if kind is m.Sync:
            if self._state is not State.READY:
                self.state = State.READY
            self._extended = False
        elif kind is m.Terminate or kind is m.CancelRequest:
            self.state = State.CLOSED
        elif self._state is State.READY and kind is not m.Flush:  # libpq sends one after Sync, too
            self._extended = kind in _EXTENDED_SET

    # -- what the server did ---------------------------------------------------------------

    def asked_for_password(self) -> None:
        self.state = State.AUTH

    def accepted(self) -> None:
        """The client is who it says: ReadyForQuery follows."""
        self.state = State.READY

    def copying_in(self) -> None:
        """CopyInResponse was sent."""
        self.state = State.COPY_IN

    def copied(self) -> None:
        """The COPY has come to its end."""
        self.state = State.READY

    def failed(self) -> bool:
        """ErrorResponse was sent. Whether ReadyForQuery is to follow: not in an extended query, which ends
        with Sync."""
        if self._state not in (State.READY, State.COPY_IN):
            return False
        self.state = State.SKIPPING if self._extended else State.READY
        return not self._extended

    def to_be_encrypted(self) -> None:
        """TLS begins: what came in plain text before it cannot be trusted, and there must be none."""
        if self.waiting_bytes:
            self.close()
            raise ProtocolError("bytes came in plain text after SSLRequest")

    def close(self) -> None:
        self.state = State.CLOSED
        self._buffer = b""
        self._at = 0
        self._came.clear()
