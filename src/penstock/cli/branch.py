"""penstock branch URL TARGET: a second flow that begins as the first one is now, and shares its files."""

from __future__ import annotations

import argparse

from penstock.cli.amounts import plural
from penstock.cli.command import FINE, USAGE, Command
from penstock.cli.options import add_yes, may_write, storage_options
from penstock.cli.terminal import Terminal
from penstock.engine.flow import Flow


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("url", metavar="URL", help="where the flow is")
    parser.add_argument("target", metavar="TARGET", help="where the branch shall be; there must be none yet")
    add_yes(parser)


def run(options: argparse.Namespace, terminal: Terminal) -> int:
    given, for_target = storage_options(options, options.url, options.target)
    if not may_write(options.url, given, options.yes, terminal):
        return USAGE
    with Flow(options.url, storage_options=given) as flow:
        made = flow.branch(options.target, storage_options=for_target)
    shared = plural(made.files, "file")
    terminal.say(
        f"The flow at {options.target} begins at epoch {made.epoch} of {options.url}; they share {shared}."
    )
    return FINE


COMMAND = Command(
    "branch",
    "a second flow from here on, sharing the files (opens for writing)",
    "Makes a second flow that begins as this one is now. Nothing is copied: the branch reads the files of this\n"
    "flow, which keeps them as long as the branch is there.\n\n"
    "It opens the flow for WRITING: a process that has it open for writing is stopped. On a terminal it asks\n"
    "first; elsewhere it needs --yes. A program that has the flow open calls flow.branch(target) instead.",
    add_arguments,
    run,
)
