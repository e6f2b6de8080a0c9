"""The command `penstock`: finds the subcommand, runs it, and turns what goes wrong into an exit code."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from typing import NoReturn

import penstock
from penstock.base.errors import (
    DuplicateObject,
    FlowNotFound,
    HistoryGone,
    InvalidLocation,
    InvalidOption,
    PenstockError,
    UndefinedTable,
    WrongObjectType,
)
from penstock.cli import (
    audit,
    branch,
    checkpoint,
    compact,
    explain,
    inspect,
    pipelines,
    restore,
    sql,
    start,
    support,
    verify,
)
from penstock.cli.command import BROKEN_PIPE, FAILED, INTERRUPTED, USAGE, Command, UsageError
from penstock.cli.options import add_common
from penstock.cli.terminal import Terminal

COMMANDS: tuple[Command, ...] = (
    start.COMMAND,
    sql.COMMAND,
    explain.COMMAND,
    audit.COMMAND,
    inspect.COMMAND,
    verify.COMMAND,
    compact.COMMAND,
    checkpoint.COMMAND,
    restore.COMMAND,
    branch.COMMAND,
    support.COMMAND,
    pipelines.COMMAND,
)

EXIT_CODES = """\
exit codes:
  0    done, and all is well
  1    verify: views that differ, or files that are corrupt
  2    wrong use: the arguments, no flow at the URL, no such view or epoch
  3    it failed: the storage, or the state of the flow
  130  ended by Ctrl-C
"""

# Errors that another command line would not have met.
_OF_USE = (
    DuplicateObject,
    FlowNotFound,
    HistoryGone,
    InvalidLocation,
    InvalidOption,
    UndefinedTable,
    WrongObjectType,
)


class _Parser(argparse.ArgumentParser):
    """A parser that leaves it to us to say what is wrong."""

    def error(self, message: str) -> NoReturn:
        raise UsageError(message, f"See {self.prog} --help.")


def parser() -> argparse.ArgumentParser:
    """All subcommands with their arguments."""
    plain = argparse.RawDescriptionHelpFormatter
    top = _Parser(
        prog="penstock",
        description="Serves flows to Postgres clients, and looks after those that are kept on storage.",
        epilog=EXIT_CODES,
        formatter_class=plain,
    )
    top.add_argument("--version", action="version", version=f"penstock {penstock.__version__}")
    subcommands = top.add_subparsers(title="commands", metavar="COMMAND", required=True)
    for command in COMMANDS:
        sub = subcommands.add_parser(
            command.name,
            help=command.summary,
            description=command.details,
            epilog=EXIT_CODES,
            formatter_class=plain,
        )
        command.add_arguments(sub)
        add_common(sub)
        sub.set_defaults(command=command)
    return top


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; the exit code."""
    terminal = Terminal()
    try:
        options = parser().parse_args(arguments)
        terminal = Terminal(options.quiet, not options.no_color)
        code: int = options.command.run(options, terminal)
        sys.stdout.flush()  # here, where a reader that is gone can be told from a failure
        return code
    except SystemExit as ended:  # --help and --version
        return ended.code if isinstance(ended.code, int) else USAGE
    except UsageError as error:
        terminal.error(error.message, error.hint)
        return USAGE
    except PenstockError as error:
        terminal.error(error.message, error.hint)
        return USAGE if isinstance(error, _OF_USE) else FAILED
    except KeyboardInterrupt:
        terminal.note("Interrupted.")
        return INTERRUPTED
    except BrokenPipeError:
        # Python would try to flush stdout once more when it ends, and complain.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return BROKEN_PIPE
