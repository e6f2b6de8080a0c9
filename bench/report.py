"""The table that the benchmark prints: one line for each figure, against a target or without one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from rich import box
from rich.console import Console, JustifyMethod
from rich.table import Table
from rich.text import Text


@dataclass(frozen=True)
class Figure:
    """One measured ratio, and the bound that we hold ourselves to (None: for information)."""

    name: str
    peer_name: str
    ours: float
    peer: float
    unit: str
    ratio: float
    at_most: float | None = None
    at_least: float | None = None

    @property
    def met(self) -> bool | None:
        """
        >>> Figure("load", "pathway", 9.0, 2.0, "rows/s", 4.5, at_least=3).met
        True
        """
        if self.at_most is not None:
            return self.ratio <= self.at_most
        if self.at_least is not None:
            return self.ratio >= self.at_least
        return None

    @property
    def target(self) -> str:
        if self.at_most is not None:
            return f"at most {self.at_most:g}x"
        return f"at least {self.at_least:g}x" if self.at_least is not None else ""


@dataclass(frozen=True)
class Section:
    """What one part of the benchmark found: lines of the table, and text to be printed below it."""

    figures: tuple[Figure, ...]
    details: str = ""
    wrong: tuple[str, ...] = ()  # answers that were not right: a benchmark of these says nothing

    def to_json(self) -> dict[str, Any]:
        figures = [{**asdict(f), "met": f.met} for f in self.figures]
        return {"figures": figures, "details": self.details, "wrong": list(self.wrong)}

    @staticmethod
    def from_json(found: dict[str, Any]) -> Section:
        figures = tuple(Figure(**{k: v for k, v in f.items() if k != "met"}) for f in found["figures"])
        return Section(figures, found["details"], tuple(found["wrong"]))


def quantity(value: float, unit: str) -> str:
    """A value with its unit, in three digits or so.

    >>> quantity(0.1234, "ms"), quantity(3_200_000, "rows/s"), quantity(52.4, "B/row")
    ('0.123 ms', '3.2 M rows/s', '52.4 B/row')
    """
    for limit, letter in ((1e9, "G "), (1e6, "M "), (1e4, "k ")):
        if value >= limit:
            return f"{value / (1e3 if limit == 1e4 else limit):.3g} {letter}{unit}".rstrip()
    return f"{value:.3g} {unit}".rstrip()


def print_report(title: str, sections: Sequence[Section], console: Console) -> None:
    """The table, then the details."""
    table = Table(
        title=title, title_justify="left", title_style="bold", header_style="dim", box=box.SIMPLE_HEAD
    )
    columns: tuple[tuple[str, JustifyMethod], ...] = (
        ("what", "left"), ("ours", "right"), ("peer", "right"), ("", "left"), ("ratio", "right"),
        ("target", "left"), ("", "left"),
    )  # fmt: skip
    for name, justify in columns:
        table.add_column(name, justify=justify)
    for section in sections:
        for f in section.figures:
            table.add_row(
                f.name, quantity(f.ours, f.unit), quantity(f.peer, f.unit), f.peer_name, f"{f.ratio:.3g}x",
                f.target, verdict(f.met),
            )  # fmt: skip
        table.add_section()
    console.print(table)
    for section in sections:
        if section.details:
            console.print(section.details, highlight=False, markup=False)
    for problem in (problem for section in sections for problem in section.wrong):
        console.print(Text(f"WRONG: {problem}", style="bold red"))


def verdict(met: bool | None) -> Text:
    if met is None:
        return Text("")
    return Text("met", style="green") if met else Text("missed", style="bold red")
