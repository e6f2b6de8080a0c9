"""Everything that DDL has made of a flow as JSON, and back: relations, circuit and registry, no rows.

A restored flow has empty tables, views and arrangements, in the same order and with the same names:
whoever keeps their batches puts them back. Nothing is planned again.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from penstock.base.errors import CorruptState, PenstockError
from penstock.circuit import codec
from penstock.circuit.codec import read_circuit, write_circuit
from penstock.engine.access_codec import read_access, write_access
from penstock.engine.catalog import MaterializedView, Relation, Table, View, VolatileDefault
from penstock.engine.core import Core
from penstock.plan.codec import FORMAT, Decoder, Encoder, Json, check_format, damage_named, member
from penstock.sql.tokens import fold
from penstock.state.contents import Contents

CLASSES: tuple[type, ...] = (*codec.CLASSES, VolatileDefault)


def encode_catalog(core: Core) -> Json:
    """The relations in the order in which they were made, the circuit and its registry."""
    encoder = Encoder(CLASSES)
    relations = [_write(encoder, core, relation) for relation in core.catalog]
    circuit = write_circuit(encoder, core.circuit, core.registry)
    return {
        "format": FORMAT,
        "records": encoder.records,
        "last_id": core.catalog.last_id,
        "relations": relations,
        "circuit": circuit,
        "access": write_access(core.catalog.access),
    }


def _write(encoder: Encoder, core: Core, relation: Relation) -> Json:
    if isinstance(relation, Table):
        extra = {
            "declared": core.binder.is_declared(relation.name),
            "checks": tuple(text for text, _ in relation.checks),
        }
    else:
        extra = {}
    values = {name: getattr(relation, name) for name in _FIELDS[relation.kind]} | extra
    return {"kind": relation.kind} | {name: encoder.encode(value) for name, value in values.items()}


# What is written of each kind as it stands; the rest is rows, or follows from these.
_FIELDS: dict[str, tuple[str, ...]] = {
    "table": (
        "id",
        "name",
        "schema",
        "node",
        "not_null",
        "defaults",
        "default_texts",
        "key",
        "key_node",
        "since",
        "retain_s",
        "dedup",
    ),
    "view": ("id", "name", "sql", "columns", "depends", "aliases"),
    "materialized view": (
        "id",
        "name",
        "sql",
        "schema",
        "depends",
        "plan",
        "node",
        "options",
        "since",
        "retain_s",
    ),
}


def restore_catalog(core: Core, written: Json) -> None:
    """Fill a core that has just been made with what `encode_catalog` wrote."""
    if core.circuit.last or core.catalog.last_id:
        raise PenstockError("only a new flow can be restored into")
    check_format(written)
    with damage_named("catalog"):
        _restore(core, written)


def _restore(core: Core, written: Json) -> None:
    decoder = Decoder(member(written, "records"), CLASSES)
    core.circuit, core.registry = read_circuit(decoder, member(written, "circuit"))
    items = [_read(decoder, item) for item in member(written, "relations")]
    made: dict[str, Relation] = {}
    for item in items:
        if item["kind"] == "table":
            made[fold(item["name"])] = _table(core, item)
        elif item["kind"] == "materialized view":
            made[fold(item["name"])] = _materialized(core, item)
    for view in _in_order([i for i in items if i["kind"] == "view"], set(made)):
        core.declare_view(view["name"], view["sql"], view["aliases"])
        made[fold(view["name"])] = View(**{name: view[name] for name in _FIELDS["view"]})
    for item in items:
        core.catalog.add(made[fold(item["name"])])
    core.catalog.last_id = member(written, "last_id")
    if "access" in written:  # flows that were made before there were roles have none
        core.catalog.access = read_access(written["access"])


def _read(decoder: Decoder, written: Json) -> dict[str, Any]:
    kind = member(written, "kind")
    if kind not in _FIELDS:
        raise CorruptState(f"a stored relation is of the unknown kind {kind}")
    names = {*_FIELDS[kind], *(("declared", "checks") if kind == "table" else ())}
    given = set(written) - {"kind"}
    if given != names:
        raise CorruptState(f"a stored {kind} has not the fields of one: {', '.join(sorted(given ^ names))}")
    return {"kind": kind} | {name: decoder.decode(written[name]) for name in sorted(names)}


def _table(core: Core, item: dict[str, Any]) -> Table:
    table = Table(**{name: item[name] for name in _FIELDS["table"]})
    name, schema = table.name, table.schema
    if item["declared"]:
        core.binder.restore_table(name, schema, table.not_null, table.key)
    else:
        core.binder.add_relation(name, schema)
    core.reader.add_rows_relation(name, schema)
    table.checks = tuple((text, core.compile_check(name, text)) for text in item["checks"])
    if table.key_node is None:
        table.bag = Contents(f"table {name}", schema.types)
    else:
        table.keyed = core.circuit.nodes[table.key_node].owned[0]  # one arrangement, known by two names
    table.version = 1
    return table


def _materialized(core: Core, item: dict[str, Any]) -> MaterializedView:
    name, schema = item["name"], item["schema"]
    core.binder.add_relation(name, schema)
    core.reader.add_rows_relation(name, schema)
    contents = Contents(f"view {name}", schema.types)
    return MaterializedView(
        **{field: item[field] for field in _FIELDS["materialized view"]}, contents=contents, version=1
    )


def _in_order(views: list[dict[str, Any]], known: set[str]) -> Iterable[dict[str, Any]]:
    """Plain views after the views that they are written on."""
    waiting = views
    while waiting:
        ready = [v for v in waiting if v["depends"] <= known]
        if not ready:
            raise CorruptState(f'the stored view "{waiting[0]["name"]}" depends on what is not there')
        yield from ready
        known = known | {fold(v["name"]) for v in ready}
        waiting = [v for v in waiting if fold(v["name"]) not in known]
