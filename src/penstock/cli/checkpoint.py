"""penstock checkpoint URL TARGET: an epoch of a flow, written to another place."""

from __future__ import annotations

import argparse

from penstock.cli.amounts import plural, size
from penstock.cli.command import FINE, USAGE, Command
from penstock.cli.options import add_yes, may_write, storage_options
from penstock.cli.terminal import Terminal
from penstock.engine.flow import Flow


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("url", metavar="URL", help="where the flow is")
    parser.add_argument("target", metavar="TARGET", help="where the checkpoint goes")
    parser.add_argument(
        "--full", action="store_true", help="a copy that shares no file with other checkpoints there"
    )
    add_yes(parser)


def run(options: argparse.Namespace, terminal: Terminal) -> int:
    given, for_target = storage_options(options, options.url, options.target)
    if not may_write(options.url, given, options.yes, terminal):
        return USAGE
    with Flow(options.url, storage_options=given) as flow:
        take = flow.checkpoint_full if options.full else flow.checkpoint
        with terminal.progress("copying", of_bytes=True) as progress:
            made = take(options.target, storage_options=for_target, progress=progress)
    copied = f"{made.files_copied:,} copied, {size(made.bytes_copied)}"
    terminal.say(f"Checkpoint {made.name} of epoch {made.epoch}: {plural(made.files, 'file')}, {copied}.")
    return FINE


COMMAND = Command(
    "checkpoint",
    "write an epoch to another place (opens for writing)",
    "Writes the current epoch of a flow to another place. Checkpoints at one place share their files, so that\n"
    "the second one copies only what is new.\n\n"
    "It opens the flow for WRITING: a process that has it open for writing is stopped. On a terminal it asks\n"
    "first; elsewhere it needs --yes. A program that has the flow open calls flow.checkpoint(target) instead.",
    add_arguments,
    run,
)
