"""What Spark calls in its tasks: record batches of packets in, record batches of packets out."""

from __future__ import annotations

import itertools
import pickle
import zlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa

from penstock.base.errors import SparkUnavailable
from penstock.base.version import VERSION
from penstock.commit.places import Places
from penstock.run.packet import Packet
from penstock.run.program import Program
from penstock.run.spark.task_files import AttemptFiles
from penstock.run.spark.worker import settle
from penstock.run.wave import run_source, run_wave, source_packets

SCHEMA = pa.schema(
    [("partition", pa.int32()), ("wave", pa.int32()), ("edge", pa.int32()), ("payload", pa.binary())]
)

_PROGRAMS: dict[bytes, Program] = {}  # of this process, by what they were written as: the newest alone


@dataclass(frozen=True)
class Written:
    """A program as it travels to tasks."""

    version: str  # of the penstock that wrote it
    program: bytes
    places: Places
    session: str

    @staticmethod
    def of(program: Program, places: Places, session: str) -> Written:
        return Written(VERSION, zlib.compress(pickle.dumps(program, 5), 1), places, session)

    def read(self) -> Program:
        """The program; in a process that has read it already, the same one."""
        if self.version != VERSION:
            raise SparkUnavailable(
                f"Spark's tasks have penstock {VERSION} and the driver has {self.version}",
                hint="Install the same penstock on every machine of the cluster.",
            )
        settle()
        found = _PROGRAMS.get(self.program)
        if found is None:
            _PROGRAMS.clear()
            found = _PROGRAMS[self.program] = pickle.loads(zlib.decompress(self.program))
        return found


@dataclass(frozen=True)
class WaveTask:
    """One wave, for `mapInArrow`. `sent` are packets that the driver sends along."""

    written: Written
    wave: int
    sent: tuple[Packet, ...] = ()

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        from pyspark import TaskContext

        context = TaskContext.get()
        assert context is not None
        partition = context.partitionId()
        received = itertools.chain([p for p in self.sent if p.partition == partition], _packets(batches))
        program = self.written.read()
        files = AttemptFiles(self.written.places, self.written.session)
        yield from record_batches(run_wave(program, self.wave, partition, received, files))


@dataclass(frozen=True)
class SourceTask:
    """Rows of a DataFrame, for `mapInArrow`: on their way to the partitions that check them or, `here`, through
    the first wave."""

    written: Written
    source: int
    here: bool

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        from pyspark import TaskContext

        context = TaskContext.get()
        assert context is not None
        program = self.written.read()
        source = program.sources[self.source]

        def packets(data: pa.Table) -> Iterator[Packet]:
            if not self.here:
                return source_packets(program, source, data)
            files = AttemptFiles(self.written.places, self.written.session)
            return run_source(program, source, data, files, context.partitionId())

        gathered: list[pa.RecordBatch] = []
        count = 0
        for batch in batches:
            gathered.append(batch)
            count += batch.num_rows
            if count >= source.rows_at_once:
                yield from record_batches(packets(pa.Table.from_batches(gathered)))
                gathered, count = [], 0
        if gathered:
            yield from record_batches(packets(pa.Table.from_batches(gathered)))


def _packets(batches: Iterable[pa.RecordBatch]) -> Iterator[Packet]:
    """Packets as they come: one that has been opened need not be kept."""
    for batch in batches:
        if batch.num_columns == len(SCHEMA):  # else a range of numbers, which say nothing
            yield from read_packets(batch)


def read_packets(batch: pa.RecordBatch) -> list[Packet]:
    columns = [batch.column(i).to_pylist() for i in range(4)]
    return [Packet(*row) for row in zip(*columns, strict=True)]


def record_batches(packets: Iterable[Packet]) -> Iterator[pa.RecordBatch]:
    """Packets as Arrow, some of them at a time: a record batch ends where it has become large."""
    waiting: list[Packet] = []
    size = 0
    for packet in packets:
        waiting.append(packet)
        size += len(packet.payload)
        if size >= 2**24:
            yield packet_batch(waiting)
            waiting, size = [], 0
    if waiting:
        yield packet_batch(waiting)


def packet_batch(packets: Sequence[Packet]) -> pa.RecordBatch:
    """
    >>> read_packets(packet_batch([Packet(0, 1, 2, b"x")]))
    [Packet(partition=0, wave=1, edge=2, payload=b'x')]
    """
    columns = list(zip(*packets, strict=True))
    return pa.record_batch([pa.array(c, f.type) for c, f in zip(columns, SCHEMA, strict=True)], schema=SCHEMA)
