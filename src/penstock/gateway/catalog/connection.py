"""One connection to the private PostgreSQL: its protocol from the client's side, rows left as bytes."""

from __future__ import annotations

import socket
import struct
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field

from penstock.base.limits import CATALOG_BYTES_MAX, CATALOG_ROWS_MAX
from penstock.gateway import backend as b
from penstock.gateway.client import ServerError
from penstock.gateway.errors import CatalogUnavailable, TooLarge
from penstock.gateway.messages import CANCEL_REQUEST

_CONNECT_SECONDS_MAX = 10


@dataclass
class Rows:
    """What a statement gave: RowDescription's fields (None: it has none), DataRow messages, the tag."""

    fields: list[b.Field] | None = None
    rows: list[bytes] = field(default_factory=list)
    tag: str = ""
    parameters: tuple[int, ...] = ()


class PrivateConnection:
    """Speaks with the server at a socket, as a role that it trusts. One thread at a time."""

    def __init__(self, path: str, user: str, database: str) -> None:
        self._path = path
        self._process = (0, 0)
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._socket.settimeout(_CONNECT_SECONDS_MAX)
        self._buffer = b""
        try:
            self._socket.connect(path)
            pairs = (("user", user), ("database", database), ("client_encoding", "UTF8"))
            body = struct.pack(">i", 3 << 16) + b"".join(b.text(n) + b.text(v) for n, v in pairs) + b"\0"
            self._socket.sendall(struct.pack(">i", len(body) + 4) + body)
            self._gather()
        except BaseException:
            self._socket.close()
            raise
        self._socket.settimeout(None)  # the server has a time limit for statements

    def close(self) -> None:
        with suppress(OSError):
            self._socket.sendall(b.message(b"X"))
        self._socket.close()

    def run(self, sql: str) -> None:
        """Statements without an answer."""
        self._exchange(b.message(b"Q", b.text(sql)))

    def values(self, sql: str) -> list[list[str | None]]:
        """The rows of a query, as text."""
        return [_values(row) for row in self._exchange(b.message(b"Q", b.text(sql))).rows]

    def describe(self, sql: str, oids: Sequence[int]) -> Rows:
        """The types of the parameters and the columns of one statement."""
        return self._exchange(_parse(sql, oids) + b.message(b"D", b"S\0") + b.message(b"S"))

    def query(
        self, sql: str, oids: Sequence[int], values: Sequence[bytes | None], formats: Sequence[int],
        result_formats: Sequence[int],
    ) -> Rows:  # fmt: skip
        """Run one statement: more than one is an error, which is the protocol's rule."""
        bind = (
            b"\0\0"
            + struct.pack(f">H{len(formats)}h", len(formats), *formats)
            + struct.pack(">H", len(values))
        )
        bind += b"".join(b"\xff\xff\xff\xff" if v is None else struct.pack(">i", len(v)) + v for v in values)
        bind += struct.pack(f">H{len(result_formats)}h", len(result_formats), *result_formats)
        parts = _parse(sql, oids) + b.message(b"B", bind) + b.message(b"D", b"P\0")
        # One row more than there may be, so that too many of them are known by it.
        return self._exchange(
            parts + b.message(b"E", b"\0" + struct.pack(">i", CATALOG_ROWS_MAX + 1)) + b.message(b"S")
        )

    def cancel(self) -> None:
        """Stop what runs, from another thread."""
        with suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as other:
            other.settimeout(_CONNECT_SECONDS_MAX)
            other.connect(self._path)
            other.sendall(struct.pack(">iiIi", 16, CANCEL_REQUEST, *self._process))
            other.recv(1)

    # -- messages --------------------------------------------------------------------------

    def _exchange(self, data: bytes) -> Rows:
        try:
            self._socket.sendall(data)
        except OSError as error:
            raise _lost(error) from None
        return self._gather()

    def _gather(self) -> Rows:
        """Everything up to ReadyForQuery."""
        found = Rows()
        size = 0
        failure: ServerError | None = None
        while True:
            kind, body = self._receive()
            if kind == b"D":
                size += len(body)
                if size <= CATALOG_BYTES_MAX and len(found.rows) <= CATALOG_ROWS_MAX:
                    found.rows.append(b.message(b"D", body))
            elif kind == b"T":
                found.fields = _fields(body)
            elif kind == b"t":
                found.parameters = struct.unpack(f">{len(body) // 4}I", body[2:])
            elif kind == b"C":
                found.tag = body.rstrip(b"\0").decode()
            elif kind == b"E":
                failure = ServerError(_report(body))
            elif kind == b"K":
                self._process = struct.unpack(">Ii", body)
            elif kind == b"Z":
                break
        if failure is not None:
            raise failure
        if size > CATALOG_BYTES_MAX or len(found.rows) > CATALOG_ROWS_MAX:
            raise TooLarge(
                f"a catalog query may give {CATALOG_ROWS_MAX:,} rows and {CATALOG_BYTES_MAX >> 20} MB",
                hint="Add a WHERE or a LIMIT.",
            )
        return found

    def _receive(self) -> tuple[bytes, bytes]:
        while len(self._buffer) < 5:
            self._more()
        (length,) = struct.unpack(">i", self._buffer[1:5])
        while len(self._buffer) < length + 1:
            self._more()
        kind, body = self._buffer[:1], self._buffer[5 : length + 1]
        self._buffer = self._buffer[length + 1 :]
        return kind, body

    def _more(self) -> None:
        try:
            data = self._socket.recv(1 << 16)
        except OSError as error:
            raise _lost(error) from None
        if not data:
            raise _lost(ConnectionError("it has ended the connection"))
        self._buffer += data


class ConnectionLost(CatalogUnavailable):
    """It was there, and is not any more."""


def _lost(error: OSError) -> ConnectionLost:
    return ConnectionLost(f"the private PostgreSQL that answers catalog queries is gone: {error}")


def _parse(sql: str, oids: Sequence[int]) -> bytes:
    return b.message(b"P", b"\0" + b.text(sql) + struct.pack(f">H{len(oids)}I", len(oids), *oids))


def _fields(body: bytes) -> list[b.Field]:
    (count,) = struct.unpack(">H", body[:2])
    fields, at = [], 2
    for _ in range(count):
        end = body.index(b"\0", at)
        _, _, oid, size, modifier, format = struct.unpack(">iHIhih", body[end + 1 : end + 19])
        fields.append(b.Field(body[at:end].decode(), oid, size, modifier, format))
        at = end + 19
    return fields


def _values(message: bytes) -> list[str | None]:
    (count,) = struct.unpack(">H", message[5:7])
    values: list[str | None] = []
    at = 7
    for _ in range(count):
        (size,) = struct.unpack(">i", message[at : at + 4])
        at += 4
        values.append(None if size < 0 else message[at : at + size].decode())
        at += max(size, 0)
    return values


def _report(body: bytes) -> dict[str, str]:
    return {piece[:1].decode(): piece[1:].decode() for piece in body.split(b"\0") if piece}
