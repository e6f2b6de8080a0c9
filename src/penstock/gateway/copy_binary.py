"""COPY's binary form: a head, rows (a count, then a length and bytes for each value), and -1 for the end."""

from __future__ import annotations

import struct
from collections.abc import Iterator

from penstock.base.limits import MESSAGE_BYTES_MAX
from penstock.gateway.errors import BadCopyData

SIGNATURE = b"PGCOPY\n\xff\r\n\0"
HEAD = SIGNATURE + struct.pack(">ii", 0, 0)  # no flags, no extension
END = struct.pack(">h", -1)
_CRITICAL_FLAGS = 0xFFFF0000
_INT16, _INT32 = struct.Struct(">h").unpack_from, struct.Struct(">i").unpack_from

Values = list[bytes | None]


class BinaryReader:
    """Rows from pieces of data that may be cut anywhere.

    >>> reader = BinaryReader(1)
    >>> row = struct.pack(">hi", 1, 2) + b"ab"
    >>> list(reader.feed(HEAD + row[:3])), list(reader.feed(row[3:] + END)), list(reader.finish())
    ([], [[b'ab']], [])
    """

    def __init__(self, width: int) -> None:
        self._width = width
        self._rest = b""
        self._begun = False
        self._ended = False
        self._number = 0

    def feed(self, data: bytes) -> Iterator[Values]:
        """The rows that are whole by now."""
        if self._ended:
            if data:
                raise BadCopyData("received copy data after EOF marker")
            return
        data = self._rest + data
        if len(data) > MESSAGE_BYTES_MAX:
            raise BadCopyData(f"a row has more than {MESSAGE_BYTES_MAX} bytes")
        at = 0
        if not self._begun:
            begin = self._head(data)
            if begin is None:
                self._rest = data
                return
            at, self._begun = begin, True
        while (found := self._row(data, at)) is not None:
            row, at = found
            if row is None:
                self._ended = True
                if at != len(data):
                    raise BadCopyData("received copy data after EOF marker")
                break
            self._number += 1
            yield row
        self._rest = data[at:]

    def finish(self) -> Iterator[Values]:
        """There is no more data."""
        if self._rest or not self._begun:
            raise BadCopyData(
                "unexpected EOF in COPY data" if self._begun else "COPY file signature not recognized"
            )
        return iter(())

    def _head(self, data: bytes) -> int | None:
        """Where the rows begin; None until the whole head is there."""
        if not SIGNATURE.startswith(data[: len(SIGNATURE)]):
            raise BadCopyData("COPY file signature not recognized")
        if len(data) < len(HEAD):
            return None
        (flags,) = _INT32(data, len(SIGNATURE))
        (extension,) = _INT32(data, len(SIGNATURE) + 4)
        if flags & _CRITICAL_FLAGS:
            raise BadCopyData("unrecognized critical flags in COPY file header")
        if not 0 <= extension <= MESSAGE_BYTES_MAX:
            raise BadCopyData("invalid COPY file header (wrong length)")
        end = len(HEAD) + extension
        return end if len(data) >= end else None

    def _row(self, data: bytes, at: int) -> tuple[Values | None, int] | None:
        """A row and where it ends; the row None at the end of all; None while it is not whole."""
        if len(data) < at + 2:
            return None
        (count,) = _INT16(data, at)
        at += 2
        if count == -1:
            return None, at
        if count != self._width:
            raise BadCopyData(f"row field count is {count}, expected {self._width}")
        row: Values = []
        for _ in range(count):
            if len(data) < at + 4:
                return None
            (size,) = _INT32(data, at)
            at += 4
            if not -1 <= size <= MESSAGE_BYTES_MAX:
                raise BadCopyData(f"row {self._number + 1}: invalid field size")
            if len(data) < at + size:
                return None
            row.append(None if size < 0 else data[at : at + size])
            at += max(size, 0)
        return row, at


def with_head(messages: bytes) -> bytes:
    """CopyData messages of rows, the first of them with the head before its row, as Postgres sends it."""
    (length,) = _INT32(messages, 1)
    first = struct.pack(">ci", b"d", length + len(HEAD))
    return first + HEAD + messages[5:]
