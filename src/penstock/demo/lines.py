"""The demo where there is no terminal: one plain line every two seconds."""

from __future__ import annotations

from penstock.demo.run import Run
from penstock.demo.summary import summary_lines

LINE_EVERY_S = 2.0


class Lines:
    """Prints what the screen would show, in words."""

    def __init__(self) -> None:
        self.next_line_s = 0.0

    def loading(self, text: str) -> None:
        print(text, flush=True)

    def show(self, run: Run) -> None:
        if run.elapsed_s < self.next_line_s and run.elapsed_s < run.seconds:
            return
        self.next_line_s = run.elapsed_s + LINE_EVERY_S
        best = max(run.views["revenue_by_region"], key=lambda row: float(str(row["revenue"])))
        print(
            f"{run.elapsed_s:5.1f} s  {run.changes:7,} changes  {run.change_ms(50):.2f} ms each"
            f" (p99 {run.change_ms(99):.2f}), recompute {run.recompute_ms:.1f} ms"
            f"  first: {best['region']} {best['revenue']:,}",
            flush=True,
        )

    def summary(self, run: Run) -> None:
        for line, _ in summary_lines(run):
            print(line, flush=True)
