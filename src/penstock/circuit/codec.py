"""The circuit and its registry as JSON, and back: the same numbers, operators, wiring and sharing.

An operator is written as its recipe: the class, from a closed list, and the arguments. State is not in
it: the nodes come back with empty arrangements of the same names and layouts.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from penstock.base.errors import CorruptState, PenstockError
from penstock.circuit.build import ArrangementKey, Registry
from penstock.circuit.circuit import Circuit, CircuitNode
from penstock.circuit.operator import Operator, Recipe
from penstock.circuit.operators.aggregate import Aggregate, AggregateInput
from penstock.circuit.operators.arrange import Arrange
from penstock.circuit.operators.constant import Constant
from penstock.circuit.operators.filter import Filter
from penstock.circuit.operators.look_up import LookUp
from penstock.circuit.operators.map import Map
from penstock.circuit.operators.match_join import MatchJoin
from penstock.circuit.operators.multiplicity import Multiplicity
from penstock.circuit.operators.not_in_join import NotInJoin
from penstock.circuit.operators.presence_join import PresenceJoin
from penstock.circuit.operators.threshold_join import ThresholdJoin
from penstock.circuit.operators.top_k import TopK
from penstock.circuit.operators.union import Union
from penstock.plan import codec
from penstock.plan.codec import FORMAT, Decoder, Encoder, Json, check_format, damage_named, member
from penstock.state.arrangement import Arrangement

CLASSES: tuple[type, ...] = (*codec.CLASSES, AggregateInput, ArrangementKey)
OPERATORS: tuple[type[Operator], ...] = (
    Aggregate, Arrange, Constant, Filter, LookUp, Map, MatchJoin, Multiplicity, NotInJoin, PresenceJoin,
    ThresholdJoin, TopK, Union,
)  # fmt: skip
_BY_NAME = {cls.__name__: cls for cls in OPERATORS}


def make_operator(recipe: Recipe) -> Operator:
    """The operator that a recipe is of."""
    return _BY_NAME[recipe.name](*recipe.args, **recipe.kwargs)


def encode_circuit(circuit: Circuit, registry: Registry) -> Json:
    """A circuit by itself, as a task in another process needs it."""
    encoder = Encoder(CLASSES)
    written = write_circuit(encoder, circuit, registry)
    return {"format": FORMAT, "records": encoder.records, "circuit": written}


def decode_circuit(written: Json) -> tuple[Circuit, Registry]:
    """The circuit that `encode_circuit` was given, without its state."""
    check_format(written)
    with damage_named("circuit"):
        return read_circuit(Decoder(member(written, "records"), CLASSES), member(written, "circuit"))


def write_circuit(encoder: Encoder, circuit: Circuit, registry: Registry) -> Json:
    """The circuit, its records in the encoder's table."""
    return {
        "last": circuit.last,
        "nodes": [_write_node(encoder, node) for node in circuit.nodes.values()],
        "plans": _write_keys(encoder, registry.plans.items()),
        "arrangements": _write_keys(encoder, registry.arrangements.items()),
        "columns": encoder.encode(tuple((k, tuple(v)) for k, v in registry.columns.items())),
    }


def _write_keys(encoder: Encoder, pairs: Iterable[tuple[object, int]]) -> Json:
    """Keys that only a NaN tells apart (which is not equal to itself) are written once: no look-up finds
    either of them, and read again they are one."""
    found: dict[str, Json] = {}
    for key, id in pairs:
        written = encoder.encode(key)
        found.setdefault(str(written), [written, id])
    return list(found.values())


def _write_node(encoder: Encoder, node: CircuitNode) -> Json:
    return {
        "id": node.id,
        "operator": None if node.operator is None else _write_operator(encoder, node.operator),
        "inputs": list(node.inputs),
        "reads": list(node.reads),
        "types": encoder.encode(node.types),
        "names": encoder.encode(node.names),
        "label": encoder.encode(node.label),
        "owned": encoder.encode(tuple(a.name for a in node.owned)),
    }


def _write_operator(encoder: Encoder, operator: Operator) -> Json:
    name, args, kwargs = operator.recipe
    if _BY_NAME.get(name) is not type(operator):
        raise PenstockError(f"the operator {name} cannot be stored")
    return [name, encoder.encode(args), {k: encoder.encode(v) for k, v in kwargs.items()}]


def read_circuit(decoder: Decoder, written: Json) -> tuple[Circuit, Registry]:
    """What `write_circuit` wrote, with the records that the decoder has."""
    circuit = Circuit()
    circuit.last = member(written, "last")
    nodes = [_read_node(decoder, item) for item in member(written, "nodes")]
    circuit.add(nodes)
    registry = Registry(
        {decoder.decode(key): id for key, id in member(written, "plans")},
        {decoder.decode(key): id for key, id in member(written, "arrangements")},
        {id: list(columns) for id, columns in decoder.decode(member(written, "columns"))},
    )
    _check(circuit, registry)
    return circuit, registry


def _read_node(decoder: Decoder, written: Json) -> CircuitNode:
    def value(name: str) -> Any:
        return decoder.decode(member(written, name))

    operator = _read_operator(decoder, member(written, "operator"))
    names, layouts = value("owned"), () if operator is None else operator.layouts
    if len(names) != len(layouts):
        raise CorruptState(f"node {member(written, 'id')} has {len(names)} arrangements, not {len(layouts)}")
    owned = [Arrangement(name, layout) for name, layout in zip(names, layouts, strict=True)]
    return CircuitNode(
        value("id"), operator, value("inputs"), value("reads"), value("types"), value("names"),
        value("label"), owned,
    )  # fmt: skip


def _read_operator(decoder: Decoder, written: Json) -> Operator | None:
    if written is None:
        return None
    name, args, kwargs = written
    made = _BY_NAME.get(name)
    if made is None:
        raise CorruptState(f"a stored operator is of the unknown class {name}")
    with damage_named(f"operator {name}"):
        return made(*decoder.decode(args), **{k: decoder.decode(v) for k, v in kwargs.items()})


def _check(circuit: Circuit, registry: Registry) -> None:
    """What is referred to must be there, and number order must be a topological order."""
    for node in circuit.nodes.values():
        if any(i not in circuit.nodes or i >= node.id for i in (*node.inputs, *node.reads)):
            raise CorruptState(f"node {node.id} of the stored circuit has inputs that are not before it")
    known = {*registry.plans.values(), *registry.arrangements.values(), *registry.columns}
    if known - set(circuit.nodes) or max(circuit.nodes, default=0) > circuit.last:
        raise CorruptState("the stored circuit lacks nodes that its registry names")
