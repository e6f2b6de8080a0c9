"""penstock restore CHECKPOINT TARGET: a flow made of a checkpoint."""

from __future__ import annotations

import argparse

from penstock.cli.amounts import plural, size
from penstock.cli.command import FINE, Command
from penstock.cli.options import storage_options
from penstock.cli.terminal import Terminal
from penstock.engine.flow import Flow


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("checkpoint", metavar="CHECKPOINT", help="where the checkpoints are")
    parser.add_argument("target", metavar="TARGET", help="where the flow shall be; there must be none yet")
    parser.add_argument("--epoch", metavar="N", type=int, help="the checkpoint of this epoch, not the newest")


def run(options: argparse.Namespace, terminal: Terminal) -> int:
    first, second = storage_options(options, options.checkpoint, options.target)
    with terminal.progress("copying", of_bytes=True) as progress:
        made = Flow.restore(
            options.checkpoint,
            options.target,
            epoch=options.epoch,
            storage_options=first or second,
            progress=progress,
        )
    copied = f"{plural(made.files_copied, 'file')} copied, {size(made.bytes_copied)}"
    terminal.say(f"The flow at {options.target} is as of epoch {made.epoch}: {copied}.")
    return FINE


COMMAND = Command(
    "restore",
    "make a flow of a checkpoint",
    "Makes a flow of the newest checkpoint at a place, or of that of an epoch. The target must be empty.",
    add_arguments,
    run,
)
