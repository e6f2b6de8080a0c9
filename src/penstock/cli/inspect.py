"""penstock inspect URL: what is on storage of a flow."""

from __future__ import annotations

import argparse
from dataclasses import asdict

from penstock.cli.amounts import moment, plural, size
from penstock.cli.command import FINE, Command
from penstock.cli.options import add_json, storage_options
from penstock.cli.terminal import Terminal
from penstock.engine.inspect import ArrangementInfo, Inspection, inspect
from penstock.store.location import Location


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("url", metavar="URL", help="where the flow is")
    parser.add_argument("--fast", action="store_true", help="do not count rows: no batch is read")
    parser.add_argument("--batches", action="store_true", help="every batch of every arrangement")
    add_json(parser)


def run(options: argparse.Namespace, terminal: Terminal) -> int:
    (given,) = storage_options(options, options.url)
    found = inspect(Location.parse(options.url, given), count_rows=not options.fast)
    if options.json:
        terminal.json(_as_json(found))
    else:
        _print(found, options.batches, terminal)
    return FINE


def _as_json(found: Inspection) -> dict[str, object]:
    value = asdict(found)
    for written, arrangement in zip(value["arrangements"], found.arrangements, strict=True):
        written |= {"rows": arrangement.rows, "bytes": arrangement.bytes}
    value["unnamed"] = [{"name": name, "bytes": count} for name, count in found.unnamed]
    return value


def _print(found: Inspection, batches: bool, terminal: Terminal) -> None:
    terminal.say(found.url, style="bold")
    terminal.say(f"  format     {found.format}, made {moment(found.created_us)}")
    terminal.say(f"  epoch      {found.epoch}, of {moment(found.epoch_time_us)}")
    behind = found.epoch - found.written_epoch
    again = f"; opening runs {plural(behind, 'epoch')} again" if behind else ""
    terminal.say(f"  written    up to epoch {found.written_epoch}{again}")
    since = moment(found.history_from_us) if found.history_from else "the beginning"
    terminal.say(f"  history    from epoch {found.history_from} ({since})")
    for parent in found.parents:
        terminal.say(f"  branch of  {parent}")
    terminal.say("\ntables and views")
    terminal.table(
        ("name", "kind", "rows", "since epoch"), [(r.name, r.kind, r.rows, r.since) for r in found.relations]
    )
    terminal.say("\narrangements")
    terminal.table(
        ("slot", "what", "batches", "rows", "bytes", "in"),
        [
            (a.slot, a.name, len(a.batches), a.rows, size(a.bytes), _kinds(a))
            for a in sorted(found.arrangements, key=lambda a: -a.bytes)
        ],
    )
    if batches:
        terminal.say("\nbatches")
        terminal.table(
            ("slot", "kind", "name", "rows", "bytes"),
            [(a.slot, b.kind, b.name, b.rows, size(b.bytes)) for a in found.arrangements for b in a.batches],
        )
    terminal.say("\nobjects")
    total = sum(o.bytes for o in found.objects)
    rows = [(o.kind, o.count, size(o.bytes)) for o in found.objects]
    terminal.table(
        ("kind", "count", "bytes"), [*rows, ("all", sum(o.count for o in found.objects), size(total))]
    )
    if found.unnamed:
        count = size(sum(b for _, b in found.unnamed))
        terminal.say(f"\n{plural(len(found.unnamed), 'file')} that nothing names, {count}: "
                     "being written, or deleted when the flow is next open for a while")  # fmt: skip
        terminal.table(("name", "bytes"), [(name, size(b)) for name, b in found.unnamed])


def _kinds(arrangement: ArrangementInfo) -> str:
    kinds = [b.kind for b in arrangement.batches]
    return ", ".join(plural(kinds.count(kind), kind) for kind in ("file", "chunk") if kind in kinds)


COMMAND = Command(
    "inspect",
    "what is on storage: epochs, tables and views, arrangements, objects",
    "Shows what is on storage of a flow: its epochs, tables and views, arrangements with their batches,\n"
    "objects by kind, and files that nothing names. It reads beside a running writer and does not disturb it.",
    add_arguments,
    run,
)
