"""From a circuit and what changes to the program that tasks run."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from penstock.circuit.circuit import Circuit, CircuitNode
from penstock.circuit.fragment import route
from penstock.circuit.operator import Delta
from penstock.circuit.operators.aggregate import Aggregate
from penstock.circuit.operators.arrange import Arrange
from penstock.circuit.operators.look_up import LookUp
from penstock.circuit.operators.multiplicity import Multiplicity
from penstock.run.program import Edge, Program, Source, Step, Stored
from penstock.run.ranges import Ranges
from penstock.state.arrangement import Arrangement
from penstock.state.batch import Batch, Layout
from penstock.state.batch_file import FileRef
from penstock.zset.types import SqlType

Ship = Callable[[Arrangement], tuple[FileRef | bytes, ...]]  # a piece of state, as tasks can open it
Outputs = Mapping[int, tuple[SqlType, ...]]  # nodes whose rows are wanted, and their types


def slot_of(node: int, number: int) -> str:
    """The name of a piece of state: the one that the manifest uses, too."""
    return f"n{node}.{number}"


def output_of(node: int) -> str:
    """The name of what a node gives."""
    return f"v{node}"


class Compiler:
    """Collects steps, edges and state. `changed` are the nodes whose deltas come from outside."""

    def __init__(self, nodes: Mapping[int, CircuitNode], ranges: Ranges, ship: Ship) -> None:
        self._nodes = nodes
        self._ranges = ranges
        self._ship = ship
        self._waves: dict[int, int] = {}
        self._steps: list[Step] = []
        self._edges: dict[Edge, int] = {}
        self._given: list[tuple[int, int]] = []
        self._stored: list[Stored] = []
        self._sources: list[Source] = []
        self._state: dict[str, tuple[FileRef | bytes, ...]] = {}
        self._layouts: dict[str, Layout] = {}
        self._arrangements: dict[str, Arrangement] = {}

    # -- where changes come from -----------------------------------------------------------

    def give(self, node: int, delta: Delta) -> int:
        """A node whose delta the driver sends: the edge that it goes over."""
        layout = self._layout_of(node) if isinstance(delta, Batch) else None
        types = self._nodes[node].types if layout is None else layout.types
        # The producer's number is the node's, made negative: of each there is one, and no step is called so.
        edge = self._edge(Edge(-node, 0, None, types, layout))
        self._given.append((node, edge))
        self._waves[node] = 0
        return edge

    def store(self, node: int, slot: str, arrangement: Arrangement, arranged: bool) -> None:
        """A node that gives what a piece of state holds."""
        self._use(slot, arrangement, empty=False)
        self._stored.append(Stored(node, slot, arranged))
        self._waves[node] = 0

    def read(self, unplaced: Any, arrangement: Arrangement) -> Source:
        """A table whose rows tasks read, and check first; `arrangement` is its state."""
        # The edge by which rows come to the partitions that check them.
        edge = Edge(-unplaced.node, 0, unplaced.columns, self._nodes[unplaced.node].types)
        source: Source = unplaced.placed(self._edge(edge))
        self._use(source.slot, arrangement, empty=not source.needs_state)
        self._sources.append(source)
        self._waves[source.node] = 0
        if source.key_node is not None:
            self._waves[source.key_node] = 0
        return source

    # -- steps -----------------------------------------------------------------------------

    def step(self, node: CircuitNode, first: bool = False, keeps: bool = True) -> None:
        """A node to run; its inputs have been added before."""
        operator = node.operator
        assert operator is not None
        cut = len(self._ranges) > 1
        before = [self._waves.get(p) for p in node.inputs]
        wave = max(
            [0, *(w + (cut and route(node, i) is not None) for i, w in enumerate(before) if w is not None)]
        )
        edges = [
            None if w is None or (w == wave and not (cut and route(node, i) is not None)) else
            self._edge(self._between(node, i, wave))
            for i, w in enumerate(before)
        ]  # fmt: skip
        owned = tuple(slot_of(node.id, i) for i in range(len(node.owned)))
        read = tuple(slot_of(r, 0) for r in node.reads)
        for slot, arrangement in zip(owned, node.owned, strict=True):
            self._use(slot, arrangement, empty=first)
        for slot, id in zip(read, node.reads, strict=True):
            self._use(slot, self._nodes[id].owned[0], empty=first)
        routes = [route(node, i) for i in range(len(node.inputs))]
        self._waves[node.id] = wave
        self._steps.append(
            Step(
                node.id,
                operator.recipe,
                wave,
                node.inputs,
                tuple(edges),
                (*owned, *read),
                owned if keeps else (),
                whole=bool(routes) and all(r == () for r in routes),
                first=first,
                label=node.label,
            )
        )

    def _between(self, node: CircuitNode, input: int, wave: int) -> Edge:
        producer, operator = self._nodes[node.inputs[input]], node.operator
        columns = route(node, input)
        layout = self._layout_of(producer.id)
        types = producer.types if layout is None else layout.types
        if columns is None or layout is not None:
            return Edge(producer.id, wave, columns, types, layout)
        if isinstance(operator, Aggregate) and operator.combines:
            partial = operator.layouts[0]
            return Edge(producer.id, wave, columns, partial.types, partial, combine=node.id)
        return Edge(
            producer.id,
            wave,
            columns,
            types,
            consolidate=isinstance(operator, (Aggregate, Multiplicity)),
            spread=isinstance(operator, LookUp) and input == 0 and columns != (),
        )

    def _layout_of(self, node: int) -> Layout | None:
        """Of the batches that a node gives; None if it gives rows."""
        operator = self._nodes[node].operator
        return operator.layouts[0] if isinstance(operator, Arrange) else None

    def _edge(self, edge: Edge) -> int:
        return self._edges.setdefault(edge, len(self._edges))

    def _use(self, slot: str, arrangement: Arrangement, empty: bool) -> None:
        self._layouts[slot] = arrangement.layout
        self._arrangements[slot] = arrangement
        if not empty and slot not in self._state:
            self._state[slot] = self._ship(arrangement)

    # -- the program -----------------------------------------------------------------------

    @property
    def arrangements(self) -> Mapping[str, Arrangement]:
        """The pieces of state that the program names."""
        return self._arrangements

    def program(self, outputs: Outputs) -> Program:
        return Program(
            self._ranges,
            tuple(self._steps),
            tuple(self._edges),
            self._state,
            self._layouts,
            {node: output_of(node) for node in outputs},
            tuple(self._stored),
            tuple(self._sources),
            given=tuple(self._given),
            types={output_of(node): types for node, types in outputs.items()},
        )


def add_reached(compiler: Compiler, circuit: Circuit, changed: Iterable[int]) -> None:
    """The steps that a change of these nodes may reach."""
    for node in circuit.schedule(frozenset(changed)):
        compiler.step(node)
