"""Arguments that several subcommands have, and what becomes of them."""

from __future__ import annotations

import argparse

from penstock.cli.command import UsageError
from penstock.cli.terminal import Terminal
from penstock.engine.opening import open_reader
from penstock.store.location import Location

Options = dict[str, object] | None


def add_common(parser: argparse.ArgumentParser) -> None:
    """What every subcommand takes."""
    group = parser.add_argument_group("common options")
    group.add_argument(
        "--storage-option",
        metavar="KEY=VALUE",
        action="append",
        default=[],
        type=_pair,
        help="an option of remote storage, such as region=eu-west-1; may be given several times",
    )
    group.add_argument("--quiet", action="store_true", help="only results and errors")
    group.add_argument("--no-color", action="store_true", help="plain text, also on a terminal")


def _pair(text: str) -> tuple[str, str]:
    key, equals, value = text.partition("=")
    if not key or not equals:
        raise argparse.ArgumentTypeError(f"{text!r} is not KEY=VALUE")
    return key, value


def add_json(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--json", action="store_true", help="the result as JSON")


def add_yes(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--yes", action="store_true", help="take over from a process that has the flow open")


def storage_options(options: argparse.Namespace, *urls: str) -> list[Options]:
    """The storage options for each URL: those that are remote get them all."""
    given: dict[str, object] = dict(options.storage_option)
    if not given:
        return [None for _ in urls]
    remote = [Location.parse(url).is_remote for url in urls]
    if not any(remote):
        raise UsageError(
            f"{urls[0]!r} takes no storage options", "They are for s3://, gs:// and az:// locations."
        )
    return [given if is_remote else None for is_remote in remote]


def may_write(url: str, given: Options, yes: bool, terminal: Terminal) -> bool:
    """Whether the flow, which must be there, may be opened for writing: that stops whoever else writes it."""
    open_reader(Location.parse(url, given)).close()  # opening for writing would make one where there is none
    if yes:
        return True
    warning = f"This opens {url} for writing: a process that has it open for writing is stopped."
    answer = terminal.confirm(f"{warning} Go on?")
    if answer is None:
        raise UsageError(warning, "Say --yes if that is meant.")
    if not answer:
        terminal.note("Nothing was done.")
    return answer
