"""The inline engine: an epoch in this process, operators one after the other; exchanges are no-ops."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from penstock.base.errors import NumericOutOfRange, PenstockError
from penstock.circuit.circuit import Circuit, CircuitNode
from penstock.circuit.operator import Delta, Result
from penstock.circuit.operators.arrange import Arrange
from penstock.circuit.operators.look_up import LookUp
from penstock.state.arrangement import Arrangement
from penstock.state.batch import Batch
from penstock.state.scattered import Scattered
from penstock.zset.few import Few
from penstock.zset.zset import ZSet, union


@dataclass(slots=True)
class Epoch:
    """What an epoch would change: nothing has been changed yet."""

    deltas: Mapping[int, Delta | Scattered]  # what nodes gave: all of them, or those of views
    appends: list[tuple[Arrangement, Batch]]
    placed: bool = False  # tasks have written some of it to files already
    rows_read: int = 0  # by tasks, from DataFrames

    def commit(self) -> None:
        for arrangement, batch in self.appends:
            arrangement.append(batch)


def run(circuit: Circuit, changes: dict[int, Delta]) -> Epoch:
    """Push the changes of the sources through the circuit. Nodes that have a delta already are not run."""
    # Plain loops here and below: of one row, a comprehension costs as much as what it does.
    deltas: dict[int, Delta] = {}
    for id, change in changes.items():
        if change is not None and (change.rows if change.__class__ is Few else len(change)):
            deltas[id] = change  # noqa: PERF403
    appends: list[tuple[Arrangement, Batch]] = []
    for id, only, inputs, step, state, owned in circuit.plan(tuple(changes)):
        if only is not None:
            delta = deltas.get(only)
            if delta is None:  # what has no rows is not kept
                continue
            if step is None:  # it would give what it was given
                deltas[id] = delta
                continue
            given: list[Delta] = [delta]
        else:
            given = [deltas.get(i) for i in inputs]
            if not any(d is not None for d in given):
                continue
        assert step is not None
        try:
            out, batches = step(given, state)
        except PenstockError as error:
            error.node = id
            raise
        except OverflowError as error:
            raise _too_large(error, id) from None
        if out is not None and (out.rows if out.__class__ is Few else len(out)):
            deltas[id] = out
        if batches:
            for pair in zip(owned, batches, strict=True):
                if pair[1] is not None:
                    appends.append(pair)  # type: ignore[arg-type]  # noqa: PERF401
    return Epoch(deltas, appends)


def _too_large(error: OverflowError, node: int) -> PenstockError:
    """A number that was not expected to be so large: weights and counts that have been added up for ever."""
    found = NumericOutOfRange(f"a number does not fit 64 bits ({error})", hint="Give smaller weights.")
    found.node = node
    return found


def fill(
    nodes: dict[int, CircuitNode],
    new: Iterable[int],
    root: int,
    contents: Callable[[int], Delta],
    is_known: Callable[[int], bool],
) -> Epoch:
    """Run new nodes for the first time, on everything that their inputs hold.

    `contents` gives what a source or a materialized view holds; `is_known` tells whether a node was
    there before. All operators start from empty state, so a look-up that sees only old rows finds
    nothing: its inputs are not even computed.
    """
    results: dict[int, Delta] = {}
    appends: list[tuple[Arrangement, Batch]] = []

    def value(id: int) -> Delta:
        if id not in results:
            results[id] = compute(nodes[id])
        return results[id]

    def compute(node: CircuitNode) -> Delta:
        stored = contents(node.id)
        if stored is not None or node.operator is None:
            return stored
        if is_known(node.id) and isinstance(node.operator, Arrange):
            return node.owned[0].contents()
        if isinstance(node.operator, LookUp) and len(node.inputs) == 1:
            return None
        inputs = [value(i) for i in node.inputs]
        try:
            out, batches = _first_step(node, inputs, nodes)
        except PenstockError as error:
            error.node = node.id
            raise
        except OverflowError as error:
            raise _too_large(error, node.id) from None
        if not is_known(node.id):
            for arrangement, batch in zip(node.owned, batches, strict=True):
                if batch is not None and len(batch):
                    appends.append((arrangement, batch))
        return out

    value(root)
    for id in new:
        if nodes[id].owned:
            value(id)
    return Epoch(results, appends)


def _first_step(node: CircuitNode, inputs: list[Delta], nodes: dict[int, CircuitNode]) -> Result:
    operator = node.operator
    assert operator is not None
    seed = operator.seed()
    out: Delta = None
    batches: Sequence[Batch | None] = [None] * len(node.owned)
    if any(d is not None and len(d) for d in inputs):
        layouts = [*operator.layouts, *(nodes[r].owned[0].layout for r in node.reads)]
        empty = [Arrangement(node.label, layout) for layout in layouts]
        out, batches = operator.step([d if d is None or len(d) else None for d in inputs], empty)
    if seed is not None and len(seed):
        assert out is None or isinstance(out, ZSet)
        out = seed if out is None else union([seed, out])
    return out, batches
