"""An epoch in N partitions, in this process: what a cluster does, without the cluster.

Tasks run one after the other and packets cross exchanges as bytes, as they do on Spark. Tests use it to show
that nothing depends on the number of partitions or on where a partition ends.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import pyarrow as pa

from penstock.run.assemble import Outcome
from penstock.run.distributed import Distributed, complete, receipts_of, run_first_wave
from penstock.run.packet import Packet, pack_delta
from penstock.run.program import Program
from penstock.run.ranges import Ranges
from penstock.run.receipt import Receipt
from penstock.run.wave import Used, run_source, run_wave, source_packets
from penstock.state.batch import Batch
from penstock.state.batch_file import FileRef


class Partitioned(Distributed):
    """Runs programs in this process. State may be in memory: it is sent along."""

    def __init__(self, ranges: Ranges) -> None:
        self.partitions = ranges
        self._files = _Kept()

    def prepare(self) -> None:
        """Nothing has to be written first."""

    def done(self, outcome: Outcome) -> None:
        """Nothing is learned from it."""

    def ranges(self, rows: int | None) -> Ranges:
        return self.partitions

    def shipped(self, batch: Batch) -> FileRef | bytes:
        return pack_delta(batch)

    def open(self, ref: FileRef, types: Sequence[object]) -> Batch:
        return self._files.batch(ref, types)

    def execute(
        self, program: Program, packets: Sequence[Packet], frames: Sequence[Any]
    ) -> Iterable[Receipt]:
        count = len(program.ranges)
        waiting = list(packets)
        first = 0
        if count > 1 and frames and program.begins_with_rows:
            waiting = run_first_wave(program, waiting, self._files)
            for source, data in zip(program.sources, frames, strict=True):
                for task, part in enumerate(_in_tasks(data)):
                    waiting += run_source(program, source, part, self._files, task)
            first = 1
        else:
            for source, data in zip(program.sources, frames, strict=True):
                waiting += source_packets(program, source, data)
        for wave in range(first, program.last_wave + 1):
            mine: list[list[Packet]] = [[] for _ in range(count)]
            for packet in waiting:
                mine[packet.partition].append(packet)
            waiting = [out for p in range(count) for out in run_wave(program, wave, p, mine[p], self._files)]
        return complete(program, first, receipts_of(waiting))


def _in_tasks(data: pa.Table) -> list[pa.Table]:
    """A DataFrame's rows as the tasks that read them have them: anyhow, and some have none."""
    cut = len(data) // 3
    return [data.slice(0, cut), data.slice(0, 0), data.slice(cut)]


class _Kept:
    """Files that are only kept in memory."""

    def __init__(self) -> None:
        self._batches: dict[str, Batch] = {}

    def batch(self, ref: FileRef, types: Sequence[object]) -> Batch:
        return self._batches.pop(ref.name)

    def write(self, batch: Batch) -> FileRef:
        name = str(len(self._batches))
        self._batches[name] = batch
        return FileRef(name, batch.nbytes(), len(batch), 0, "")

    def used(self) -> Used:
        return Used()
