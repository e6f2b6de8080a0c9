"""An epoch in several places: from changes to a program, and from its receipts to what the epoch does.

Where the tasks run is left to those who build on this: in this process (`run/partitioned.py`) or on Spark
(`run/spark/engine.py`). Both give the rows and weights that `run/inline.py` gives.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Protocol

from penstock.circuit.circuit import Circuit, CircuitNode
from penstock.circuit.operator import Delta
from penstock.circuit.operators.arrange import Arrange
from penstock.circuit.operators.look_up import LookUp
from penstock.run.assemble import Outcome, assemble
from penstock.run.compile import Compiler, Outputs, add_reached, output_of
from penstock.run.inline import Epoch
from penstock.run.packet import RECEIPT, Packet, pack_delta, pieces
from penstock.run.program import Program
from penstock.run.ranges import Ranges
from penstock.run.receipt import Receipt, decode
from penstock.run.route import routed
from penstock.run.wave import TaskFiles, run_wave
from penstock.state.arrangement import Arrangement
from penstock.state.batch import Batch
from penstock.state.batch_file import FileRef
from penstock.state.scattered import Rows

Relations = Mapping[int, tuple[str, Arrangement]]  # by node: a relation's piece of state


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


class Distributed:
    """What all ways of running a program have in common."""

    def run(self, circuit: Circuit, changes: Mapping[int, Delta], outputs: Outputs) -> Epoch:
        """`inline.run`, in partitions."""
        present = {node: d for node, d in changes.items() if d is not None and len(d)}
        self.prepare()
        compiler = Compiler(circuit.nodes, self.ranges(sum(len(d) for d in present.values())), self.ship)
        packets: list[Packet] = []
        edges = [(compiler.give(node, delta), delta) for node, delta in present.items()]
        add_reached(compiler, circuit, present)
        program = compiler.program(outputs, merges=self.merges(compiler))
        for number, delta in edges:
            for code, target, part in routed(program.edges[number], number, delta, program.ranges, None):
                packets += [Packet(target, 0, code, pack_delta(piece)) for piece in pieces(part)]
        return self._epoch(compiler, outputs, self._outcome(program, packets))

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
        needed = _Needed(nodes, relations, is_known)
        needed.visit(root)
        for id in new:
            if nodes[id].owned:
                needed.visit(id)
        compiler = Compiler(nodes, self.ranges(needed.rows), self.ship)
        for id in needed.order:
            needed.add(compiler, id)
        program = compiler.program(outputs)
        return self._epoch(compiler, outputs, self._outcome(program, []))

    def _outcome(self, program: Program, packets: Sequence[Packet]) -> Outcome:
        receipts = self.execute(program, packets)
        return assemble(receipts, program.layouts, program.types, self.open)

    def _epoch(self, compiler: Compiler, outputs: Outputs, outcome: Outcome) -> Epoch:
        deltas: dict[int, Delta | Rows] = {}
        for node in outputs:
            if output_of(node) in outcome.relations:
                deltas[node] = outcome.relations[output_of(node)]
        arrangements = compiler.arrangements
        appends = [(arrangements[s], b) for s, found in outcome.appended.items() for b in found]
        epoch = Epoch(deltas, appends)
        self.done(outcome)
        return epoch

    # -- what depends on the place ---------------------------------------------------------

    def prepare(self) -> None:
        """Before a program is made."""

    def ranges(self, rows: int) -> Ranges:
        """The partitions for an epoch that changes so many rows."""
        raise NotImplementedError

    def ship(self, arrangement: Arrangement) -> tuple[FileRef | bytes, ...]:
        """A piece of state, as tasks can open it."""
        raise NotImplementedError

    def open(self, ref: FileRef, types: Sequence[object]) -> Batch:
        raise NotImplementedError

    def execute(self, program: Program, packets: Sequence[Packet]) -> Iterable[Receipt]:
        """Run all waves."""
        raise NotImplementedError

    def merges(self, compiler: Compiler) -> Sequence[tuple[str, int]]:
        """What is to be put together on the way."""
        return ()

    def done(self, outcome: Outcome) -> None:
        """After an epoch that succeeded."""


class _Needed:
    """The nodes that fill a new view, inputs before those who use them: see `inline.fill`."""

    def __init__(
        self, nodes: Mapping[int, CircuitNode], relations: Relations, is_known: Callable[[int], bool]
    ) -> None:
        self._nodes = nodes
        self._relations = relations
        self._is_known = is_known
        self._seen: set[int] = set()
        self.order: list[int] = []
        self.rows = 0  # of what is read

    def visit(self, id: int) -> None:
        if id in self._seen:
            return
        self._seen.add(id)
        node = self._nodes[id]
        if not self._is_read(node):
            # A look-up that sees only old rows finds nothing: state begins empty.
            if node.operator is None or (isinstance(node.operator, LookUp) and len(node.inputs) == 1):
                return
            for input in node.inputs:
                self.visit(input)
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
        return self._relations.get(node.id) or (f"n{node.id}.0", node.owned[0])


def receipts_of(packets: Iterable[Packet]) -> list[Receipt]:
    return [decode(packet.payload) for packet in packets if packet.edge == RECEIPT]


def run_first_wave(program: Program, packets: Sequence[Packet], files: TaskFiles) -> list[Packet]:
    """The steps before any exchange, where the rows are: they have no state."""
    return list(run_wave(program, 0, None, packets, files))
