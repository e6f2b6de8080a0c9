"""The circuit: operators, wired. One for the whole flow; views that need the same node share it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

from penstock.circuit.operator import Delta, Operator, Result
from penstock.state.arrangement import Arrangement
from penstock.zset.types import SqlType

Step = Callable[[Sequence[Delta], Sequence[Arrangement]], Result]


@dataclass
class CircuitNode:
    """An operator in its place. Inputs have smaller numbers, so number order is a topological order."""

    id: int
    operator: Operator | None  # None: a source, whose deltas come from outside
    inputs: tuple[int, ...]
    reads: tuple[int, ...]  # the nodes whose first arrangement the operator reads
    types: tuple[SqlType, ...]  # of the output
    names: tuple[str, ...]
    label: str  # what EXPLAIN says about it, beside the operator's name
    owned: list[Arrangement] = field(default_factory=list)


# A node's number, its input if it has only one, its inputs, its operator's step (None: it passes its input on), all
# the state that the step is given, and what of it is the node's own.
Planned = tuple[int, int | None, tuple[int, ...], Step | None, Sequence[Arrangement], list[Arrangement]]


class Circuit:
    """Nodes by number; views by name, each with the node that gives its rows."""

    def __init__(self) -> None:
        self.nodes: dict[int, CircuitNode] = {}
        self.last = 0  # the newest number; none is ever used twice
        self._schedules: dict[frozenset[int], list[CircuitNode]] = {}
        self._plans: dict[tuple[int, ...], list[Planned]] = {}

    def reserve(self) -> int:
        """A number for a new node."""
        self.last += 1
        return self.last

    def add(self, nodes: Iterable[CircuitNode]) -> None:
        for node in nodes:
            self.nodes[node.id] = node
        self._schedules.clear()
        self._plans.clear()

    def remove(self, ids: Iterable[int]) -> None:
        for id in ids:
            del self.nodes[id]
        self._schedules.clear()
        self._plans.clear()

    def below(self, roots: Iterable[int], extra: dict[int, CircuitNode] | None = None) -> list[CircuitNode]:
        """The nodes that these need, themselves included, in topological order."""
        nodes = {**self.nodes, **(extra or {})}
        found: set[int] = set()
        waiting = list(roots)
        while waiting:
            id = waiting.pop()
            if id not in found:
                found.add(id)
                waiting += [*nodes[id].inputs, *nodes[id].reads]
        return [nodes[id] for id in sorted(found)]

    def schedule(self, changed: frozenset[int]) -> list[CircuitNode]:
        """The nodes that a change of these sources may reach, in topological order."""
        known = self._schedules.get(changed)
        if known is None:
            reached = set(changed)
            known = []
            for id in sorted(self.nodes):
                node = self.nodes[id]
                if id not in changed and any(i in reached for i in node.inputs):
                    reached.add(id)
                    known.append(node)
            self._schedules[changed] = known
        return known

    def plan(self, changed: tuple[int, ...]) -> list[Planned]:
        """The same with the state of each node at hand: what a tick needs, worked out once."""
        known = self._plans.get(changed)
        if known is None:
            known = []
            for node in self.schedule(frozenset(changed)):
                assert node.operator is not None  # a source has no inputs, so it is never scheduled
                only = node.inputs[0] if len(node.inputs) == 1 else None
                passes_on = only is not None and node.operator.passes_on(len(self.nodes[only].types))
                step = None if passes_on else node.operator.step
                known.append((node.id, only, node.inputs, step, self.state_of(node), node.owned))
            self._plans[changed] = known
        return known

    def state_of(self, node: CircuitNode) -> Sequence[Arrangement]:
        """What the node's operator reads: its own arrangements, then those of other nodes."""
        if not node.reads:
            return node.owned
        return [*node.owned, *(self.nodes[r].owned[0] for r in node.reads)]
