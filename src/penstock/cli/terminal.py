"""Where a command writes: results to stdout, everything else to stderr, a bar only where somebody looks."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskProgressColumn, TextColumn
from rich.text import Text


class _Console(Console):
    def on_broken_pipe(self) -> None:
        raise BrokenPipeError  # for `main`, which knows the exit code


class Terminal:
    """The output of one run."""

    def __init__(self, quiet: bool = False, color: bool = True) -> None:
        self.quiet = quiet
        self._out = _Console(file=sys.stdout, highlight=False, no_color=not color, soft_wrap=True)
        self._err = _Console(file=sys.stderr, highlight=False, no_color=not color, soft_wrap=True)

    # -- results ---------------------------------------------------------------------------

    def say(self, text: str = "", style: str = "") -> None:
        """A line of the result."""
        self._out.print(Text(text, style=style))

    def raw(self, text: str) -> None:
        """A line of the result exactly as it is, tabs and all."""
        self._out.file.write(text + "\n")

    def json(self, value: Any) -> None:
        """A result for programs."""
        self._out.file.write(json.dumps(value, indent=2, ensure_ascii=False, default=str) + "\n")

    def table(self, head: Sequence[str], rows: Sequence[Sequence[object]], indent: int = 2) -> None:
        """Lines in columns, numbers to the right; never cut, since a line may be read by a program."""
        cells = [[_cell(value) for value in row] for row in rows]
        right = [all(isinstance(row[i], int) or row[i] is None for row in rows) for i in range(len(head))]
        widths = [max(len(line[i]) for line in [list(head), *cells]) for i in range(len(head))]
        for number, line in enumerate([list(head), *cells]):
            parts = [c.rjust(w) if r else c.ljust(w) for c, w, r in zip(line, widths, right, strict=True)]
            self.say(" " * indent + "  ".join(parts).rstrip(), style="" if number else "bold")

    def flush(self) -> None:
        """Let a program that waits for the lines have them now."""
        self._out.file.flush()

    # -- everything else -------------------------------------------------------------------

    def note(self, text: str) -> None:
        """What is worth knowing and is not the result."""
        if not self.quiet:
            self._err.print(Text(text))

    def error(self, message: str, hint: str | None = None) -> None:
        """What went wrong, in one line, and what to do in another."""
        self._err.print(Text("error: ", style="bold red") + Text(_one_line(message)))
        if hint:
            self._err.print(Text("hint: ", style="bold") + Text(_one_line(hint)))

    def confirm(self, question: str) -> bool | None:
        """The answer of whoever sits at the terminal; None if nobody does."""
        if not (sys.stdin.isatty() and self._err.is_terminal):
            return None
        self._err.print(Text(f"{question} [y/N] "), end="")
        return sys.stdin.readline().strip().lower() in ("y", "yes")

    @contextmanager
    def progress(self, title: str, of_bytes: bool = False) -> Iterator[Callable[[int, int], None]]:
        """A bar while the work lasts, if stderr is a terminal."""
        if self.quiet or not self._err.is_terminal:
            yield lambda done, total: None
            return
        count = TaskProgressColumn() if of_bytes else MofNCompleteColumn()
        with Progress(TextColumn(title), BarColumn(), count, console=self._err, transient=True) as bar:
            task = bar.add_task(title, total=None)
            yield lambda done, total: bar.update(task, completed=done, total=total)


def _cell(value: object) -> str:
    if value is None:
        return "-"
    return f"{value:,}" if isinstance(value, int) else str(value)


def _one_line(text: str) -> str:
    return " ".join(text.split())
