"""Where a flow's epochs run: here, on Spark, or wherever it costs less. Chosen at opening, and at any epoch after."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from penstock.base.errors import InvalidOption, PenstockError
from penstock.commit.compaction import merge_in_slices
from penstock.engine import opening, slots
from penstock.engine.core import Core
from penstock.engine.durable import Durable
from penstock.run.auto import Auto
from penstock.run.distributed import Executor, FrameExecutor
from penstock.run.spark.engine import NO_FIGURES, JobFigures, SparkEngine
from penstock.run.spark.session import Spark, is_at_hand
from penstock.state.batch import Batch, Layout

NAMES = ("inline", "spark", "auto")


class Engines:
    """The engine of one flow."""

    def __init__(self, core: Core, store: Durable | None, wanted: str | Spark | None) -> None:
        self._core = core
        self._store = store
        self._spark: Spark | None = None
        self._used: list[Spark] = []  # all that this flow has had: what was made with one may still be in use
        self.name = "inline"
        self._on_spark: SparkEngine | None = None
        self._told = NO_FIGURES  # the figures of the last job that `ran_on` has told of
        self.use(wanted)

    def use(self, wanted: str | Spark | None) -> None:
        """From the next epoch on."""
        if wanted is None:
            wanted = "auto" if self._store is not None and is_at_hand() else "inline"
        if isinstance(wanted, Spark):
            name = "spark"
            self._take(wanted)
        elif wanted in NAMES:
            name = wanted
        else:
            raise InvalidOption(
                f"unknown engine {wanted!r}", hint='Use "inline", "spark", "auto" or penstock.Spark(...).'
            )
        before = self.name
        executor = None if name == "inline" else self._executor(name)
        self.name, self._core.executor = name, executor
        if before != name:
            self._core.audit.record("engine", to=name, was=before, why="asked for")

    def _executor(self, name: str) -> Executor | None:
        if self._store is None:
            if name == "auto":
                return None  # state in this process's memory is nowhere that tasks could read it
            raise InvalidOption(
                "the Spark engine needs storage that its tasks can reach, and this flow is in memory",
                hint="Give the flow a URL: a folder (for a Spark on this machine), s3://, gs:// or az://.",
            )
        if self._store.settings.location.scheme == "memory":
            if name == "auto":
                return None  # no more than there: also where it was chosen because the process has a session
            raise InvalidOption(
                "the Spark engine needs storage that its tasks can reach, and memory:// is in this process",
                hint="Use a folder (for a Spark on this machine), s3://, gs:// or az://.",
            )
        spark = self._spark or self._take(Spark())
        self._on_spark = self._made(self._store, spark)
        if name == "spark":
            self._store.flusher.merge_elsewhere = self._on_spark.merge
            return self._on_spark
        self._store.flusher.merge_elsewhere = self._merge_or_do_without
        return Auto(self._on_spark, spark, self._switched)

    def _take(self, spark: Spark) -> Spark:
        if spark not in self._used:
            spark.used_by_flow()
            self._used.append(spark)
        self._spark = spark
        return spark

    def _merge_or_do_without(self, layout: Layout, batches: Sequence[Batch]) -> Sequence[Batch]:
        """What auto promises holds for state too: where Spark cannot be started, it is put together here."""
        assert self._store is not None
        assert self._spark is not None
        assert self._on_spark is not None
        try:
            return self._on_spark.merge(layout, batches)
        except PenstockError:
            if self._spark.failure is None:
                raise
            self._store.flusher.merge_elsewhere = None
            return [merge_in_slices(layout, batches)]

    def _made(self, store: Durable, spark: Spark) -> SparkEngine:
        return SparkEngine(
            spark.session,
            opening.places_of(store.settings, store.flusher.manifest.parents),
            store.files,
            spark.partitions,
            store.flush_state,
            lambda: slots.fresh_bytes(self._core),
        )

    def _switched(self, to: str, was: str, why: str, figures: dict[str, float]) -> None:
        told: dict[str, Any] = {"figures": figures} if figures else {}
        self._core.audit.record("engine", to=to, was=was, why=why, **told)

    @property
    def takes_frames(self) -> bool:
        """Whether tasks can read a DataFrame; if not, its rows come to this process."""
        executor = self._core.executor  # every tick asks, and most flows have none
        return executor is not None and isinstance(executor, FrameExecutor)

    def take_figures(self) -> JobFigures:
        """What the epoch that has just been took on Spark; nothing, if it ran here."""
        return self._on_spark.take_figures() if self._on_spark is not None else NO_FIGURES

    def ran_on(self) -> str:
        """Where what has run since this was last asked has run; it is asked after every epoch."""
        figures = NO_FIGURES if self._on_spark is None else self._on_spark.figures
        is_new, self._told = figures is not self._told, figures
        return "spark" if is_new and figures.jobs else "inline"

    def session(self) -> Any:
        """The SparkSession of the flow, started if need be."""
        return (self._spark or self._take(Spark())).session()

    @property
    def on_spark(self) -> SparkEngine:
        """The Spark engine, for what only it can do; raises if this flow cannot have one."""
        if self._on_spark is None:
            self._executor("spark")
            assert self._on_spark is not None
        return self._on_spark

    def close(self) -> None:
        for spark in self._used:
            spark.close()
        self._used.clear()
