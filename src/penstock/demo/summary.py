"""The last words of the demo, the same on a screen and in a log."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path

from penstock.demo.run import Run
from penstock.demo.shop import VIEWS


def summary_lines(run: Run) -> list[tuple[str, bool | None]]:
    """Lines of text; each is good news (True), bad news (False) or neither (None)."""
    views = f"{len(VIEWS)} views"
    where = f"{run.changes_on_spark:,} of them on Spark" if run.changes_on_spark else "inline"
    lines: list[tuple[str, bool | None]] = [
        ("", None),
        (
            f"loaded         {run.rows_loaded:,} rows into {views} in {run.load_s:.2f} s, by {run.loaded_by}",
            None,
        ),
        (
            f"applied        {run.changes:,} changes ({run.rows_changed:,} rows) in {run.elapsed_s:.1f} s, {where}",
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
    lines += [
        ("", None),
        (f"go on with it  {_program()} start --demo", None),
        ("and then       psql -h 127.0.0.1 -p 6875 -U penstock penstock", None),
    ]
    return lines


def _program() -> str:
    """The command `penstock`, as it can be typed here."""
    if shutil.which("penstock") is not None:
        return "penstock"
    beside = Path(sys.executable).parent / "penstock"
    return os.path.relpath(beside) if beside.exists() else f"{Path(sys.executable).name} -m penstock"
