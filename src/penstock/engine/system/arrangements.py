"""penstock.arrangements: every piece of state, and who uses it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from penstock.engine import slots
from penstock.engine.system.relation import SystemRelation
from penstock.state.contents import Contents

if TYPE_CHECKING:
    from penstock.engine.flow import Flow


def _rows(flow: Flow) -> Iterator[tuple[Any, ...]]:
    core = flow._core
    uses = {v.name: {n.id for n in core.circuit.below([v.node])} for v in core.catalog.materialized()}
    owners = {f"r{r.id}": r.name for r in core.catalog.stored()}
    for slot, piece in slots.pieces(core):
        if isinstance(piece, Contents):
            node, users, batches = None, [owners[slot]], len(piece.arranged().batches)
            rows, size = piece.row_count(), piece.nbytes()
        else:
            node = int(slot[1:].split(".")[0])
            users = [name for name, ids in uses.items() if node in ids]
            batches, rows, size = len(piece.batches), piece.rows(), piece.nbytes()
        yield slot, node, piece.name, len(piece.layout.key), batches, rows, size, users


ARRANGEMENTS = SystemRelation(
    "arrangements",
    "every piece of state: arrangements, and the rows of tables and views",
    (
        ("slot", "VARCHAR"),  # its name on storage, and in penstock.batches
        ("node", "BIGINT"),  # the operator that owns it, as in penstock.laws; NULL: rows of a table or view
        ("name", "VARCHAR"),
        ("key_columns", "BIGINT"),
        ("batches", "BIGINT"),
        ("rows", "BIGINT"),
        ("bytes", "BIGINT"),
        ("used_by", "VARCHAR[]"),  # more than one: it is shared
    ),
    _rows,
)
