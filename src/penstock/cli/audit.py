"""penstock audit tail: the last entries of a flow's audit log, from a server or from storage."""

from __future__ import annotations

import argparse
import getpass
import json
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from penstock.cli.command import FINE, Command, UsageError
from penstock.cli.options import add_json, storage_options
from penstock.cli.terminal import Terminal
from penstock.engine.audit import read_audit
from penstock.engine.opening import open_reader
from penstock.gateway.client import DEFAULT_URL, Client, target
from penstock.store.location import Location

POLL_SECONDS = 1.0
Row = tuple[int, str, int, str, str | None, int | None, dict[str, object]]
_NAMES = ("number", "time", "epoch", "event", "actor", "session", "detail")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("action", choices=("tail",), help="show the last entries")
    parser.add_argument(
        "url", metavar="URL", nargs="?", default=DEFAULT_URL,
        help=f"a server, or the storage of a flow ({DEFAULT_URL})",
    )  # fmt: skip
    parser.add_argument("-n", metavar="N", type=int, default=20, dest="count", help="how many entries (20)")
    parser.add_argument("--follow", "-f", action="store_true", help="go on with those that come")
    add_json(parser)


def run(options: argparse.Namespace, terminal: Terminal) -> int:
    if options.count < 0:
        raise UsageError("-n is a number of entries: it is not negative")
    with _source(options) as read:
        last = _show(read(0)[-options.count :] if options.count else [], options.json, terminal)
        if options.follow and not options.count:
            last = max([row[0] for row in read(0)], default=0)
        while options.follow:
            terminal.flush()
            time.sleep(POLL_SECONDS)
            last = _show(read(last), options.json, terminal) or last
    return FINE


def is_server(url: str) -> bool:
    return url.startswith(("postgresql://", "postgres://"))


@contextmanager
def _source(options: argparse.Namespace) -> Iterator[Callable[[int], list[Row]]]:
    """A function that gives the entries after a number."""
    if is_server(options.url):
        client = Client(target(options.url), lambda: getpass.getpass("Password: "))
        try:
            yield lambda after: _of_server(client, after)
        finally:
            client.close()
        return
    (given,) = storage_options(options, options.url)
    truth = open_reader(Location.parse(options.url, given))
    try:
        yield lambda after: [
            (e.number, _time(e.time_us), e.epoch, e.event, e.actor, e.session, e.detail)
            for e in read_audit(truth)
            if e.number > after
        ]
    finally:
        truth.close()


def _of_server(client: Client, after: int) -> list[Row]:
    sql = (
        "SELECT number, strftime(time AT TIME ZONE 'UTC', '%Y-%m-%d %H:%M:%S.%f'), epoch, event, actor, session, "
        f"detail::VARCHAR FROM penstock.audit_log WHERE number > {after} ORDER BY number"
    )
    (reply,) = client.query(sql)
    return [_row(*row) for row in reply.rows]


def _row(
    number: str | None, when: str | None, epoch: str | None, event: str | None, actor: str | None,
    session: str | None, detail: str | None,
) -> Row:  # fmt: skip
    return (
        int(number or 0),
        when or "",
        int(epoch or 0),
        event or "",
        actor,
        None if session is None else int(session),
        json.loads(detail or "{}"),
    )


def _time(microseconds: int) -> str:
    seconds, rest = divmod(microseconds, 1_000_000)
    return f"{time.strftime('%Y-%m-%d %H:%M:%S', time.gmtime(seconds))}.{rest:06d}"


def _show(rows: list[Row], as_json: bool, terminal: Terminal) -> int:
    """Print entries; the number of the last one, or 0."""
    for row in rows:
        if as_json:
            terminal.raw(json.dumps(dict(zip(_NAMES, row, strict=True)), ensure_ascii=False))
            continue
        number, when, epoch, event, actor, session, detail = row
        who = f" by {actor}" if actor else ""
        who += f" (session {session})" if session else ""
        figures = "  ".join(f"{key}={json.dumps(value, ensure_ascii=False)}" for key, value in detail.items())
        terminal.say(f"{number:>5}  {when} UTC  epoch {epoch}  {event}{who}  {figures}".rstrip())
    return rows[-1][0] if rows else 0


COMMAND = Command(
    "audit",
    "the audit log: definitions, openings, checkpoints, stops",
    "Shows the last entries of a flow's audit log, from a server or from storage (without disturbing a writer), and\n"
    "with --follow those that come. In SQL it is penstock.audit_log.",
    add_arguments,
    run,
)
