"""LISTEN, NOTIFY and UNLISTEN: the statements, and what they do. They take effect at COMMIT, as in Postgres."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa

from penstock.base.errors import InvalidOption
from penstock.gateway.channels import Letter, check_channel, check_payload
from penstock.gateway.command import Command
from penstock.gateway.portals import Portal
from penstock.gateway.result import Result
from penstock.sql.cursor import Cursor
from penstock.sql.tokens import fold, string_value, tokenize

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


def pg_notify_call(sql: str) -> str | None:
    """`SELECT pg_notify(a, b)` as a query for a and b; None if it is anything else.

    The function does something, which no function of a query may do here: so it is one only when it stands alone.

    >>> pg_notify_call("select pg_notify($1, 'a' || $2)")
    "SELECT CAST(($1) AS VARCHAR) AS channel, CAST(('a' || $2) AS VARCHAR) AS payload"
    """
    if "pg_notify" not in sql.lower():
        return None
    tokens = [t for t in tokenize(sql) if t.kind not in ("space", "comment")]
    if not tokens or tokens[0].keyword != "SELECT":
        return None
    c = Cursor(sql, tokens, tokens[-1].end)
    c.expect("SELECT")
    c.take("PG_CATALOG", ".")
    if not c.take("PG_NOTIFY") or not c.at("("):
        return None
    inside = c.group()
    comma = next((i for i in inside.top_level() if inside.tokens[i].keyword == ","), None)
    if comma is None or (not c.at_end and not c.take("AS", "PG_NOTIFY")) or not c.at_end:
        return None
    channel = inside.slice(comma, "the name of a channel")
    inside.take(",")
    payload = inside.rest("a payload")
    return f"SELECT CAST(({channel}) AS VARCHAR) AS channel, CAST(({payload}) AS VARCHAR) AS payload"


def run_pg_notify(work: Work, answer: pa.Table, portal: Portal) -> None:
    """Send what the query for its arguments gave."""
    channel, payload = (column[0].as_py() for column in answer.columns)
    if not channel:
        raise InvalidOption("channel name cannot be empty")
    work.send(Letter(check_channel(channel), check_payload(payload or "")))
    portal.result = Result.of(pa.table({"pg_notify": [""]}), portal.formats)
    portal.tag = "SELECT 1"
