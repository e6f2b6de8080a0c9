"""A relation's rows as DuckDB reads them, kept from one read to the next as far as they have not changed."""

from __future__ import annotations

import pyarrow as pa

from penstock.engine.catalog import MaterializedView, Table, expand
from penstock.state.batch import Batch
from penstock.state.visible import Visible
from penstock.zset.column import Column
from penstock.zset.interchange import export, to_arrow
from penstock.zset.types import BIGINT, Schema
from penstock.zset.zset import ZSet


def arrow_table(rows: ZSet, schema: Schema, plain: bool = True) -> pa.Table:
    """A Z-set as an Arrow table, one row for each multiplicity. Column names may repeat."""
    rows = expand(rows)
    arrays = [export(c) if plain else _for_duckdb(c) for c in rows.columns]
    return pa.Table.from_arrays(arrays, names=list(schema.names))


def _for_duckdb(column: Column) -> pa.Array:
    """A column as DuckDB reads it. A HUGEINT whose values fit goes as it is held, without a copy: the view over
    it casts it anyway."""
    if column.type.id == "HUGEINT" and column.values.dtype != object:
        return to_arrow(Column(BIGINT, column.values, column.valid))
    return to_arrow(column)


class Showing:
    """One relation. Its largest batch is turned into Arrow once; what changed is laid around it."""

    def __init__(self, schema: Schema) -> None:
        self._schema = schema
        self._base: Batch | None = None
        self._table: pa.Table | None = None

    def table(self, relation: Table | MaterializedView) -> pa.Table:
        """All rows of the relation now."""
        seen = relation.visible(self._base)
        if seen is None:
            self._base = self._table = None
            return arrow_table(relation.rows(), self._schema, plain=False)
        if self._base is not seen.base or self._table is None:
            self._table = arrow_table(ZSet(seen.base.columns, seen.base.weights), self._schema, plain=False)
            self._base = seen.base
        return _around(self._table, seen, arrow_table(seen.rest, self._schema, plain=False))


def _around(table: pa.Table, seen: Visible, rest: pa.Table) -> pa.Table:
    """The base's rows but for those that are gone, and the rest: slices, no copy."""
    parts = []
    start = 0
    for place in [*seen.gone.tolist(), len(table)]:
        if place > start:
            parts.append(table.slice(start, place - start))
        start = place + 1
    return pa.concat_tables([*parts, rest])
