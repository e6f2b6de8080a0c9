"""What the server sends: a function for each message, giving its bytes."""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Field:
    """A column of a RowDescription."""

    name: str
    oid: int
    size: int  # bytes of a value, -1 where they vary
    modifier: int  # digits of a numeric, -1 where there is none
    format: int  # 0 text, 1 binary


def message(kind: bytes, body: bytes = b"") -> bytes:
    return kind + struct.pack(">i", len(body) + 4) + body


def text(value: str) -> bytes:
    """A text with its end; NUL cannot be in one."""
    return value.replace("\0", "").encode(errors="replace") + b"\0"


AUTHENTICATION_OK = message(b"R", struct.pack(">i", 0))
PARSE_COMPLETE = message(b"1")
BIND_COMPLETE = message(b"2")
CLOSE_COMPLETE = message(b"3")
NO_DATA = message(b"n")
EMPTY_QUERY = message(b"I")
PORTAL_SUSPENDED = message(b"s")
COPY_DONE = message(b"c")


def authentication_sasl(mechanisms: Sequence[str]) -> bytes:
    return message(b"R", struct.pack(">i", 10) + b"".join(text(m) for m in mechanisms) + b"\0")


def authentication_continue(data: bytes) -> bytes:
    return message(b"R", struct.pack(">i", 11) + data)


def authentication_final(data: bytes) -> bytes:
    return message(b"R", struct.pack(">i", 12) + data)


def negotiate_version(minor: int, options: Sequence[str]) -> bytes:
    return message(b"v", struct.pack(">ii", minor, len(options)) + b"".join(text(o) for o in options))


def backend_key(process: int, secret: int) -> bytes:
    return message(b"K", struct.pack(">Ii", process, secret))


def parameter_status(name: str, value: str) -> bytes:
    return message(b"S", text(name) + text(value))


_READY = {status: message(b"Z", status.encode()) for status in "ITE"}


def ready_for_query(status: str) -> bytes:
    """`status` is "I" outside a transaction, "T" inside, "E" in one that has failed."""
    return _READY[status]


def row_description(fields: Sequence[Field]) -> bytes:
    parts = [text(f.name) + struct.pack(">iHIhih", 0, 0, f.oid, f.size, f.modifier, f.format) for f in fields]
    return message(b"T", struct.pack(">H", len(fields)) + b"".join(parts))


def parameter_description(oids: Sequence[int]) -> bytes:
    return message(b"t", struct.pack(f">H{len(oids)}I", len(oids), *oids))


def command_complete(tag: str) -> bytes:
    return message(b"C", text(tag))


SELECTED_ONE = command_complete("SELECT 1")


def notification(process: int, channel: str, payload: str) -> bytes:
    """NotificationResponse: what NOTIFY in that process says to those who listen."""
    return message(b"A", struct.pack(">i", process) + text(channel) + text(payload))


def copy_response(kind: bytes, columns: int, format: int) -> bytes:
    """CopyInResponse (G) or CopyOutResponse (H), in text (0) or binary (1)."""
    return message(kind, struct.pack(f">bH{columns}h", format, columns, *([format] * columns)))


def copy_data(data: bytes) -> bytes:
    return message(b"d", data)


def report(kind: bytes, fields: Mapping[str, str | None]) -> bytes:
    """ErrorResponse (E) or NoticeResponse (N): S severity, C state, M message, H hint, P position,
    R what in the server said it."""
    parts = [key.encode() + text(value) for key, value in fields.items() if value is not None]
    return message(kind, b"".join(parts) + b"\0")
