"""An epoch in several places: from changes to a program, and from its receipts to what the epoch does.

Where the tasks run is left to those who build on this: in this process (`run/partitioned.py`) or on Spark
(`run/spark/engine.py`). Both give the rows and weights that `run/inline.py` gives.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Protocol, runtime_checkable

from penstock.base.errors import SparkFailed
from penstock.circuit.circuit import Circuit, CircuitNode
from penstock.circuit.operator import Delta
from penstock.circuit.operators.arrange import Arrange
from penstock.circuit.operators.look_up import LookUp
from penstock.run.assemble import Outcome, assemble
from penstock.run.compile import Compiler, Outputs, add_reached, output_of, slot_of
from penstock.run.inline import Epoch, fill
from penstock.run.packet import RECEIPT, Packet, pack_delta, pieces
from penstock.run.program import Program
from penstock.run.ranges import Ranges
from penstock.run.receipt import Receipt, Worked, decode
from penstock.run.route import routed
from penstock.run.wave import TaskFiles, run_wave
from penstock.state.arrangement import Arrangement
from penstock.state.batch import Batch, Layout
from penstock.state.batch_file import FileRef, StoredBatch
from penstock.state.scattered import Rows, Scattered
from penstock.zset.zset import ZSet, empty_zset

_MERGED = "merged"

# By node: a relation's piece of state, made ready when it is asked for.
Relations = Mapping[int, Callable[[], tuple[str, Arrangement]]]


class Executor(Protocol):
    """Where epochs run, other than in this process and one after the other."""

    def run(self, circuit: Circuit, changes: Mapping[int, Delta], outputs: Outputs) -> Epoch: ...

    def fill(
        self,
        nodes: Mapping[int, CircuitNode],
        new: Iterable[int],
        root: int,
        relations: Relations,
        is_known: Callable[[int], bool],
        outputs: Outputs,
    ) -> Epoch: ...


class SourceFrame(Protocol):
    """Rows for a table that tasks read and check."""

    @property
    def source(self) -> Any:
        """A `program.Source` that does not know its edge yet."""
        ...

    @property
    def data(self) -> Any: ...

    @property
    def state(self) -> Arrangement:
        """The table's rows as they are."""
        ...


@runtime_checkable
class FrameExecutor(Protocol):
    """An executor whose tasks can read rows by themselves."""

    def run_frames(
        self,
        circuit: Circuit,
        changes: Mapping[int, Delta],
        outputs: Outputs,
        frames: Sequence[SourceFrame],
    ) -> Epoch: ...


class Distributed(ABC):
    """What all ways of running a program have in common."""

    def run(self, circuit: Circuit, changes: Mapping[int, Delta], outputs: Outputs) -> Epoch:
        """`inline.run`, in partitions."""
        return self.run_frames(circuit, changes, outputs, ())

    def run_frames(
        self,
        circuit: Circuit,
        changes: Mapping[int, Delta],
        outputs: Outputs,
        frames: Sequence[SourceFrame],
    ) -> Epoch:
        """The same with rows that tasks read. What a table was found to change is among the epoch's deltas."""
        present = {node: d for node, d in changes.items() if d is not None and len(d)}
        self.prepare()
        rows = None if frames else changed_rows(present)
        compiler = Compiler(circuit.nodes, self.ranges(rows), self.ship)
        edges = [(compiler.give(node, delta), delta) for node, delta in present.items()]
        sources = [compiler.read(frame.source, frame.state) for frame in frames]
        changed = {*present, *(n for s in sources for n in (s.node, s.key_node) if n is not None)}
        add_reached(compiler, circuit, changed)
        program = compiler.program(outputs)
        packets: list[Packet] = []
        for number, delta in edges:
            for code, target, part in routed(program.edges[number], number, delta, program.ranges, None):
                packets += [Packet(target, 0, code, pack_delta(piece)) for piece in pieces(part)]
        outcome = self._outcome(program, packets, [frame.data for frame in frames])
        tables = {s.node: outcome.appended.pop(s.slot, []) for s in sources}
        epoch = self._epoch(compiler, outputs, outcome)
        found = {node: Scattered(batches) for node, batches in tables.items() if batches}
        placed = epoch.placed or any(isinstance(b, StoredBatch) for t in tables.values() for b in t)
        return Epoch({**epoch.deltas, **found}, epoch.appends, placed, outcome.rows_read)

    def fill(
        self,
        nodes: Mapping[int, CircuitNode],
        new: Iterable[int],
        root: int,
        relations: Relations,
        is_known: Callable[[int], bool],
        outputs: Outputs,
    ) -> Epoch:
        """`inline.fill`, in partitions: tasks read what the relations hold."""
        self.prepare()
        needed = Needed(nodes, new, root, relations, is_known)
        if not needed.rows:  # nothing to read: no job is as quick as none
            return fill(dict(nodes), new, root, lambda id: _nothing(nodes, id, relations), is_known)
        compiler = Compiler(nodes, self.ranges(needed.rows), self.ship)
        for id in needed.order:
            needed.add(compiler, id)
        program = compiler.program(outputs)
        return self._epoch(compiler, outputs, self._outcome(program, []))

    def merge(self, layout: Layout, batches: Sequence[Batch]) -> Sequence[Batch]:
        """Batches as one, by the law: a part of it for each partition."""
        state = tuple([self.shipped(batch) for batch in batches])
        ranges = self.merge_ranges(sum(len(batch) for batch in batches))
        program = Program(ranges, (), (), {_MERGED: state}, {_MERGED: layout}, {}, merges=(_MERGED,))
        return self._outcome(program, []).appended.get(_MERGED, [])

    def _outcome(self, program: Program, packets: Sequence[Packet], frames: Sequence[Any] = ()) -> Outcome:
        receipts = self.execute(program, packets, frames)
        return assemble(receipts, program.layouts, program.types, self.open)

    def _epoch(self, compiler: Compiler, outputs: Outputs, outcome: Outcome) -> Epoch:
        deltas: dict[int, Delta | Rows] = {}
        for node in outputs:
            if output_of(node) in outcome.relations:
                deltas[node] = outcome.relations[output_of(node)]
        arrangements = compiler.arrangements
        appends = [(arrangements[s], b) for s, found in outcome.appended.items() for b in found]
        placed = any(isinstance(d, Scattered) for d in deltas.values()) or any(
            isinstance(batch, StoredBatch) for _, batch in appends
        )
        epoch = Epoch(deltas, appends, placed)
        self.done(outcome)
        return epoch

    # -- what depends on the place ---------------------------------------------------------

    @abstractmethod
    def prepare(self) -> None:
        """Before a program is made."""

    @abstractmethod
    def ranges(self, rows: int | None) -> Ranges:
        """The partitions for an epoch that changes so many rows; None: nobody knows how many."""

    def merge_ranges(self, rows: int) -> Ranges:
        """The partitions for a merge of so many rows."""
        return self.ranges(rows)

    def ship(self, arrangement: Arrangement) -> tuple[FileRef | bytes, ...]:
        """A piece of state, as tasks can open it."""
        return tuple([self.shipped(batch) for batch in arrangement.batches if len(batch)])

    @abstractmethod
    def shipped(self, batch: Batch) -> FileRef | bytes:
        """One batch of it."""

    @abstractmethod
    def open(self, ref: FileRef, types: Sequence[object]) -> Batch:
        """A file that a task has written."""

    @abstractmethod
    def execute(
        self, program: Program, packets: Sequence[Packet], frames: Sequence[Any]
    ) -> Iterable[Receipt]:
        """Run all waves. `frames` are the rows of the program's sources."""

    def cores(self) -> int:
        """How many tasks run at the same time."""
        return 1

    @abstractmethod
    def done(self, outcome: Outcome) -> None:
        """After an epoch that succeeded."""


def changed_rows(changes: Mapping[int, Delta]) -> int:
    """The rows of a delta. A table with a key has them twice, as they came and arranged by it: counted once."""
    return sum([len(delta) for delta in changes.values() if isinstance(delta, ZSet)])


def _nothing(nodes: Mapping[int, CircuitNode], id: int, relations: Relations) -> Delta:
    """What an empty relation holds; None for what is none."""
    return empty_zset(nodes[id].types) if id in relations else None


class Needed:
    """The nodes that fill a new view, inputs before those who use them: see `inline.fill`."""

    def __init__(
        self,
        nodes: Mapping[int, CircuitNode],
        new: Iterable[int],
        root: int,
        relations: Relations,
        is_known: Callable[[int], bool],
    ) -> None:
        self._nodes = nodes
        self._relations = relations
        self._is_known = is_known
        self._seen: set[int] = set()
        self.order: list[int] = []
        self.rows = 0  # of what is read
        self._visit(root)
        for id in new:
            if nodes[id].owned:
                self._visit(id)

    def _visit(self, id: int) -> None:
        if id in self._seen:
            return
        self._seen.add(id)
        node = self._nodes[id]
        if not self._is_read(node):
            # A look-up that sees only old rows finds nothing: state begins empty.
            if node.operator is None or (isinstance(node.operator, LookUp) and len(node.inputs) == 1):
                return
            for input in node.inputs:
                self._visit(input)
        else:
            self.rows += self._read(node)[1].rows()
        self.order.append(id)

    def add(self, compiler: Compiler, id: int) -> None:
        node = self._nodes[id]
        if self._is_read(node):
            slot, arrangement = self._read(node)
            compiler.store(id, slot, arrangement, arranged=id not in self._relations)
        else:
            compiler.step(node, first=True, keeps=not self._is_known(id))

    def _is_read(self, node: CircuitNode) -> bool:
        """Whether what the node gives is there already."""
        return node.id in self._relations or (self._is_known(node.id) and isinstance(node.operator, Arrange))

    def _read(self, node: CircuitNode) -> tuple[str, Arrangement]:
        found = self._relations.get(node.id)
        return found() if found is not None else (slot_of(node.id, 0), node.owned[0])


def receipts_of(packets: Iterable[Packet]) -> list[Receipt]:
    return [decode(packet.payload) for packet in packets if packet.edge == RECEIPT]


def complete(program: Program, first: int, receipts: list[Receipt]) -> list[Receipt]:
    """The receipts, if every task from wave `first` on has given its own: an epoch is never a part of one."""
    found = {(r.wave, r.partition) for r in receipts if isinstance(r, Worked)}
    partitions = range(len(program.ranges))
    missing = [
        (wave, p)
        for wave in range(first, program.last_wave + 1)
        for p in partitions
        if (wave, p) not in found
    ]
    if missing:
        raise SparkFailed(
            f"{len(missing)} tasks of the epoch gave no receipt, the first of them wave {missing[0][0]}, "
            f"partition {missing[0][1]}",
            hint="Nothing of it was applied; the same tick can be tried again.",
        )
    return receipts


def run_first_wave(program: Program, packets: Sequence[Packet], files: TaskFiles) -> list[Packet]:
    """The steps before any exchange, where the rows are: they have no state."""
    return list(run_wave(program, 0, None, packets, files))
