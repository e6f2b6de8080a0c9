"""LISTEN, NOTIFY and UNLISTEN: the statements, and what they do. They take effect at COMMIT, as in Postgres."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from penstock.gateway.channels import Letter, check_channel, check_payload
from penstock.gateway.command import Command
from penstock.gateway.portals import Portal
from penstock.sql.cursor import Cursor
from penstock.sql.tokens import fold, string_value

if TYPE_CHECKING:
    from penstock.gateway.work import Work


@dataclass(frozen=True)
class Listen(Command):
    """`LISTEN channel`"""

    channel: str


@dataclass(frozen=True)
class Unlisten(Command):
    """`UNLISTEN channel`; None: `*`"""

    channel: str | None


@dataclass(frozen=True)
class Notify(Command):
    """`NOTIFY channel, 'payload'`"""

    channel: str
    payload: str


def parse_listen(c: Cursor) -> Command:
    c.expect("LISTEN")
    return Listen(_channel(c))


def parse_unlisten(c: Cursor) -> Command:
    c.expect("UNLISTEN")
    return Unlisten(None if c.take("*") else _channel(c))


def parse_notify(c: Cursor) -> Command:
    c.expect("NOTIFY")
    channel = _channel(c)
    if not c.take(","):
        return Notify(channel, "")
    if c.at_end or c.tokens[c.position].kind != "string":
        c.fail("a text, the payload")
    return Notify(channel, check_payload(string_value(c.next())))


def _channel(c: Cursor) -> str:
    """In lower case unless it is quoted. The names of views are compared in lower case anyway."""
    quoted = not c.at_end and c.tokens[c.position].kind == "quoted"
    name = c.identifier("the name of a channel")
    return check_channel(name if quoted else fold(name))


def run_listen(work: Work, command: Listen, portal: Portal) -> None:
    work.send(Letter(command.channel))
    portal.tag = "LISTEN"


def run_unlisten(work: Work, command: Unlisten, portal: Portal) -> None:
    work.send(Letter(command.channel, ends=True))
    portal.tag = "UNLISTEN"


def run_notify(work: Work, command: Notify, portal: Portal) -> None:
    work.send(Letter(command.channel, command.payload))
    portal.tag = "NOTIFY"
