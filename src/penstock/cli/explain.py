"""penstock explain VIEW: its operators, laws and state, and what a change costs it."""

from __future__ import annotations

import argparse
import getpass

from penstock.base.errors import WrongObjectType
from penstock.cli.audit import is_server
from penstock.cli.command import FINE, Command, UsageError
from penstock.cli.options import storage_options
from penstock.cli.terminal import Terminal
from penstock.engine.catalog import MaterializedView
from penstock.engine.estimate import estimate_lines
from penstock.engine.explain import explain_in
from penstock.engine.offline import offline
from penstock.gateway.client import DEFAULT_URL, Client, target
from penstock.sql.tokens import quote
from penstock.store.location import Location


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("view", metavar="VIEW", help="a materialized view")
    parser.add_argument("url", metavar="URL", nargs="?", help=f"a server ({DEFAULT_URL})")
    parser.add_argument("--storage", metavar="URL", help="read the flow's storage instead of asking a server")
    parser.add_argument(
        "--estimate", action="store_true", help="what a change of one row of each table costs, measured"
    )


def run(options: argparse.Namespace, terminal: Terminal) -> int:
    if options.storage is not None:
        if options.url is not None:
            raise UsageError("give the URL of a server or --storage, not both")
        lines = _from_storage(options)
    else:
        lines = _from_server(options)
    for line in lines:
        terminal.say(line)
    return FINE


def _from_storage(options: argparse.Namespace) -> list[str]:
    """As of the epoch that is written down: the operators' state is of one moment then."""
    (given,) = storage_options(options, options.storage)
    with offline(Location.parse(options.storage, given)) as found:
        view = found.core.catalog.get(options.view)
        if not isinstance(view, MaterializedView):
            raise WrongObjectType(f'"{view.name}" is a {view.kind}, not a materialized view')
        lines = explain_in(found.core, view).splitlines()
        return lines + (estimate_lines(found.core, view) if options.estimate else [])


def _from_server(options: argparse.Namespace) -> list[str]:
    url = options.url or DEFAULT_URL
    if not is_server(url):
        raise UsageError(f"{url!r} is not the URL of a server", f"Write --storage {url} for one of storage.")
    name = quote(options.view)
    statements = [f"EXPLAIN INCREMENTAL {name}"]
    if options.estimate:
        statements.append(f"EXPLAIN INCREMENTAL (ESTIMATE) {name}")
    client = Client(target(url), lambda: getpass.getpass("Password: "))
    try:
        return [row[0] or "" for sql in statements for reply in client.query(sql) for row in reply.rows]
    finally:
        client.close()


COMMAND = Command(
    "explain",
    "a view's operators, laws and state, and what a change costs it",
    "Shows what EXPLAIN INCREMENTAL shows of a materialized view, from a server or from storage (as of the epoch that\n"
    "is written down, without disturbing a writer). --estimate tries the removal of some rows of each table, measures\n"
    "what it does to this view, and drops the result: nothing is changed.",
    add_arguments,
    run,
)
