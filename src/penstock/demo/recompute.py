"""The other way to keep views fresh, as the yardstick: DuckDB, over the same tables, from the start.

This file imports DuckDB by itself and not through `penstock.duck`, because here it is not our front
end but an independent judge that never sees the flow.
"""

from __future__ import annotations

import time

import duckdb
import pyarrow as pa

from penstock.demo.shop import KEYS, SCHEMAS, TABLES, VIEWS, Row
from penstock.demo.stream import Change


class Recompute:
    """A DuckDB database that gets the same rows and computes every view anew when it is asked to."""

    def __init__(self, tables: dict[str, pa.Table]) -> None:
        self.database = duckdb.connect(":memory:")
        self.pending: dict[str, dict[tuple[object, ...], Row | None]] = {name: {} for name in TABLES}
        for name, statement in TABLES.items():
            self.database.execute(statement)
            self._insert(name, tables[name])

    def note(self, change: Change) -> None:
        """Remember a change; it is applied when the views are computed next."""
        for table, rows in change.rows.items():
            for row, weight in rows:
                key = tuple(row[column] for column in KEYS[table])
                self.pending[table][key] = row if weight > 0 else None

    def refresh(self) -> float:
        """Apply what is pending, then compute every view; returns the seconds that the views alone took."""
        for table in TABLES:
            self._apply(table)
        began = time.perf_counter()
        for name, query in VIEWS.items():
            self.database.execute(f"CREATE OR REPLACE TEMP TABLE {name} AS {query}")
        return time.perf_counter() - began

    def rows(self, view: str) -> pa.Table:
        """A view as of the last refresh."""
        return self.database.sql(f"SELECT * FROM {view}").to_arrow_table()

    def _apply(self, table: str) -> None:
        pending = self.pending[table]
        if not pending:
            return
        keys = KEYS[table]
        gone = pa.table({name: [key[i] for key in pending] for i, name in enumerate(keys)})
        self.database.register("gone", gone)
        same = " AND ".join(f"t.{name} = gone.{name}" for name in keys)
        self.database.execute(f"DELETE FROM {table} t USING gone WHERE {same}")
        self.database.unregister("gone")
        self._insert(table, pa.Table.from_pylist([r for r in pending.values() if r], SCHEMAS[table]))
        pending.clear()

    def _insert(self, table: str, rows: pa.Table) -> None:
        self.database.register("incoming", rows)
        self.database.execute(f"INSERT INTO {table} SELECT * FROM incoming")
        self.database.unregister("incoming")
