"""The Spark engine: the tasks of an epoch as one Spark job.

A wave is one `mapInArrow`, an exchange is `repartitionById`: packets carry the number of their partition. The
job ends with receipts, the only thing that comes to the driver. If nothing has to be exchanged the job has one
stage; small epochs have one partition, where nothing ever has.
"""

from __future__ import annotations

import functools
import itertools
import os
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from penstock.base.errors import PenstockError, SparkFailed
from penstock.base.limits import (
    PARTITION_ROWS,
    SENT_BYTES_MAX,
    SHIPPED_BYTES_MAX,
    SOURCE_TASKS_PER_CORE_MAX,
    SPLIT_PARTITIONS_MAX,
    SPLIT_ROWS_MIN,
    SPLIT_SHARE,
)
from penstock.commit.files import Files
from penstock.commit.places import Places
from penstock.run.assemble import Outcome
from penstock.run.distributed import Distributed, complete, receipts_of, run_first_wave
from penstock.run.packet import RECEIPT, Packet, pack_delta
from penstock.run.program import Program
from penstock.run.ranges import Ranges
from penstock.run.receipt import Receipt, Worked
from penstock.run.spark.change_feed import feed_error
from penstock.run.spark.tasks import SCHEMA, SourceTask, WaveTask, Written, packet_batch, read_packets
from penstock.run.wave import Used
from penstock.state.batch import Batch
from penstock.state.batch_file import FileRef
from penstock.store.objects import Remote

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

_JOBS = itertools.count(1)


@dataclass(frozen=True)
class JobFigures:
    """What the last epoch on Spark took."""

    jobs: int = 0
    stages: int = 0
    partitions: int = 0
    tasks: tuple[Worked, ...] = ()


NO_FIGURES = JobFigures()


class SparkEngine(Distributed):
    """Runs programs on a Spark session, over the files of one flow."""

    def __init__(
        self,
        session: Callable[[], SparkSession],
        places: Places,
        files: Files,
        partitions: int | None,
        flush: Callable[[], None],
        unwritten: Callable[[], int],
    ) -> None:
        self._session = session
        self._places = places
        self._files = files
        self._partitions = partitions
        self._flush = flush
        self._unwritten = unwritten
        self._cores: int | None = None  # known when there is a session
        self._count = 1  # partitions that the last epoch would have had, had none been split
        self._ran: Ranges | None = None  # those that it had
        self._uneven: Ranges | None = None  # those of the next one, after some were split
        self._lock = threading.Lock()
        self.figures = NO_FIGURES

    def take_figures(self) -> JobFigures:
        """Of the last epoch, once."""
        found, self.figures = self.figures, NO_FIGURES
        return found

    # -- the program -----------------------------------------------------------------------

    def prepare(self) -> None:
        self.figures = NO_FIGURES
        if self._unwritten() > SHIPPED_BYTES_MAX:
            self._flush()

    def ranges(self, rows: int | None) -> Ranges:
        count = self._count = self._wanted(rows)
        keeps = self._uneven is not None and count > 1 and len(self._uneven) > count
        self._ran = self._uneven if keeps else Ranges.even(count)
        assert self._ran is not None
        return self._ran

    def merge_ranges(self, rows: int) -> Ranges:
        # State is put together beside epochs, in another thread: what was noted of their partitions stays as it is.
        return Ranges.even(self._wanted(rows))

    def _wanted(self, rows: int | None) -> int:
        """How many partitions so many rows should have."""
        if self._partitions is not None:
            return self._partitions
        most = self._cores = self._session().sparkContext.defaultParallelism
        return most if rows is None else min(most, rows // PARTITION_ROWS + 1)

    def cores(self) -> int:
        return os.cpu_count() or 1 if self._cores is None else self._cores

    def shipped(self, batch: Batch) -> FileRef | bytes:
        if isinstance(batch.ref, FileRef):
            return batch.ref
        if batch.nbytes() > SHIPPED_BYTES_MAX:
            batch.ref = self._files.write(batch.hashes, batch.columns, batch.measures)
            return batch.ref
        return pack_delta(batch)

    def open(self, ref: FileRef, types: Sequence[Any]) -> Batch:
        objects = self._files.objects
        if not isinstance(objects, Remote) and not objects.exists(ref.name):
            # Found out later, this would be an epoch without its rows.
            raise SparkFailed(
                f"a task wrote {ref.name}, and it is not in {objects.url}: tasks run where this folder is another one",
                hint="Nothing was applied. Use a folder that all machines share, or s3://, gs:// or az://.",
            )
        return self._files.batch(ref, types)

    def done(self, outcome: Outcome) -> None:
        self.figures = JobFigures(
            self.figures.jobs, self.figures.stages, self.figures.partitions, tuple(outcome.worked)
        )
        self._uneven = self._split(outcome.worked)

    def _split(self, worked: Iterable[Worked]) -> Ranges | None:
        """The partitions of the next epoch: those that had far more to do than the others are cut in two.

        No data is moved: state is sorted by hash, so a smaller range is a smaller slice of the same files."""
        ran = self._ran
        if ran is None or len(ran) == 1:
            return None
        rows = [0] * len(ran)
        for work in worked:
            if work.placed:
                rows[work.partition] += work.rows
        share = sum(rows) / len(ran)
        heavy = [p for p, n in enumerate(rows) if n > SPLIT_ROWS_MIN and n > SPLIT_SHARE * share]
        if not heavy:
            return ran if len(ran) > len(Ranges.even(self._count)) else None
        return ran.split(heavy) if len(ran) + len(heavy) <= SPLIT_PARTITIONS_MAX * self._count else ran

    # -- the job ---------------------------------------------------------------------------

    def execute(
        self, program: Program, packets: Sequence[Packet], frames: Sequence[Any]
    ) -> Iterable[Receipt]:
        known: list[Packet] = []
        first = 0
        if len(program.ranges) > 1 and program.begins_with_rows:
            # Nothing before the first exchange has state: it is done where the rows are, here or in the tasks
            # that read them.
            made = run_first_wave(program, packets, _NoFiles(self._files))
            known = [p for p in made if p.edge == RECEIPT]
            packets = [p for p in made if p.edge != RECEIPT]
            first = 1
            if not packets and not frames:
                return receipts_of(known)
        with self._lock:
            found = self._run(program, first, packets, frames)
        return complete(program, first, receipts_of([*known, *found]))

    def _run(
        self, program: Program, first: int, packets: Sequence[Packet], frames: Sequence[Any]
    ) -> list[Packet]:
        spark = (
            frames[0].sparkSession if frames else self._session()
        )  # a stream's batches have one of their own
        written = Written.of(program, self._places, self._files.session)
        count = len(program.ranges)
        with _one_job(spark), self._counted(spark, count, noted=not program.merges):
            read, sent = self._begin(spark, written, count, packets, frames, here=first > 0)
            # Tasks stand where their partition is: with no rows to read, a range of numbers has one for each.
            frame = spark.range(0, count, 1, count) if read is None else read
            for wave in range(first, program.last_wave + 1):
                if wave > first or read is not None:
                    frame = _exchanged(frame, count)
                frame = frame.mapInArrow(
                    WaveTask(written, wave, sent if wave == first else ()), _packet_type()
                )
            try:
                table = frame.toArrow()
            except PenstockError:
                raise
            except Exception as error:
                raise _failure(error) from error
        return [p for batch in table.to_batches() for p in read_packets(batch)]

    def _begin(
        self,
        spark: SparkSession,
        written: Written,
        count: int,
        packets: Sequence[Packet],
        frames: Sequence[Any],
        here: bool,
    ) -> tuple[DataFrame | None, tuple[Packet, ...]]:
        """The packets that come from somewhere, and those that travel with the job. With `here` the tasks that read
        DataFrames run the first wave."""
        sent = tuple(packets)
        if frames:
            most = SOURCE_TASKS_PER_CORE_MAX * max(count, spark.sparkContext.defaultParallelism)
            frames = [frame.coalesce(most) for frame in frames]
        read = [f.mapInArrow(SourceTask(written, i, here), _packet_type()) for i, f in enumerate(frames)]
        if sum(len(p.payload) for p in packets) > SENT_BYTES_MAX:
            import pyarrow as pa

            read.append(spark.createDataFrame(pa.Table.from_batches([packet_batch(packets)], SCHEMA)))
            sent = ()
        return functools.reduce(lambda a, b: a.unionAll(b), read) if read else None, sent

    @contextmanager
    def _counted(self, spark: SparkSession, partitions: int, noted: bool) -> Iterator[None]:
        """Count the jobs and stages of what is run; they are noted for an epoch, and not for what runs beside it."""
        group = f"penstock-{self._files.session}-{next(_JOBS)}"
        context = spark.sparkContext
        context.setJobGroup(group, "a penstock epoch", interruptOnCancel=True)
        try:
            yield
        except BaseException:
            context.cancelJobGroup(group)  # Ctrl-C among others: nobody waits for it any more
            raise
        finally:
            tracker = context.statusTracker()
            jobs = list(tracker.getJobIdsForGroup(group))
            infos = [tracker.getJobInfo(job) for job in jobs]
            stages = sum(len(info.stageIds) for info in infos if info is not None)
            if noted:
                self.figures = JobFigures(len(jobs), stages, partitions)
            context.setLocalProperty("spark.jobGroup.id", None)  # type: ignore[arg-type]
            context.setLocalProperty("spark.job.description", None)  # type: ignore[arg-type]


@functools.cache
def _packet_type() -> StructType:
    """What `mapInArrow` gives; said as text, Spark would parse it for every wave of every epoch."""
    from pyspark.sql.pandas.types import from_arrow_schema

    return from_arrow_schema(SCHEMA)


def _exchanged(frame: DataFrame, count: int) -> DataFrame:
    from pyspark.sql.functions import col

    return frame.repartitionById(count, col("partition"))


_ADAPTIVE = "spark.sql.adaptive.enabled"
_SWITCHED_OFF: dict[
    str, tuple[str, int]
] = {}  # by session: what the setting was, and how many epochs have it off
_SWITCHING = threading.Lock()


@contextmanager
def _one_job(spark: SparkSession) -> Iterator[None]:
    """Adaptive execution runs every stage as a job of its own, and knows nothing of our packets.

    Flows that share a session run epochs at the same time: it stays off until the last of them is done."""
    session = spark._jsparkSession.sessionUUID()  # a session may have several Python objects
    with _SWITCHING:
        before, users = _SWITCHED_OFF.get(session, (spark.conf.get(_ADAPTIVE) or "true", 0))
        spark.conf.set(_ADAPTIVE, "false")
        _SWITCHED_OFF[session] = before, users + 1
    try:
        yield
    finally:
        with _SWITCHING:
            before, users = _SWITCHED_OFF.pop(session)
            if users > 1:
                _SWITCHED_OFF[session] = before, users - 1
            else:
                spark.conf.set(_ADAPTIVE, before)


class _NoFiles:
    """For steps without state, that still may have much to give."""

    def __init__(self, files: Files) -> None:
        self._files = files

    def batch(self, ref: FileRef, types: Sequence[Any]) -> Batch:
        return self._files.batch(ref, types)

    def write(self, batch: Batch) -> FileRef:
        return self._files.write(batch.hashes, batch.columns, batch.measures)

    def used(self) -> Used:
        return Used()


def _failure(error: Exception) -> PenstockError:
    """What went wrong on Spark, in one line; the rest is the cause that the error has."""
    known = feed_error(error)
    if known is not None:
        return known
    text = str(getattr(error, "desc", None) or error).strip()
    lines = [line for line in text.splitlines() if line.strip()]
    said = next((line for line in reversed(lines) if "Error" in line or "Exception" in line), "")
    return SparkFailed(
        f"the epoch failed on Spark: {said.strip() or (lines[0] if lines else type(error).__name__)}",
        hint="Nothing of it was applied. Spark's log has the rest; the same tick can be tried again.",
    )
