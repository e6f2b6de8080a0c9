"""penstock support bundle: one file to send along with a report of a problem."""

from __future__ import annotations

import argparse
import getpass
import json
import urllib.error
import urllib.request
import zipfile
from pathlib import Path

from penstock.base.errors import PenstockError
from penstock.cli.amounts import plural, size
from penstock.cli.audit import is_server
from penstock.cli.command import FINE, Command, UsageError
from penstock.cli.options import storage_options
from penstock.cli.terminal import Terminal
from penstock.engine import support
from penstock.engine.support import Parts, explain_name
from penstock.engine.system import RELATIONS
from penstock.gateway.client import Client, target
from penstock.sql.tokens import quote
from penstock.store.location import Location

HTTP_SECONDS = 10


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("action", choices=("bundle",), help="make a file for a report")
    parser.add_argument("--storage", metavar="URL", help="the storage of a flow")
    parser.add_argument(
        "--server", metavar="URL", help="a running server: postgresql://penstock@127.0.0.1:6875/penstock"
    )
    parser.add_argument("--metrics", metavar="URL", help="its metrics: http://127.0.0.1:9090/metrics")
    parser.add_argument(
        "-o", "--output", metavar="FILE", type=Path, required=True, help="the zip file to write"
    )


def run(options: argparse.Namespace, terminal: Terminal) -> int:
    if options.output.exists():
        raise UsageError(f"{options.output} is there already", "Give another name.")
    parts = support.of_machine()
    if options.storage is not None:
        (given,) = storage_options(options, options.storage)
        parts |= support.of_storage(Location.parse(options.storage, given))
    elif options.storage_option:
        raise UsageError("there is no storage to give options to", "Add --storage URL.")
    if options.server is not None:
        parts |= _of_server(options.server)
    if options.metrics is not None:
        parts["metrics.txt"] = _metrics(options.metrics)
    parts["CONTENTS.txt"] = support.contents(parts)
    with zipfile.ZipFile(options.output, "x", zipfile.ZIP_DEFLATED) as archive:
        for name, text in sorted(parts.items()):
            archive.writestr(name, text)
    terminal.say(parts["CONTENTS.txt"].rstrip())
    terminal.note(f"{options.output}: {plural(len(parts), 'file')}, {size(options.output.stat().st_size)}")
    return FINE


def _of_server(url: str) -> Parts:
    """What a running server says of itself: the schema penstock, and EXPLAIN of every view."""
    if not is_server(url):
        raise UsageError(f"{url!r} is not the URL of a server", "It begins with postgresql://.")
    client = Client(target(url), lambda: getpass.getpass("Password: "))
    try:
        parts: Parts = {}
        for relation in RELATIONS:
            (reply,) = client.query(f"SELECT * FROM penstock.{relation.name}")
            rows = [dict(zip(reply.names or (), row, strict=True)) for row in reply.rows]
            parts[f"server/{relation.name}.json"] = json.dumps(rows, indent=1, ensure_ascii=False) + "\n"
        (views,) = client.query(
            "SELECT name FROM penstock.views WHERE kind = 'materialized view' ORDER BY id"
        )
        for number, row in enumerate(views.rows):
            name = row[0] or ""
            (reply,) = client.query(f"EXPLAIN INCREMENTAL {quote(name)}")
            text = "\n".join(line[0] or "" for line in reply.rows)
            parts[f"server/{explain_name(number, name)}"] = text + "\n"
        return parts
    finally:
        client.close()


def _metrics(url: str) -> str:
    if not url.startswith(("http://", "https://")):
        raise UsageError(f"{url!r} is not the URL of metrics", "It begins with http://.")
    try:
        with urllib.request.urlopen(url, timeout=HTTP_SECONDS) as answer:
            text: str = answer.read().decode()
            return text
    except (urllib.error.URLError, OSError, ValueError) as error:
        raise PenstockError(f"the metrics at {url} cannot be had: {error}") from None


COMMAND = Command(
    "support",
    "a file to send along with a report of a problem",
    "Writes a zip file with versions, limits, the catalog, manifests, EXPLAIN of every view, the audit log and, of a\n"
    "running server, what the schema penstock and its metrics say. It has no rows, no passwords and no values of\n"
    "environment variables, and lists what is inside. It reads beside a running writer and does not disturb it.",
    add_arguments,
    run,
)
