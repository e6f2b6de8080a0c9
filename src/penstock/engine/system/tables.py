"""penstock.tables: tables, their keys and how far their sources have been read."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from penstock.engine.system.relation import SystemRelation

if TYPE_CHECKING:
    from penstock.engine.flow import Flow


def _rows(flow: Flow) -> Iterator[tuple[Any, ...]]:
    for table in flow._core.catalog.tables():
        piece = table.bag if table.bag is not None else table.keyed
        assert piece is not None
        offset = flow.offset(table.name)
        yield (
            table.id,
            table.name,
            [table.schema.names[k] for k in table.key],
            table.row_count(),
            piece.nbytes(),
            table.since,
            None if offset is None else str(offset),
            table.dedup,
            table.retain_s,
        )


TABLES = SystemRelation(
    "tables",
    "tables",
    (
        ("id", "BIGINT"),
        ("name", "VARCHAR"),
        ("primary_key", "VARCHAR[]"),
        ("stored_rows", "BIGINT"),  # those that later deltas take away counted too
        ("bytes", "BIGINT"),
        ("since_epoch", "BIGINT"),
        ("source_offset", "VARCHAR"),
        ("drops_repetitions", "BOOLEAN"),
        ("retain_history_s", "DOUBLE"),
    ),
    _rows,
)
