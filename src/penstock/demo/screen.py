"""The demo on a terminal: views that change while one looks at them."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from decimal import Decimal

from rich.console import Console, Group, JustifyMethod, RenderableType
from rich.live import Live
from rich.panel import Panel
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from penstock.demo.run import RECENT_CHANGES, Rows, Run
from penstock.demo.shop import REGIONS, SEGMENTS
from penstock.demo.summary import summary_lines

try:
    import termios
except ImportError:  # Windows
    termios = None  # type: ignore[assignment]

WIDTH_MAX = 120
BAR_CELLS = 10


class Screen:
    """Draws the run in place; what was drawn last stays above the summary."""

    def __init__(self, console: Console) -> None:
        self.console = console
        self.width = min(console.width, WIDTH_MAX)
        self.live: Live | None = None
        self.drawing = ExitStack()

    def loading(self, text: str) -> None:
        self._end()
        self.console.print(Text(text, style="dim"))

    def show(self, run: Run) -> None:
        if self.live is None:
            self.drawing.enter_context(no_echo_of_keys())
            self.live = self.drawing.enter_context(Live(console=self.console, auto_refresh=False))
        self.live.update(picture(run, self.width), refresh=True)

    def summary(self, run: Run) -> None:
        self._end()
        for line, good in summary_lines(run):
            style = {True: "bold green", False: "bold red", None: ""}[good]
            self.console.print(Text(line, style=style), width=self.width)

    def _end(self) -> None:
        self.drawing.close()
        self.live = None


@contextmanager
def no_echo_of_keys() -> Iterator[None]:
    """While it draws, a key (such as Ctrl-C) must not print itself into the picture."""
    if termios is None or not sys.stdin.isatty():
        yield
        return
    before = termios.tcgetattr(sys.stdin)
    quiet = [*before]
    quiet[3] &= ~termios.ECHO
    termios.tcsetattr(sys.stdin, termios.TCSADRAIN, quiet)
    try:
        yield
    finally:
        termios.tcsetattr(sys.stdin, termios.TCSADRAIN, before)


def picture(run: Run, width: int) -> RenderableType:
    """One frame, 22 lines high so that it fits an 80 x 24 terminal."""
    left, right = Table.grid(padding=(0, 0)), Table.grid(padding=(0, 0))
    half = width // 2
    left.add_column(width=half)
    right.add_column(width=width - half)
    left.add_row(
        _titled("Revenue by region", _regions(run.views["revenue_by_region"], run.views["region_share"]))
    )
    left.add_row(_titled("What just happened", _recent(run)))
    right.add_row(_titled("Best sellers", _products(run.views["top_products"])))
    right.add_row(_titled("By segment", _segments(run)))
    views = Table.grid(padding=(0, 0))
    views.add_row(left, right)
    return Group(_header(run, width), views, _times(run, width))


def _header(run: Run, width: int) -> RenderableType:
    line = Table.grid(expand=True, padding=(0, 1))
    line.add_column(ratio=1)
    line.add_column(justify="right")
    title = Text.assemble(("penstock", "bold cyan"), "  views that keep up with a stream of orders")
    left_s = max(0.0, run.seconds - run.elapsed_s)
    line.add_row(title, Text(f"{left_s:.0f} s left" if left_s >= 1 else "done", style="dim"))
    bar = Table.grid()
    bar.add_row(ProgressBar(total=run.seconds, completed=min(run.elapsed_s, run.seconds), width=width))
    return Group(line, bar)


def _titled(title: str, body: RenderableType) -> Panel:
    return Panel(
        body, title=Text(title, style="bold"), title_align="left", border_style="dim", padding=(0, 1)
    )


def _plain_table(*columns: tuple[str, JustifyMethod]) -> Table:
    table = Table(box=None, expand=True, padding=(0, 1, 0, 0), header_style="dim")
    for name, justify in columns:
        table.add_column(name, justify=justify, no_wrap=True)
    return table


def _regions(regions: Rows, shares: Rows) -> Table:
    table = _plain_table(("", "left"), ("revenue", "right"), ("share", "right"), ("", "left"))
    revenue = {row["region"]: row["revenue"] for row in regions}
    share = {row["region"]: float(str(row["share"])) for row in shares}
    most = max(share.values(), default=1.0)
    for region in REGIONS:
        cells = round(BAR_CELLS * share.get(region, 0.0) / most)
        bar = Text("█" * cells, style="cyan")
        table.add_row(region, money(revenue.get(region)), f"{share.get(region, 0.0):.1%}", bar)
    return table


def _products(products: Rows) -> Table:
    table = _plain_table(("", "left"), ("sold", "right"), ("revenue", "right"))
    for row in sorted(products, key=lambda row: (-float(str(row["revenue"])), str(row["name"]))):
        table.add_row(str(row["name"]), f"{row['sold']:,}", money(row["revenue"]))
    return table


def _segments(run: Run) -> Table:
    table = _plain_table(("", "left"), ("open orders", "right"), ("never ordered", "right"))
    open_orders = {row["segment"]: row["orders"] for row in run.views["open_orders"]}
    without = {row["segment"]: row["customers"] for row in run.views["without_orders_by_segment"]}
    for segment in SEGMENTS:
        table.add_row(segment, f"{open_orders.get(segment, 0):,}", f"{without.get(segment, 0):,}")
    return table


def _recent(run: Run) -> RenderableType:
    colours = {"+": "green", "-": "red", "~": "yellow"}
    lines = [Text(text, style=colours[text[0]], no_wrap=True, overflow="ellipsis") for text in run.recent]
    return Group(*lines, *[Text("")] * (RECENT_CHANGES - len(lines)))


def _times(run: Run, width: int) -> RenderableType:
    body = Table.grid(expand=True, padding=(0, 1))
    for _ in range(4):
        body.add_column(justify="center", ratio=1)
    rate = run.changes / run.elapsed_s if run.elapsed_s else 0.0
    body.add_row(
        Text(f"{run.changes:,}", style="bold"),
        Text(f"{run.change_ms(50):.2f} ms", style="bold green"),
        Text(f"{run.recompute_ms:.1f} ms", style="bold"),
        Text(f"{run.times_faster:,.0f}", style="bold green"),
    )
    body.add_row(
        Text(f"changes, {rate:,.0f}/s", style="dim"),
        Text(f"p50, p99 {run.change_ms(99):.2f} ms", style="dim"),
        Text("to recompute", style="dim"),
        Text("times faster", style="dim"),
    )
    return Panel(body, border_style="cyan", width=width)


def money(value: object) -> str:
    """An amount without cents, or nothing.

    >>> money(Decimal("1234567.89"))
    '1,234,568'
    """
    return f"{value:,.0f}" if isinstance(value, Decimal) else ""
