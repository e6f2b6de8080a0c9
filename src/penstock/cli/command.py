"""What a subcommand is: one file with one of these, named in `COMMANDS` in main.py."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from dataclasses import dataclass

from penstock.cli.terminal import Terminal

FINE = 0
DIFFERENT = 1  # verify found something
USAGE = 2  # the command was not used rightly: arguments, no flow there, no such view
FAILED = 3  # storage, or the flow, did not let it
INTERRUPTED = 130  # Ctrl-C: what a shell reports
BROKEN_PIPE = 141  # nobody reads the output any more: what a shell reports


class UsageError(Exception):
    """The command line makes no sense."""

    def __init__(self, message: str, hint: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint


@dataclass(frozen=True)
class Command:
    """A subcommand: its arguments beyond those that all have, and what it does; it returns the exit code."""

    name: str
    summary: str  # one line
    details: str
    add_arguments: Callable[[argparse.ArgumentParser], None]
    run: Callable[[argparse.Namespace, Terminal], int]
