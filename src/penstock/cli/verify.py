"""penstock verify URL: are the views right, and the files whole?"""

from __future__ import annotations

import argparse
from collections.abc import Sequence

import pyarrow as pa

from penstock.base.errors import CorruptState, FlowNotFound, StorageNotFound
from penstock.base.limits import VERIFY_ROWS_SHOWN
from penstock.cli.amounts import plural
from penstock.cli.command import DIFFERENT, FINE, Command, UsageError
from penstock.cli.options import add_json, storage_options
from penstock.cli.terminal import Terminal
from penstock.engine.flow import Flow
from penstock.engine.verify import Check


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("url", metavar="URL", help="where the flow is")
    parser.add_argument("--view", metavar="NAME", help="only this materialized view")
    parser.add_argument(
        "--as-of",
        metavar="EPOCH|TIME",
        help="as it was at an epoch, or at a time: '2026-01-31 12:00:00+00:00'",
    )
    parser.add_argument(
        "--rows",
        metavar="N",
        type=int,
        default=VERIFY_ROWS_SHOWN,
        help=f"rows shown of what is missing and of what is too much (default: {VERIFY_ROWS_SHOWN})",
    )
    add_json(parser)


def run(options: argparse.Namespace, terminal: Terminal) -> int:
    if options.rows < 0:
        raise UsageError("--rows is a number of rows, and not negative")
    (given,) = storage_options(options, options.url)
    as_of = int(options.as_of) if options.as_of and options.as_of.isdecimal() else options.as_of
    try:
        with Flow(options.url, read_only=True, storage_options=given) as flow:
            with terminal.progress("verifying") as progress:
                checks = flow.verify(options.view, as_of, limit=options.rows, progress=progress)
            epoch = flow.epoch
    except FlowNotFound:
        raise
    except (CorruptState, StorageNotFound) as error:
        # So broken that it does not open: that is what verify is there to find.
        checks, epoch = [Check("flow", options.url, False, note=error.message)], None
    if options.json:
        terminal.json(
            {"url": options.url, "epoch": epoch, "as_of": as_of, "checks": list(map(_as_json, checks))}
        )
    else:
        _print(checks, options.rows, terminal)
    return FINE if all(check.equal for check in checks) else DIFFERENT


def _as_json(check: Check) -> dict[str, object]:
    found: dict[str, object] = {
        "kind": check.kind,
        "name": check.name,
        "equal": check.equal,
        "rows": check.rows,
    }
    found |= {"missing": check.missing, "extra": check.extra, "note": check.note}
    for name, rows in (("missing_rows", check.missing_rows), ("extra_rows", check.extra_rows)):
        found[name] = [{"count": count, "row": row} for row, count in _rows(rows)]
    return found


def _rows(rows: pa.Table | None) -> list[tuple[dict[str, object], int]]:
    """Rows with how often each of them it is; that is the last column."""
    if rows is None:
        return []
    counts = rows.column(rows.num_columns - 1).to_pylist()
    return list(zip(rows.select(range(rows.num_columns - 1)).to_pylist(), counts, strict=True))


def _print(checks: Sequence[Check], limit: int, terminal: Terminal) -> None:
    for check in checks:
        if check.equal:
            what = plural(check.rows, "file" if check.kind == "files" else "row")
            name = "files" if check.kind == "files" else f"{check.kind} {check.name}"
            terminal.say(f"ok         {name}: {what}{f' ({check.note})' if check.note else ''}")
            continue
        what = f"{check.missing:,} missing, {check.extra:,} too many of {plural(check.rows, 'row')}"
        text = check.note or what
        terminal.say(f"DIFFERENT  {check.kind} {check.name}: {text}", style="bold red")
        for title, count, rows in (
            ("missing", check.missing, check.missing_rows),
            ("too many", check.extra, check.extra_rows),
        ):
            for row, times in _rows(rows):
                shown = ", ".join(f"{name}={value!r}" for name, value in row.items())
                terminal.say(f"  {title:<8} x{times} {shown}")
            if rows is not None and rows.num_rows == limit and count > limit:
                terminal.say(f"  {title:<8} ... {count:,} in all")
    wrong = sum(not check.equal for check in checks)
    if wrong:
        terminal.say(f"{wrong} of {len(checks)} checks found differences.", style="bold red")
    else:
        terminal.say("Everything is as it should be.", style="green")


COMMAND = Command(
    "verify",
    "compute the views anew and compare; check every file",
    "Computes materialized views anew from the base tables with DuckDB, compares them with what the flow\n"
    "holds, and checks every byte of its files. Prints the differences; the exit code is 1 if there are any.\n"
    "It reads beside a running writer and does not disturb it.",
    add_arguments,
    run,
)
