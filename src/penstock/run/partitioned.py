"""An epoch in N partitions, in this process: what a cluster does, without the cluster.

Tasks run one after the other and packets cross exchanges as bytes, as they do on Spark. Tests use it to show
that nothing depends on the number of partitions or on where a partition ends.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from penstock.run.distributed import Distributed, receipts_of
from penstock.run.packet import Packet, pack_delta
from penstock.run.program import Program
from penstock.run.ranges import Ranges
from penstock.run.receipt import Receipt
from penstock.run.wave import run_wave
from penstock.state.arrangement import Arrangement
from penstock.state.batch import Batch
from penstock.state.batch_file import FileRef


class Partitioned(Distributed):
    """Runs programs in this process. State may be in memory: it is sent along."""

    def __init__(self, ranges: Ranges) -> None:
        self.partitions = ranges
        self._files = _Kept()

    def ranges(self, rows: int) -> Ranges:
        return self.partitions

    def ship(self, arrangement: Arrangement) -> tuple[FileRef | bytes, ...]:
        return tuple(pack_delta(batch) for batch in arrangement.batches if len(batch))

    def open(self, ref: FileRef, types: Sequence[object]) -> Batch:
        return self._files.batch(ref, types)

    def execute(self, program: Program, packets: Sequence[Packet]) -> Iterable[Receipt]:
        count = len(program.ranges)
        waiting = list(packets)
        for wave in range(program.last_wave + 1):
            mine: list[list[Packet]] = [[] for _ in range(count)]
            for packet in waiting:
                mine[packet.partition].append(packet)
            waiting = [out for p in range(count) for out in run_wave(program, wave, p, mine[p], self._files)]
        return receipts_of(waiting)


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
