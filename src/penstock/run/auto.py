"""Inline or on Spark, epoch by epoch: whichever is expected to take less time, by what earlier epochs took.

    inline:  seconds = rows x (seconds a row, measured)
    Spark:   seconds = (seconds that a job takes, measured) + rows x (seconds a row there, measured)
             + the start of a session, if there is none yet

Rows are those of the delta, or for a new view those that it reads. Figures begin with what was seen on a small
machine (until an epoch of many rows has run there, a row is taken to cost SPARK_OVERHEAD times as much on Spark,
shared by its cores), and every epoch of many rows corrects them a little. A DataFrame always goes to Spark, and
teaches as well.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Protocol

from penstock.base.limits import AUTO_ROWS_MIN
from penstock.circuit.circuit import Circuit, CircuitNode
from penstock.circuit.operator import Delta
from penstock.run.compile import Outputs
from penstock.run.distributed import Distributed, Needed, Relations, SourceFrame, changed_rows
from penstock.run.inline import Epoch, fill, run

INLINE_ROW_S = 1e-6
SPARK_JOB_S = 0.5
SPARK_START_S = 8.0
SPARK_OVERHEAD = (
    2.0  # a row costs this much more on Spark: it crosses processes, and state is written to files
)
WEIGHT = 0.2  # of the newest measurement


class Session(Protocol):
    """What it needs to know of Spark."""

    @property
    def is_ready(self) -> bool: ...

    def start_in_background(self) -> None: ...


class Auto:
    """An executor that chooses. `switched` is told of every change, with the figures that caused it."""

    def __init__(
        self, spark: Distributed, session: Session, switched: Callable[[str, str, dict[str, float]], None]
    ) -> None:
        self._spark = spark
        self._session = session
        self._switched = switched
        self._now = "inline"
        self._row_s = INLINE_ROW_S
        self._job_s = SPARK_JOB_S
        self._spark_row_s: float | None = None  # not known before an epoch of many rows has run there

    def run(self, circuit: Circuit, changes: Mapping[int, Delta], outputs: Outputs) -> Epoch:
        rows = changed_rows(changes)
        return self._timed(
            rows,
            lambda: run(circuit, dict(changes)),
            lambda: self._spark.run(circuit, changes, outputs),
        )

    def run_frames(
        self,
        circuit: Circuit,
        changes: Mapping[int, Delta],
        outputs: Outputs,
        frames: Sequence[SourceFrame],
    ) -> Epoch:
        """A DataFrame's rows are where Spark is, however many they are."""
        rows = changed_rows(changes)
        self._note("spark", rows, None)
        began = time.perf_counter()
        epoch = self._spark.run_frames(circuit, changes, outputs, frames)
        self._learn_spark(rows + epoch.rows_read, time.perf_counter() - began)
        return epoch

    def fill(
        self,
        nodes: Mapping[int, CircuitNode],
        new: Iterable[int],
        root: int,
        relations: Relations,
        is_known: Callable[[int], bool],
        outputs: Outputs,
    ) -> Epoch:
        rows = Needed(nodes, new, root, relations, is_known).rows

        def contents(id: int) -> Delta:
            if id not in relations:
                return None
            found = relations[id]()[1].contents()
            return None if found is None else found.zset()

        return self._timed(
            rows,
            lambda: fill(dict(nodes), new, root, contents, is_known),
            lambda: self._spark.fill(nodes, new, root, relations, is_known, outputs),
        )

    def choose(self, rows: int) -> str:
        """Where an epoch of so many rows is to run."""
        if rows < AUTO_ROWS_MIN:
            return self._note("inline", rows, None)
        inline_s = rows * self._row_s
        spark_s = self._job_s + rows * self._row_on_spark()
        if not self._session.is_ready:
            if inline_s > spark_s:
                self._session.start_in_background()  # for the next one, if not for this
            spark_s += SPARK_START_S
        return self._note("spark" if spark_s < inline_s else "inline", rows, (inline_s, spark_s))

    def _note(self, chosen: str, rows: int, seconds: tuple[float, float] | None) -> str:
        if chosen != self._now:
            figures: dict[str, float] = {"rows": rows}
            if seconds is not None:
                figures |= {"inline_seconds": round(seconds[0], 6), "spark_seconds": round(seconds[1], 6)}
            self._switched(chosen, self._now, figures)
            self._now = chosen
        return chosen

    def _row_on_spark(self) -> float:
        if self._spark_row_s is not None:
            return self._spark_row_s
        return self._row_s * SPARK_OVERHEAD / max(1, self._spark.cores())

    def _learn_spark(self, rows: int, took: float) -> None:
        """A small epoch tells what a job costs, a large one what a row does."""
        if rows < AUTO_ROWS_MIN:
            self._job_s += WEIGHT * (took - self._job_s)
        else:
            known, seen = self._row_on_spark(), max(0.0, took - self._job_s) / rows
            self._spark_row_s = known + WEIGHT * (seen - known)

    def _timed(self, rows: int, inline: Callable[[], Epoch], spark: Callable[[], Epoch]) -> Epoch:
        where = self.choose(rows)
        began = time.perf_counter()
        epoch = inline() if where == "inline" else spark()
        took = time.perf_counter() - began
        if where == "spark":
            self._learn_spark(rows, took)
        elif rows >= AUTO_ROWS_MIN:  # what a tick costs whatever its rows says nothing of a row
            self._row_s += WEIGHT * (took / rows - self._row_s)
        return epoch
