"""What one epoch did, as tick() returns it."""

from __future__ import annotations

from functools import cached_property

from penstock.engine.consolidate import consolidated
from penstock.run.receipt import Worked
from penstock.run.spark.engine import JobFigures
from penstock.state.scattered import Rows, rows_of
from penstock.zset.zset import ZSet


class TickSummary:
    """What one epoch did."""

    __slots__ = (
        "__dict__", "_changes", "duration_ms", "epoch", "repeated", "rows_in",
        "spark_jobs", "spark_stages", "spark_tasks",
    )  # fmt: skip

    def __init__(
        self,
        epoch: int,
        rows_in: int,
        duration_ms: float,
        changes: dict[str, Rows],
        repeated: tuple[str, ...] = (),
    ) -> None:
        self.epoch = epoch
        self.repeated = repeated  # sources whose delta had been applied before, and was not again
        self.rows_in = rows_in
        self.duration_ms = duration_ms
        self._changes = changes
        self.spark_jobs = 0  # what it took where the epoch ran on Spark
        self.spark_stages = 0
        self.spark_tasks: tuple[Worked, ...] = ()

    def took(self, figures: JobFigures) -> None:
        self.spark_jobs, self.spark_stages, self.spark_tasks = figures.jobs, figures.stages, figures.tasks

    @cached_property
    def views(self) -> dict[str, int]:
        """The views that changed, each with the number of its rows that came or went."""
        counts = {n: _count(rows_of(rows)) for n, rows in self._changes.items()}
        return {name: count for name, count in counts.items() if count}

    @property
    def rows_out(self) -> int:
        """Rows that came or went, over all views."""
        return sum(self.views.values())

    def __repr__(self) -> str:
        return (
            f"TickSummary(epoch={self.epoch}, rows_in={self.rows_in}, rows_out={self.rows_out}, "
            f"duration_ms={self.duration_ms:.3f}, views={self.views})"
        )


def _count(rows: ZSet) -> int:
    return len(consolidated(rows, tuple([column.type for column in rows.columns])))
