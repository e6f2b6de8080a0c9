"""The last words of the demo, the same on a screen and in a log."""

from __future__ import annotations

from penstock.demo.run import Run
from penstock.demo.shop import VIEWS


def summary_lines(run: Run) -> list[tuple[str, bool | None]]:
    """Lines of text; each is good news (True), bad news (False) or neither (None)."""
    views = f"{len(VIEWS)} views"
    lines: list[tuple[str, bool | None]] = [
        ("", None),
        (
            f"loaded         {run.rows_loaded:,} rows into {views} in {run.load_s:.2f} s, by {run.loaded_by}",
            None,
        ),
        (
            f"applied        {run.changes:,} changes ({run.rows_changed:,} rows) in {run.elapsed_s:.1f} s, inline",
            None,
        ),
        (
            f"each took      {run.change_ms(50):.2f} ms (p50), {run.change_ms(99):.2f} ms (p99), all {views}",
            None,
        ),
        (f"recomputing    {run.recompute_ms:.1f} ms for the {views} after each change (DuckDB)", None),
        (f"so it was      {run.times_faster:,.0f} times faster than recomputing", run.times_faster > 1),
    ]
    if run.no_spark is not None:
        lines.append((f"without Spark  {run.no_spark}", None))
    if run.interrupted:
        lines.insert(1, ("You stopped it. Until then:", None))
    if run.views_wrong:
        lines.append((f"NOT the same as DuckDB's answer: {', '.join(run.views_wrong)}", False))
    else:
        lines.append((f"checked        all {views} equal DuckDB's answer over the same rows", True))
    return lines
