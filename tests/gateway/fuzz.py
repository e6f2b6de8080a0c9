"""`make fuzz`: coverage-guided bytes (atheris) for the protocol and the dialogue behind it.

The first byte says where the rest begins: at the startup packet, or after the client was let in, as bytes or as the
kinds and bodies of messages; the second how it is cut into pieces. Whatever comes, it is answered or refused with a
protocol error, and no more is kept than came. The recorded dialogues are what it begins with.
"""

from __future__ import annotations

import struct
import sys
import tempfile
from pathlib import Path

import atheris

from gateway.transcript import client_message, read

with atheris.instrument_imports(include=["penstock.gateway", "penstock.sql"]):
    from penstock import Flow, PenstockError
    from penstock.gateway import messages as m
    from penstock.gateway.errors import ProtocolError
    from penstock.gateway.login import Access, Login
    from penstock.gateway.pause import Pause
    from penstock.gateway.prompt_dialogue import PromptDialogue
    from penstock.gateway.protocol import Connection
    from penstock.gateway.scram import verifier
    from penstock.gateway.settings import ClientSettings

FLOW = Flow()
FLOW.sql("CREATE TABLE t (id BIGINT PRIMARY KEY, s TEXT, a INT[])")
ACCESS = Access({"ann": verifier("secret", b"0" * 16, 1)})


def pieces(data: bytes, cut: int) -> list[bytes]:
    size = max(cut, 1)
    return [data[i : i + size] for i in range(0, len(data), size)]


def before_login(data: bytes, cut: int) -> None:
    connection = Connection()
    login = Login(connection, ACCESS)
    came = 0
    for piece in pieces(data, cut):
        connection.receive(piece)
        came += len(piece)
        while not login.done and (message := connection.next_message()) is not None:
            if isinstance(message, m.Startup):
                list(login.start(message, False))
            elif isinstance(message, m.Password):
                list(login.answer(message))
        assert connection.waiting_bytes <= came
        assert not login.done, "nobody knows the secret"


def after_login(data: bytes, cut: int) -> None:
    connection = Connection()
    connection.accepted()
    with FLOW.session(define_at_once=True) as session:
        dialogue = PromptDialogue(connection, session, ClientSettings(session, "ann"))
        for piece in pieces(data, cut):
            connection.receive(piece)
            while (message := connection.next_message()) is not None:
                out: list[bytes] = []
                for answer in out if dialogue.at_once(message, out) else dialogue.handle(message):
                    assert isinstance(answer, bytes)
                    if isinstance(answer, Pause):
                        break  # a subscription waits for changes, and here nobody makes any


def framed(data: bytes) -> bytes:
    """Kind, size and body, again and again, as messages."""
    out, at = b"", 0
    while at + 2 <= len(data):
        kind, size = data[at : at + 1], data[at + 1]
        body = data[at + 2 : at + 2 + size]
        out += kind + struct.pack(">i", len(body) + 4) + body
        at += 2 + size
    return out


def one(data: bytes) -> None:
    if len(data) < 2:
        return
    mode, cut, rest = data[0] % 3, data[1], data[2:]
    try:
        if mode == 0:
            before_login(rest, cut)
        else:
            after_login(framed(rest) if mode == 1 else rest, cut)
    except ProtocolError:
        pass
    except PenstockError:
        if mode:  # after the login the dialogue answers them
            raise


def seeds(folder: Path) -> None:
    """The recorded dialogues, in both forms."""
    for number, dialogue in enumerate(read()):
        sent = [client_message(line) for line in dialogue.lines if line.startswith("> ")]
        (folder / f"{number}.bytes").write_bytes(b"\2\xff" + b"".join(sent))
        short = b"".join(s[:1] + bytes([len(s) - 5]) + s[5:] for s in sent if len(s) < 250)
        (folder / f"{number}.framed").write_bytes(b"\1\xff" + short)
    start = struct.pack(">i", 3 << 16) + b"user\0ann\0\0"
    (folder / "startup").write_bytes(b"\0\xff" + struct.pack(">i", len(start) + 4) + start)


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        seeds(Path(folder))
        atheris.Setup([*sys.argv, folder], one)
        atheris.Fuzz()


if __name__ == "__main__":
    main()
