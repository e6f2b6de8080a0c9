"""One wave in one partition: packets in, packets out. This is all that a task does.

The same function runs in Spark's tasks and, in tests, in this process. It reads state through files that
never change, writes under names that no other attempt has, and says what it did in receipts: a task that
runs twice, or at the same time as its copy, does no harm.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Protocol

import pyarrow as pa

from penstock.base.errors import PenstockError
from penstock.base.limits import RECEIPT_BYTES_MAX
from penstock.circuit.operator import Delta
from penstock.run import hot_keys, receipt
from penstock.run.packet import RECEIPT, Packet, pack_delta, pieces, together, unpack_delta
from penstock.run.program import Program, Source, Step
from penstock.run.receipt import Appended, Failed, Receipt, Worked
from penstock.run.route import combined, routed
from penstock.state.arrangement import Arrangement
from penstock.state.batch import Batch, Layout, build, merge
from penstock.state.batch_file import FileRef
from penstock.state.batch_range import BatchRange
from penstock.zset.types import SqlType
from penstock.zset.zset import ZSet, union


@dataclass(frozen=True)
class Used:
    """What a task has asked of storage so far."""

    files_read: int = 0
    requests: int = 0
    bytes_fetched: int = 0


class TaskFiles(Protocol):
    """What a task needs of the flow's files."""

    def batch(self, ref: FileRef, types: Sequence[SqlType]) -> Batch: ...

    def write(self, batch: Batch) -> FileRef: ...

    def used(self) -> Used: ...


def run_wave(
    program: Program, wave: int, partition: int | None, packets: Iterable[Packet], files: TaskFiles
) -> Iterator[Packet]:
    """Run the steps of a wave on one partition. What is for later waves is handed on.

    With no partition it runs on all rows in one place: right for steps that have no state."""
    work = _Work(program, wave, partition, files)
    for packet in packets:
        if packet.wave > wave or packet.edge == RECEIPT:
            yield packet
        else:
            work.receive(packet)
    yield from work.run()


def source_packets(program: Program, source: Source, data: pa.Table) -> Iterator[Packet]:
    """Rows for a table on their way to the partitions that check them."""
    try:
        rows = source.rows(data)
    except PenstockError as error:
        failed = receipt.encode(Failed(error, None, -1))
        yield Packet(0, program.last_wave + 1, RECEIPT, failed)
        return
    for code, target, part in routed(program.edges[source.edge], source.edge, rows, program.ranges, None):
        for piece in pieces(part):
            yield Packet(target, 0, code, pack_delta(piece))


def run_source(
    program: Program, source: Source, data: pa.Table, files: TaskFiles, task: int
) -> Iterator[Packet]:
    """Rows for a table that need no state to be checked: the first wave is run on them where they are."""
    yield from _Work(program, 0, None, files, task, {source.edge: data}).run()


class _Work:
    """What one task has in hand. `number` is that of its partition; of the task, where it is in none."""

    def __init__(
        self,
        program: Program,
        wave: int,
        partition: int | None,
        files: TaskFiles,
        number: int = 0,
        unread: Mapping[int, pa.Table] = MappingProxyType({}),
    ) -> None:
        self._program = program
        self._wave = wave
        self._unread = unread  # rows of sources as they were given, by the edge that they would come over
        self._here = partition
        self._partition = number if partition is None else partition
        self._files = files
        self._arrived: dict[int, list[ZSet | Batch]] = {}
        self._deltas: dict[int, Delta] = {}
        self._out: list[Packet] = []
        self._rows = 0
        self._written = 0
        self._written_bytes = 0
        self._read = 0
        self._hot: dict[int, int] = {}

    def receive(self, packet: Packet) -> None:
        edge = self._program.edges[hot_keys.edge_of(packet.edge)]
        delta = unpack_delta(packet.payload, edge.types)
        self._rows += len(delta)
        self._arrived.setdefault(packet.edge, []).append(delta)

    def run(self) -> Iterator[Packet]:
        """All that this wave has to do here; what comes of it, a failure included, as packets."""
        began = time.perf_counter()
        node: int | None = None
        try:
            if self._wave == 0:
                self._begin()
                for slot in self._program.merges:
                    self._merge(slot)
            for step in self._program.steps_of(self._wave):
                node = step.node
                self._step(step)
        except PenstockError as error:
            # Returned and not raised: Spark would run the task again, and it would fail again.
            self._out.clear()
            self._report(Failed(error, node if error.node is None else error.node, self._partition))
        yield from self._out
        sizes = [len(p.payload) for p in self._out if p.edge != RECEIPT]
        used = self._files.used()
        done = Worked(
            self._wave,
            self._partition,
            self._rows,
            time.perf_counter() - began,
            placed=self._here is not None,
            packets=len(sizes),
            packet_bytes=sum(sizes),
            files_read=used.files_read,
            files_written=self._written,
            bytes_written=self._written_bytes,
            requests=used.requests,
            bytes_fetched=used.bytes_fetched,
            rows_read=self._read,
            hot=self._hot,
        )
        yield self._packet(done)

    # -- where changes come from -----------------------------------------------------------

    def _begin(self) -> None:
        """The deltas that are there before any step."""
        for node, edge in self._program.given:
            self._give(node, self._received(edge))
        for stored in self._program.stored:
            batch = self._state(stored.slot, whole=False).contents()
            if batch is not None and len(batch):
                self._rows += len(batch)
                self._give(stored.node, batch if stored.arranged else batch.zset())
        for source in self._program.sources:
            rows = self._rows_of(source)
            if rows is None:
                continue
            self._read += len(rows)
            state = self._state(source.slot, whole=False) if source.needs_state else self._empty(source.slot)
            delta, batch = source.accept(rows, state)
            if len(batch):
                self._append(source.slot, batch)
                self._give(source.node, delta)
                if source.key_node is not None:
                    self._give(source.key_node, batch)

    def _rows_of(self, source: Source) -> ZSet | None:
        """The rows for a table that are here."""
        if source.edge in self._unread:
            rows = source.rows(self._unread[source.edge])
            self._rows += len(rows)
            return rows if len(rows) else None
        arrived = together(self._arrived.pop(source.edge, ()), None)
        assert arrived is None or isinstance(arrived, ZSet)
        return arrived

    def _state(self, slot: str, whole: bool) -> Arrangement:
        """A piece of state as it was before the epoch, cut to this partition's hashes."""
        layout = self._program.layouts[slot]
        first, last = self._program.ranges.of(self._partition)
        found: list[Batch] = []
        for part in self._program.state.get(slot, ()):
            if isinstance(part, FileRef):
                if not whole and not part.meets(first, last):
                    continue
                batch = self._files.batch(part, layout.types)
            else:
                unpacked = unpack_delta(part, layout.types)
                assert isinstance(unpacked, Batch)
                batch = unpacked
            found.append(batch if whole or len(self._program.ranges) == 1 else BatchRange(batch, first, last))
        return Arrangement(slot, layout, [b for b in found if isinstance(b, BatchRange) or len(b)])

    def _merge(self, slot: str) -> None:
        """Put the batches of a piece of state together, those of this partition."""
        state = self._state(slot, whole=False)
        batches = [b for b in state.batches if len(b)]
        if batches:
            merged = merge(state.layout, batches)
            if len(merged):
                self._append(slot, merged)

    # -- steps -----------------------------------------------------------------------------

    def _step(self, step: Step) -> None:
        inputs = [
            self._deltas.get(node) if edge is None else self._received(edge)
            for node, edge in zip(step.inputs, step.edges, strict=True)
        ]
        operator = self._program.operators[step.node]
        out: Delta = None
        if any(d is not None for d in inputs):
            empty = step.first
            state = [self._empty(s) if empty else self._state(s, step.whole) for s in step.state]
            out, batches = operator.step(inputs, state)
            for slot, batch in zip(step.owned, batches, strict=False):
                if batch is not None and len(batch):
                    self._append(slot, batch)
        parts = [out, *hot_keys.step(step, operator, inputs, self._arrived, self._everywhere)]
        if step.first and self._partition == 0:
            parts.append(operator.seed())
        self._give(step.node, _sum(parts))

    def _empty(self, slot: str) -> Arrangement:
        return Arrangement(slot, self._program.layouts[slot])

    def _everywhere(self, slot: str) -> Arrangement:
        return self._state(slot, whole=True)

    def _received(self, edge: int) -> Delta:
        return together(self._arrived.get(edge, ()), self._program.edges[edge].layout)

    # -- what comes of it ------------------------------------------------------------------

    def _give(self, node: int, delta: Delta) -> None:
        """A node's delta: to the steps of this wave, to those of later ones, and to its views."""
        if delta is None or not len(delta):
            return
        program = self._program
        self._deltas[node] = delta
        if node in program.outputs:
            self._output(program.outputs[node], delta.zset() if isinstance(delta, Batch) else delta)
        for number in program.sent.get(node, ()):
            edge = program.edges[number]
            rows = combined(edge, delta, program.operators)
            if rows is None or not len(rows):
                continue
            for code, target, part in routed(edge, number, rows, program.ranges, self._here):
                if code != number:
                    self._hot[number] = self._hot.get(number, 0) + len(part)
                for piece in pieces(part):
                    self._out.append(Packet(target, edge.wave, code, pack_delta(piece)))

    def _output(self, name: str, rows: ZSet) -> None:
        """Rows that are wanted: as they are they are few, else as a file that can be part of a view's state."""
        if rows.nbytes() <= RECEIPT_BYTES_MAX:
            payload = pack_delta(rows)
            if len(payload) <= RECEIPT_BYTES_MAX:
                self._report(Appended(name, self._partition, len(rows), payload))
                return
        types = self._program.types[name]
        batch = build(Layout(types, tuple(range(len(types)))), rows.columns, (rows.weights,))
        if len(batch):
            self._append(name, batch)

    def _append(self, of: str, batch: Batch) -> None:
        self._report(self._appended(of, batch))

    def _appended(self, of: str, batch: Batch) -> Appended:
        part: FileRef | bytes | None = None
        if batch.nbytes() <= RECEIPT_BYTES_MAX:
            packed = pack_delta(batch)
            part = packed if len(packed) <= RECEIPT_BYTES_MAX else None
        if part is None:
            part = self._files.write(batch)
            self._written += 1
            self._written_bytes += part.bytes
        return Appended(of, self._partition, len(batch), part)

    def _report(self, done: Receipt) -> None:
        self._out.append(self._packet(done))

    def _packet(self, done: Receipt) -> Packet:
        target = self._partition % len(self._program.ranges)
        return Packet(target, self._program.last_wave + 1, RECEIPT, receipt.encode(done))


def _sum(parts: Sequence[Delta]) -> Delta:
    present = [p for p in parts if p is not None and len(p)]
    if len(present) <= 1:
        return present[0] if present else None
    return union([p.zset() if isinstance(p, Batch) else p for p in present])
