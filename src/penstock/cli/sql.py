"""penstock sql: a small shell for a server, for those without psql."""

from __future__ import annotations

import argparse
import getpass
import re
import sys
from collections.abc import Iterator

from penstock.base.errors import PenstockError
from penstock.cli.amounts import plural
from penstock.cli.command import FAILED, FINE, Command
from penstock.cli.terminal import Terminal
from penstock.gateway.client import DEFAULT_URL, Client, Reply, ServerError, target
from penstock.sql.parse import split

_SUBSCRIBES = re.compile(r"\s*(COPY\s*\(\s*)?SUBSCRIBE\b", re.IGNORECASE)
_HELP = """\
A statement ends with a semicolon. SUBSCRIBE goes on until Ctrl-C.
  \\dt        tables and views
  \\d NAME    the columns of one
  \\q         end
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "url", metavar="URL", nargs="?", default=DEFAULT_URL, help=f"the server ({DEFAULT_URL})"
    )
    parser.add_argument(
        "-c", "--command", metavar="SQL", action="append", dest="sql", default=[],
        help="run this and end; may be given several times",
    )  # fmt: skip


def run(options: argparse.Namespace, terminal: Terminal) -> int:
    client = Client(target(options.url), lambda: getpass.getpass("Password: "))
    try:
        fine = True
        for text in options.sql or _texts(terminal):
            fine = _run(client, text, terminal) and fine
        if options.sql:
            return FINE if fine else FAILED
        return FINE if fine or sys.stdin.isatty() else FAILED
    finally:
        client.close()


def _texts(terminal: Terminal) -> Iterator[str]:
    """Statements as they are typed, or as they come through a pipe."""
    if not sys.stdin.isatty():
        yield from _piped(sys.stdin.read(), terminal)
        return
    import readline  # noqa: F401 - gives input() a history

    terminal.note("Statements end with a semicolon; \\? helps, \\q ends.")
    gathered = ""
    while True:
        try:
            line = input("penstock=> " if not gathered else "penstock-> ")
        except EOFError:
            return
        words = line.split()
        if not gathered and words and words[0].startswith("\\"):
            if words[0] == "\\q":
                return
            yield from _shortcut(words, terminal)
            continue
        gathered += line + "\n"
        if _is_whole(gathered):
            yield gathered
            gathered = ""


def _piped(text: str, terminal: Terminal) -> Iterator[str]:
    """One statement after the other: each is a transaction of its own, as psql has it."""
    gathered: list[str] = []
    for line in [*text.splitlines(keepends=True), "\\q"]:
        if not line.startswith("\\"):
            gathered.append(line)
            continue
        yield from _statements("".join(gathered))
        gathered = []
        if line.split()[0] == "\\q":
            return
        yield from _shortcut(line.split(), terminal)


def _statements(text: str) -> list[str]:
    try:
        return [str(piece) for piece in split(text)]
    except PenstockError:
        return [text]  # a string that is never closed: the server says so


def _is_whole(text: str) -> bool:
    """Whether the last statement ends with its semicolon, and not in a string or a comment."""
    try:
        return text.rstrip().endswith(";") and not (
            split(text) and split(text)[-1].end > text.rstrip().rindex(";")
        )
    except PenstockError:
        return False  # a string or a comment that is not closed yet


def _shortcut(words: list[str], terminal: Terminal) -> Iterator[str]:
    if words[0] == "\\dt" or words == ["\\d"]:
        yield "SHOW TABLES; SHOW VIEWS"
    elif words[0] == "\\d":
        yield f"DESCRIBE {words[1]}"
    else:
        terminal.note(_HELP)


def _run(client: Client, sql: str, terminal: Terminal) -> bool:
    """Run statements and show what they give; whether all went well."""
    try:
        if _SUBSCRIBES.match(sql):
            for row in client.follow(sql):
                terminal.raw("\t".join("NULL" if value is None else value for value in row))
                terminal.flush()
            return True
        for reply in client.query(sql):
            _show(reply, terminal)
    except ServerError as error:
        terminal.error(f"{error.message} ({error.sqlstate})", error.hint)
        return False
    return True


def _show(reply: Reply, terminal: Terminal) -> None:
    for warning in reply.warnings:
        terminal.note(f"warning: {warning}")
    if reply.names is not None:
        rows = [["NULL" if value is None else value for value in row] for row in reply.rows]
        terminal.table(reply.names, rows, indent=0)
        terminal.note(f"({plural(len(reply.rows), 'row')})")
        return
    for row in reply.rows:  # COPY TO STDOUT
        terminal.raw(row[0] or "")
    if reply.tag:
        terminal.note(reply.tag)


COMMAND = Command(
    "sql",
    "a small shell for a server",
    "Sends statements to a server that `penstock start` runs, and shows what they give: those of -c, those that\n"
    "stand in standard input, or those that are typed.",
    add_arguments,
    run,
)
