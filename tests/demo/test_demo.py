"""The demo: it runs to its end, its views are right, and its picture fits an 80 x 24 terminal."""

from __future__ import annotations

import pytest
from rich.console import Console

from penstock.demo.__main__ import main
from penstock.demo.lines import Lines
from penstock.demo.run import Run, run_demo
from penstock.demo.screen import picture
from penstock.demo.shop import KEYS, Shop
from penstock.demo.stream import changes


def test_the_views_equal_a_recomputation_in_the_end(capsys: pytest.CaptureFixture[str]) -> None:
    run = run_demo(1.0, 2, Lines(), spark=False)
    assert run.changes > 0
    assert run.views_wrong == []
    shown = capsys.readouterr().out
    assert "changes" in shown
    assert "views equal DuckDB's answer over the same rows" in shown


def test_it_ends_with_code_0_without_a_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--seconds", "0.2", "--no-spark"]) == 0
    assert "\x1b" not in capsys.readouterr().out


def test_wrong_views_are_said_and_end_with_code_1(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("penstock.demo.run.same_rows", lambda ours, theirs: False)
    assert main(["--seconds", "0.1", "--no-spark"]) == 1
    assert "NOT the same as DuckDB's answer: revenue_by_region" in capsys.readouterr().out


@pytest.mark.parametrize("width", [80, 120])
def test_the_picture_fits(width: int) -> None:
    run = Run(25.0)
    run.elapsed_s = 3.0
    run.change_times_s = [0.0123] * 10_000
    run.recompute_times_s = [1.2345]
    run.recent.extend(["+ order 1,030,338: 4 lines, 12,158.99", "- order 28,079: cancelled"])
    names = ("revenue_by_region", "region_share", "top_products", "open_orders", "without_orders_by_segment")
    run.views = {name: [] for name in names}
    console = Console(width=width, record=True, file=None, force_terminal=False)
    with console.capture() as capture:
        console.print(picture(run, width))
    lines = capture.get().rstrip("\n").split("\n")
    assert len(lines) <= 22
    assert max(map(len, lines)) <= width


def test_changes_never_touch_a_row_that_is_not_there() -> None:
    """What a change removes was there, what it adds was not: by key, for some thousand changes."""
    shop = Shop(3)
    rows = {
        name: {_key(name, row): row for row in table.to_pylist()} for name, table in shop.tables().items()
    }
    for _, change in zip(range(3_000), changes(shop), strict=False):
        for table, delta in change.rows.items():
            for row, weight in delta:
                if weight < 0:
                    assert rows[table].pop(_key(table, row)) == row
                else:
                    assert rows[table].setdefault(_key(table, row), row) is row


def _key(table: str, row: dict[str, object]) -> tuple[object, ...]:
    return tuple(row[column] for column in KEYS[table])
