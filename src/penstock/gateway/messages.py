"""What clients send: one frozen dataclass for each message, and how its bytes are read.

Whatever the bytes are, `read_startup` and `read_message` give a message or raise ProtocolError.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import dataclass, field

from penstock.gateway.errors import ProtocolError

SSL_REQUEST, GSS_REQUEST, CANCEL_REQUEST, PROTOCOL_MAJOR = 80877103, 80877104, 80877102, 3


class Message:
    """Anything that a client can send."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class SslRequest(Message):
    pass


@dataclass(frozen=True, slots=True)
class GssRequest(Message):
    pass


@dataclass(frozen=True, slots=True)
class CancelRequest(Message):
    process: int
    secret: int


@dataclass(frozen=True, slots=True)
class Startup(Message):
    """`minor` is the protocol's, 3.`minor`; `parameters` are user, database, settings."""

    minor: int
    parameters: dict[str, str]


@dataclass(frozen=True, slots=True)
class Password(Message):
    """The answer to a request for authentication; how it is read depends on the method."""

    data: bytes


@dataclass(frozen=True, slots=True)
class Query(Message):
    sql: str


@dataclass(frozen=True, slots=True)
class Parse(Message):
    name: str
    sql: str
    oids: tuple[int, ...]


@dataclass(slots=True)  # not frozen, which costs as much as reading it: there is a new one for each statement
class Bind(Message):
    portal: str
    statement: str
    formats: tuple[int, ...]
    values: tuple[bytes | None, ...]
    result_formats: tuple[int, ...]
    size: int = field(default=0, compare=False, repr=False)  # of the whole message, in bytes


@dataclass(frozen=True, slots=True)
class Describe(Message):
    """`kind` is "S" for a statement, "P" for a portal."""

    kind: str
    name: str


@dataclass(frozen=True, slots=True)
class Execute(Message):
    """`rows_max` 0: all of them."""

    portal: str
    rows_max: int


@dataclass(frozen=True, slots=True)
class Close(Message):
    kind: str
    name: str


@dataclass(frozen=True, slots=True)
class Flush(Message):
    pass


@dataclass(frozen=True, slots=True)
class Sync(Message):
    pass


@dataclass(frozen=True, slots=True)
class Terminate(Message):
    pass


@dataclass(frozen=True, slots=True)
class CopyData(Message):
    data: bytes


@dataclass(frozen=True, slots=True)
class CopyDone(Message):
    pass


@dataclass(frozen=True, slots=True)
class CopyFail(Message):
    reason: str


@dataclass(frozen=True, slots=True)
class FunctionCall(Message):
    """Large objects and the like: always refused."""

    data: bytes


_UINT16, _INT32 = struct.Struct(">H").unpack, struct.Struct(">i").unpack
_UINT16_AT, _INT32_AT = struct.Struct(">H").unpack_from, struct.Struct(">i").unpack_from
_SHORT = "a message is shorter than what it says it has"
_LONG = "a message is longer than what it has"
_NO_END = "a text in a message has no end"
_NOT_UTF8 = "a text in a message is not UTF-8"


class _Body:
    """The bytes of one message, read from the front."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    def take(self, size: int) -> bytes:
        if size < 0 or self._at + size > len(self._data):
            raise ProtocolError(_SHORT)
        piece = self._data[self._at : self._at + size]
        self._at += size
        return piece

    def uint16(self) -> int:
        number: int = _UINT16(self.take(2))[0]
        return number

    def int32(self) -> int:
        number: int = _INT32(self.take(4))[0]
        return number

    def text(self) -> str:
        end = self._data.find(b"\0", self._at)
        if end < 0:
            raise ProtocolError(_NO_END)
        piece = self._data[self._at : end]
        self._at = end + 1
        try:
            return piece.decode()
        except UnicodeDecodeError:
            raise ProtocolError(_NOT_UTF8) from None

    def rest(self) -> bytes:
        return self.take(len(self._data) - self._at)

    def done(self) -> None:
        if self._at != len(self._data):
            raise ProtocolError(_LONG)


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


def read_bind(data: bytes) -> Bind:
    """Bind, read in one go: of what clients send again and again, it alone is new each time."""
    at = 0
    try:
        end = data.index(0)
        portal = data[:end].decode()
        at, end = end + 1, data.index(0, end + 1)
        statement = data[at:end].decode()
        formats, at = _formats(data, end + 1)
        (count,) = _UINT16_AT(data, at)
        at += 2
        values: list[bytes | None] = []
        for _ in range(count):
            (size,) = _INT32_AT(data, at)
            at += 4
            if size == -1:
                values.append(None)
                continue
            if size < 0 or at + size > len(data):
                raise ProtocolError(_SHORT)
            values.append(data[at : at + size])
            at += size
        results = _USUAL_FORMATS.get(data[at:])
        if results is None:
            results, at = _formats(data, at)
            if at != len(data):
                raise ProtocolError(_LONG)
    except struct.error:
        raise ProtocolError(_SHORT) from None
    except UnicodeDecodeError:
        raise ProtocolError(_NOT_UTF8) from None
    except ValueError:
        raise ProtocolError(_NO_END) from None
    return Bind(portal, statement, formats, tuple(values), results, len(data))


_USUAL_FORMATS = {b"\0\0": (), b"\0\1\0\0": (0,), b"\0\1\0\1": (1,)}


def _formats(data: bytes, at: int) -> tuple[tuple[int, ...], int]:
    """A list of formats that begins at a place, and where it ends."""
    (count,) = _UINT16_AT(data, at)
    if not count:
        return (), at + 2
    end = at + 2 + 2 * count
    formats = _USUAL_FORMATS.get(data[at:end])
    if formats is None:
        formats = struct.unpack_from(f">{count}H", data, at + 2)
        if not {0, 1}.issuperset(formats):
            raise ProtocolError("a format is neither text (0) nor binary (1)")
    return formats, end


def _kind_and_name(body: _Body) -> tuple[str, str]:
    kind = body.take(1)
    if kind not in (b"S", b"P"):
        raise ProtocolError("neither a statement (S) nor a portal (P) is meant")
    return kind.decode(), body.text()


_READERS: dict[bytes, Callable[[_Body], Message]] = {
    b"p": lambda body: Password(body.rest()),
    b"Q": lambda body: Query(body.text()),
    b"P": _parse,
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
    if kind == b"B":
        return read_bind(data)
    reader = _READERS.get(kind)
    if reader is None:
        raise ProtocolError(f"there is no message of the kind {kind!r}")
    body = _Body(data)
    message = reader(body)
    body.done()
    return message
