"""Inline or on Spark, epoch by epoch: whichever is expected to take less time, by what earlier epochs took.

    inline:  seconds = rows x (seconds a row, measured)
    Spark:   seconds = (seconds that a job takes, measured) + rows x (seconds a row there, measured)
             + the start of a session, if there is none yet

Rows are those of the delta, or for a new view those that it reads. Figures begin with what was seen on a small
machine (until an epoch of many rows has run there, a row is taken to cost SPARK_OVERHEAD times as much on Spark,
shared by its cores), and every epoch of many rows corrects them a little. A DataFrame always goes to Spark, and
teaches as well. Where Spark cannot be started everything else runs inline, and that is told once.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Protocol

from penstock.base.errors import PenstockError
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

QUICKER = "expected to take less time"
READ_BY_TASKS = "tasks read a DataFrame"

# Where epochs run now and where they ran before, why, and the figures that say so (none, if it was not for figures).
Switched = Callable[[str, str, str, dict[str, float]], None]


class Session(Protocol):
    """What it needs to know of Spark."""

    @property
    def is_ready(self) -> bool: ...

    @property
    def failure(self) -> PenstockError | None:
        """Why it could not be started, when that was last tried."""
        ...

    def cores(self) -> int | None:
        """None if there is no session yet."""
        ...

    def session(self) -> object:
        """Have it, started if need be."""
        ...

    def start_in_background(self) -> None: ...


class Auto:
    """An executor that chooses. `switched` is told of every change, and what caused it."""

    def __init__(self, spark: Distributed, session: Session, switched: Switched) -> None:
        self._spark = spark
        self._session = session
        self._switched = switched
        self._now = "inline"
        self._without: str | None = None  # why there is no Spark, as it was told
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
        began = time.perf_counter()
        epoch = self._spark.run_frames(circuit, changes, outputs, frames)
        self._learn_spark(changed_rows(changes) + epoch.rows_read, time.perf_counter() - began)
        self._note("spark", READ_BY_TASKS, {})
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
        figures: dict[str, float] = {"rows": rows}
        if rows < AUTO_ROWS_MIN:
            return self._note("inline", QUICKER, figures)
        if self._session.failure is not None:
            return self._do_without(self._session.failure)
        inline_s = rows * self._row_s
        spark_s = self._job_s + rows * self._row_on_spark()
        if not self._session.is_ready:
            if inline_s > spark_s:
                self._session.start_in_background()  # for the next one, if not for this
            spark_s += SPARK_START_S
        figures |= {"inline_seconds": round(inline_s, 6), "spark_seconds": round(spark_s, 6)}
        if spark_s >= inline_s:
            return self._note("inline", QUICKER, figures)
        try:
            self._session.session()
        except PenstockError as error:
            return self._do_without(error)
        return self._note("spark", QUICKER, figures)

    def _do_without(self, error: PenstockError) -> str:
        """Inline, whatever it takes. Said once, even if it has been inline all along."""
        why = f"Spark cannot be used: {error.message}"
        if self._without != why or self._now != "inline":
            self._switched("inline", self._now, why, {})
            self._without, self._now = why, "inline"
        return "inline"

    def _note(self, chosen: str, why: str, figures: dict[str, float]) -> str:
        if chosen != self._now:
            self._switched(chosen, self._now, why, figures)
            self._now = chosen
        return chosen

    def _row_on_spark(self) -> float:
        if self._spark_row_s is not None:
            return self._spark_row_s
        return self._row_s * SPARK_OVERHEAD / max(1, self._session.cores() or self._spark.cores())

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
