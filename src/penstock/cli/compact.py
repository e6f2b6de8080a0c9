"""penstock compact URL: merge the state into few files, and delete what that frees."""

from __future__ import annotations

import argparse

from penstock.cli.amounts import plural
from penstock.cli.command import FINE, USAGE, Command
from penstock.cli.options import add_yes, may_write, storage_options
from penstock.cli.terminal import Terminal
from penstock.engine.flow import Flow


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("url", metavar="URL", help="where the flow is")
    add_yes(parser)


def run(options: argparse.Namespace, terminal: Terminal) -> int:
    (given,) = storage_options(options, options.url)
    if not may_write(options.url, given, options.yes, terminal):
        return USAGE
    with Flow(options.url, storage_options=given) as flow:
        with terminal.progress("merging") as progress:
            deleted = flow.compact(progress)
        epoch = flow.epoch
    terminal.say(f"Every arrangement is one batch as of epoch {epoch}; {plural(deleted, 'file')} deleted.")
    return FINE


COMMAND = Command(
    "compact",
    "merge the state into one batch each, and delete what that frees (opens for writing)",
    "Merges every arrangement, table and view into one batch, writes it, and deletes the files that nothing\n"
    "names any more, at once. Flows merge by themselves as they go: this is for before a long rest, or a copy.\n\n"
    "It opens the flow for WRITING: a process that has it open for writing is stopped. On a terminal it asks\n"
    "first; elsewhere it needs --yes. A program that has the flow open calls flow.compact() instead.",
    add_arguments,
    run,
)
