"""Dialogues with a Postgres server as text: read, held with a server, and written down.

A dialogue in transcripts/dialogues.txt has a name (`== name`), statements that are run before it (`! SQL`), what the
client sends (`> Message arguments`) and what a real PostgreSQL answered (`< ...`). A `? 3` reads three messages before
the client goes on; otherwise everything up to a Sync, a Query or the end of a COPY is sent at once and its answers are
read until the server is ready, or asks for the data of a COPY.

Not written down, because they are a server's own: the numbers of tables in RowDescription, and the words of errors
(they stand behind a # and are not compared).
"""

from __future__ import annotations

import ast
import socket
import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

FOLDER = Path(__file__).parent / "transcripts"
DIALOGUES = FOLDER / "dialogues.txt"
DIFFERENCES = FOLDER / "differences.txt"


@dataclass(frozen=True)
class Dialogue:
    """`lines` are those of the file: > ? and <."""

    name: str
    setup: tuple[str, ...]
    lines: tuple[str, ...]
    notes: tuple[str, ...] = ()

    @property
    def answers(self) -> list[str]:
        return [line for line in self.lines if line.startswith("<")]


def read(path: Path = DIALOGUES) -> list[Dialogue]:
    found: list[Dialogue] = []
    for line in path.read_text(encoding="utf-8").splitlines():
        if line.startswith("== "):
            found.append(Dialogue(line[3:], (), ()))
        elif not line.strip() or not found:
            continue
        elif line.startswith("! "):
            found[-1] = replace(found[-1], setup=(*found[-1].setup, line[2:]))
        elif line.startswith("# "):
            found[-1] = replace(found[-1], notes=(*found[-1].notes, line))
        else:
            found[-1] = replace(found[-1], lines=(*found[-1].lines, line))
    return found


# -- what the client sends -------------------------------------------------------------------------


def _text(value: str) -> bytes:
    return value.encode() + b"\0"


def _formats(formats: Sequence[int]) -> bytes:
    return struct.pack(f">H{len(formats)}h", len(formats), *formats)


def _value(value: bytes | str | None) -> bytes:
    if value is None:
        return struct.pack(">i", -1)
    data = value.encode() if isinstance(value, str) else value
    return struct.pack(">i", len(data)) + data


def client_message(line: str) -> bytes:
    """
    >>> client_message('> Execute "p", 5')
    b'E\\x00\\x00\\x00\\np\\x00\\x00\\x00\\x00\\x05'
    """
    kind, _, rest = line[2:].partition(" ")
    a = ast.literal_eval(f"({rest},)") if rest else ()
    if kind == "Query":
        code, body = b"Q", _text(a[0])
    elif kind == "Parse":
        oids = a[2] if len(a) > 2 else []
        code, body = b"P", _text(a[0]) + _text(a[1]) + struct.pack(f">H{len(oids)}I", len(oids), *oids)
    elif kind == "Bind":
        portal, statement, values, formats, results = (*a, *([], [], [])[len(a) - 2 :])
        items = b"".join(_value(v) for v in values)
        code = b"B"
        body = _text(portal) + _text(statement) + _formats(formats) + struct.pack(">H", len(values))
        body += items + _formats(results)
    elif kind in ("Describe", "Close"):
        code, body = kind[:1].encode(), a[0].encode() + _text(a[1])
    elif kind == "Execute":
        code, body = b"E", _text(a[0]) + struct.pack(">i", a[1] if len(a) > 1 else 0)
    elif kind == "CopyData":
        code, body = b"d", a[0].encode() if isinstance(a[0], str) else a[0]
    elif kind == "CopyFail":
        code, body = b"f", _text(a[0])
    elif kind == "Raw":
        return bytes(a[0])
    else:
        code, body = {"Sync": b"S", "Flush": b"H", "CopyDone": b"c", "Terminate": b"X"}[kind], b""
    return code + struct.pack(">i", len(body) + 4) + body


# -- what the server answers -----------------------------------------------------------------------

_PLAIN = {
    b"1": "ParseComplete", b"2": "BindComplete", b"3": "CloseComplete", b"n": "NoData", b"I": "EmptyQueryResponse",
    b"s": "PortalSuspended", b"c": "CopyDone",
}  # fmt: skip


def server_message(kind: bytes, body: bytes) -> str:
    """A line for a message."""
    if kind in _PLAIN:
        return f"< {_PLAIN[kind]}"
    if kind == b"T":
        return "< RowDescription " + ", ".join(_fields(body))
    if kind == b"D":
        return "< DataRow " + ", ".join(_values(body))
    if kind == b"C":
        return f"< CommandComplete {body[:-1].decode()}"
    if kind == b"Z":
        return f"< ReadyForQuery {body.decode()}"
    if kind == b"t":
        (count,) = struct.unpack(">H", body[:2])
        return "< ParameterDescription " + ", ".join(map(str, struct.unpack(f">{count}I", body[2:])))
    if kind == b"S":
        name, value = body[:-1].split(b"\0")
        return f"< ParameterStatus {name.decode()}={value.decode()}"
    if kind in (b"G", b"H"):
        format, count = struct.unpack(">bH", body[:3])
        each = struct.unpack(f">{count}h", body[3:])
        return f"< {'CopyInResponse' if kind == b'G' else 'CopyOutResponse'} {format} {list(each)}"
    if kind == b"d":
        return f"< CopyData {_shown(body)}"
    if kind in (b"E", b"N"):
        return _report(kind, body)
    return f"< {kind!r} {body!r}"


def _fields(body: bytes) -> Iterator[str]:
    (count,) = struct.unpack(">H", body[:2])
    at = 2
    for _ in range(count):
        end = body.index(b"\0", at)
        _, _, oid, size, modifier, format = struct.unpack(">iHIhih", body[end + 1 : end + 19])
        yield f"{body[at:end].decode()}:{oid}({size},{modifier}){'b' if format else ''}"
        at = end + 19


def _values(body: bytes) -> Iterator[str]:
    (count,) = struct.unpack(">H", body[:2])
    at = 2
    for _ in range(count):
        (size,) = struct.unpack(">i", body[at : at + 4])
        yield "NULL" if size < 0 else _shown(body[at + 4 : at + 4 + size])
        at += 4 + max(size, 0)


def _shown(data: bytes) -> str:
    try:
        text = data.decode()
    except UnicodeDecodeError:
        return f"0x{data.hex()}"
    return repr(text) if all(c.isprintable() or c in "\n\t\\" for c in text) else f"0x{data.hex()}"


def _report(kind: bytes, body: bytes) -> str:
    fields = {piece[:1].decode(): piece[1:].decode() for piece in body.split(b"\0") if piece}
    place = f" at {fields['P']}" if "P" in fields else ""
    name = "ErrorResponse" if kind == b"E" else "NoticeResponse"
    return f"< {name} {fields['S']} {fields['C']}{place}  # {fields['M']}"


def compared(line: str) -> str:
    """A line without what is not compared."""
    if line.startswith(("< ErrorResponse", "< NoticeResponse")):
        return line.partition("  # ")[0]
    return line


# -- holding a dialogue ----------------------------------------------------------------------------


@dataclass
class Server:
    """Where to connect: a path of a socket, or host and port."""

    address: str | tuple[str, int]
    user: str
    database: str
    seconds: float = 20
    lines: list[str] = field(default_factory=list)

    def hold(self, dialogue: Dialogue) -> list[str]:
        """The dialogue's lines with this server's answers."""
        family = socket.AF_UNIX if isinstance(self.address, str) else socket.AF_INET
        with socket.socket(family) as connection:
            connection.settimeout(self.seconds)
            connection.connect(self.address)
            with connection.makefile("rb") as file:
                return list(_held(connection, file, dialogue, self))


def _held(connection: socket.socket, file: object, dialogue: Dialogue, server: Server) -> Iterator[str]:
    def receive() -> tuple[bytes, bytes] | None:
        head = file.read(5)  # type: ignore[attr-defined]
        if not head:
            return None
        return head[:1], file.read(struct.unpack(">i", head[1:])[0] - 4)  # type: ignore[attr-defined]

    def until_ready(show: bool) -> Iterator[str]:
        while True:
            found = receive()
            if found is None:
                yield "< (closed)"
                return
            if show:
                yield server_message(*found)
            if found[0] in (b"Z", b"G") or (found[0] == b"E" and b"SFATAL\0" in found[1]):
                return

    settings = {
        "user": server.user,
        "database": server.database,
        "client_encoding": "UTF8",
        "TimeZone": "UTC",
    }
    body = struct.pack(">i", 3 << 16) + b"".join(_text(k) + _text(v) for k, v in settings.items()) + b"\0"
    connection.sendall(struct.pack(">i", len(body) + 4) + body)
    list(until_ready(show=False))
    for sql in dialogue.setup:
        connection.sendall(client_message(f"> Query {sql!r}"))
        answers = list(until_ready(show=True))
        assert not any("ErrorResponse" in a for a in answers), (dialogue.name, sql, answers)
    waiting, copying = b"", False
    for line in (line for line in dialogue.lines if not line.startswith("<")):
        yield line
        if line.startswith("? "):
            connection.sendall(waiting)
            waiting = b""
            for _ in range(int(line[2:])):
                found = receive()
                yield "< (closed)" if found is None else server_message(*found)
            continue
        waiting += client_message(line)
        ends = ("CopyDone", "CopyFail") if copying else ("Query", "Sync", "Raw")
        if line.split()[1] in ends:
            connection.sendall(waiting)
            waiting = b""
            copying = False
            for answer in until_ready(show=True):
                copying = answer.startswith("< CopyInResponse")
                yield answer
    if waiting:
        connection.sendall(waiting)


def without_answers(dialogue: Dialogue) -> Dialogue:
    return replace(dialogue, lines=tuple(line for line in dialogue.lines if not line.startswith("<")))
