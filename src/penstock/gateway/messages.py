"""What clients send: one frozen dataclass for each message, and how its bytes are read.

Whatever the bytes are, `read_startup` and `read_message` give a message or raise ProtocolError.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import dataclass

from penstock.gateway.errors import ProtocolError

SSL_REQUEST, GSS_REQUEST, CANCEL_REQUEST, PROTOCOL_MAJOR = 80877103, 80877104, 80877102, 3


class Message:
    """Anything that a client can send."""

    __slots__ = ()


@dataclass(frozen=True)
class SslRequest(Message):
    pass


@dataclass(frozen=True)
class GssRequest(Message):
    pass


@dataclass(frozen=True)
class CancelRequest(Message):
    process: int
    secret: int


@dataclass(frozen=True)
class Startup(Message):
    """`minor` is the protocol's, 3.`minor`; `parameters` are user, database, settings."""

    minor: int
    parameters: dict[str, str]


@dataclass(frozen=True)
class Password(Message):
    """The answer to a request for authentication; how it is read depends on the method."""

    data: bytes


@dataclass(frozen=True)
class Query(Message):
    sql: str


@dataclass(frozen=True)
class Parse(Message):
    name: str
    sql: str
    oids: tuple[int, ...]


@dataclass(frozen=True)
class Bind(Message):
    portal: str
    statement: str
    formats: tuple[int, ...]
    values: tuple[bytes | None, ...]
    result_formats: tuple[int, ...]


@dataclass(frozen=True)
class Describe(Message):
    """`kind` is "S" for a statement, "P" for a portal."""

    kind: str
    name: str


@dataclass(frozen=True)
class Execute(Message):
    """`rows_max` 0: all of them."""

    portal: str
    rows_max: int


@dataclass(frozen=True)
class Close(Message):
    kind: str
    name: str


@dataclass(frozen=True)
class Flush(Message):
    pass


@dataclass(frozen=True)
class Sync(Message):
    pass


@dataclass(frozen=True)
class Terminate(Message):
    pass


@dataclass(frozen=True)
class CopyData(Message):
    data: bytes


@dataclass(frozen=True)
class CopyDone(Message):
    pass


@dataclass(frozen=True)
class CopyFail(Message):
    reason: str


@dataclass(frozen=True)
class FunctionCall(Message):
    """Large objects and the like: always refused."""

    data: bytes


_INT16, _UINT16, _INT32 = struct.Struct(">h").unpack, struct.Struct(">H").unpack, struct.Struct(">i").unpack


class _Body:
    """The bytes of one message, read from the front."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    def take(self, size: int) -> bytes:
        if size < 0 or self._at + size > len(self._data):
            raise ProtocolError("a message is shorter than what it says it has")
        piece = self._data[self._at : self._at + size]
        self._at += size
        return piece

    def int16(self) -> int:
        number: int = _INT16(self.take(2))[0]
        return number

    def uint16(self) -> int:
        number: int = _UINT16(self.take(2))[0]
        return number

    def int32(self) -> int:
        number: int = _INT32(self.take(4))[0]
        return number

    def text(self) -> str:
        end = self._data.find(b"\0", self._at)
        if end < 0:
            raise ProtocolError("a text in a message has no end")
        piece = self._data[self._at : end]
        self._at = end + 1
        try:
            return piece.decode()
        except UnicodeDecodeError:
            raise ProtocolError("a text in a message is not UTF-8") from None

    def rest(self) -> bytes:
        return self.take(len(self._data) - self._at)

    def done(self) -> None:
        if self._at != len(self._data):
            raise ProtocolError("a message is longer than what it has")


def read_startup(data: bytes) -> Message:
    """The first packet of a connection, without its length."""
    body = _Body(data)
    code = body.int32()
    if code in (SSL_REQUEST, GSS_REQUEST):
        body.done()
        return SslRequest() if code == SSL_REQUEST else GssRequest()
    if code == CANCEL_REQUEST:
        request = CancelRequest(body.int32(), body.int32())
        body.done()
        return request
    if code >> 16 != PROTOCOL_MAJOR:
        raise ProtocolError(
            f"the protocol {code >> 16}.{code & 0xFFFF} is not spoken here", hint="Version 3 is."
        )
    parameters: dict[str, str] = {}
    while name := body.text():
        parameters[name] = body.text()
    body.done()
    return Startup(code & 0xFFFF, parameters)


def _parse(body: _Body) -> Message:
    name, sql = body.text(), body.text()
    return Parse(name, sql, tuple(body.int32() & 0xFFFFFFFF for _ in range(body.uint16())))


def _bind(body: _Body) -> Message:
    portal, statement = body.text(), body.text()
    formats = _formats(body)
    values = []
    for _ in range(body.uint16()):
        size = body.int32()
        values.append(None if size == -1 else body.take(size))
    return Bind(portal, statement, formats, tuple(values), _formats(body))


def _formats(body: _Body) -> tuple[int, ...]:
    count = body.uint16()
    if not count:
        return ()
    formats: tuple[int, ...] = struct.unpack(f">{count}h", body.take(2 * count))
    if not {*formats} <= {0, 1}:
        raise ProtocolError("a format is neither text (0) nor binary (1)")
    return formats


def _kind_and_name(body: _Body) -> tuple[str, str]:
    kind = body.take(1)
    if kind not in (b"S", b"P"):
        raise ProtocolError("neither a statement (S) nor a portal (P) is meant")
    return kind.decode(), body.text()


_READERS: dict[bytes, Callable[[_Body], Message]] = {
    b"p": lambda body: Password(body.rest()),
    b"Q": lambda body: Query(body.text()),
    b"P": _parse,
    b"B": _bind,
    b"D": lambda body: Describe(*_kind_and_name(body)),
    b"E": lambda body: Execute(body.text(), max(body.int32(), 0)),
    b"C": lambda body: Close(*_kind_and_name(body)),
    b"H": lambda body: Flush(),
    b"S": lambda body: Sync(),
    b"X": lambda body: Terminate(),
    b"d": lambda body: CopyData(body.rest()),
    b"c": lambda body: CopyDone(),
    b"f": lambda body: CopyFail(body.text()),
    b"F": lambda body: FunctionCall(body.rest()),
}


def read_message(kind: bytes, data: bytes) -> Message:
    """A message after the first packet, without its kind and length.

    >>> read_message(b"E", b"portal\\0\\0\\0\\0\\x05")
    Execute(portal='portal', rows_max=5)
    """
    reader = _READERS.get(kind)
    if reader is None:
        raise ProtocolError(f"there is no message of the kind {kind!r}")
    body = _Body(data)
    message = reader(body)
    body.done()
    return message
