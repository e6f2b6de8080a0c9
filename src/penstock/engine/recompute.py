"""Views computed anew by DuckDB from the rows of the base tables: what `verify` compares with."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa

from penstock.duck.connect import DuckError, connect, translate
from penstock.engine.catalog import MaterializedView, Relation, Table, View
from penstock.engine.read import column_list, plain_names
from penstock.engine.showing import arrow_table
from penstock.sql.tokens import fold, quote
from penstock.zset.types import INTEGER, Schema, SqlType
from penstock.zset.zset import ZSet


class Recompute:
    """A DuckDB database of its own, with the base tables as they are and views made when asked for.

    A materialized view is computed once, from tables and from other views that were computed here; it
    never sees what the flow holds of another view, unless `settle` says that those rows are as good.
    """

    def __init__(
        self,
        relations: Mapping[str, Relation],
        tables: Mapping[str, ZSet],
        *,
        shuffle: int | None = None,
        settled: Mapping[str, pa.Table] | None = None,
    ) -> None:
        self._relations = relations  # by folded name
        self._tables = tables
        self._shuffle = shuffle  # the seed of another order of the tables' rows
        self.settled = dict(settled or {})
        self._made: set[str] = set()
        self._duck = connect(threads=1)  # one thread: the same rows in the same order give the same answer
        # It takes LIMIT 1 away from a query of five rows (DuckDB 2.0.0, seed 1181 of the random cases).
        self.run("SET disabled_optimizers = 'statistics_propagation'")

    def close(self) -> None:
        self._duck.close()

    def run(self, sql: str) -> list[Any]:
        try:
            return self._duck.execute(sql).fetchall()
        except DuckError as error:
            raise translate(error, sql) from None

    def table(self, sql: str) -> pa.Table:
        try:
            return self._duck.sql(sql).to_arrow_table()
        except DuckError as error:
            raise translate(error, sql) from None

    def parsed(self, sql: str) -> Any:
        """DuckDB's parse tree of a query."""
        found = self._duck.execute("SELECT json_serialize_sql(?::VARCHAR)", [sql]).fetchall()
        return json.loads(found[0][0])

    def unparsed(self, tree: Any) -> str:
        """The text of a parse tree."""
        found = self._duck.execute("SELECT json_deserialize_sql(?::JSON)", [json.dumps(tree)]).fetchall()
        return str(found[0][0])

    # -- relations -------------------------------------------------------------------------

    def make(self, name: str) -> None:
        """Have a relation, and before it everything that it is built on."""
        key = fold(name)
        if key in self._made:
            return
        relation = self._relations[key]
        self._made.add(key)
        if isinstance(relation, Table):
            self.show(relation.name, relation.schema, self._rows(relation))
            return
        if key in self.settled:
            assert isinstance(relation, MaterializedView)
            self.show(relation.name, relation.schema, self.settled[key])
            return
        for below in sorted(relation.depends):
            self.make(below)
        if isinstance(relation, View):
            names = f" ({', '.join(quote(c) for c in relation.aliases)})" if relation.aliases else ""
            self.run(f"CREATE VIEW {quote(relation.name)}{names} AS {relation.sql}")
        else:
            self.run(f"CREATE TABLE {quote(relation.name)} AS {typed_query(relation)}")

    def settle(self, view: MaterializedView, rows: pa.Table) -> None:
        """Let views over this one see these rows: one of the answers that its query may give."""
        self.run(f"DROP TABLE IF EXISTS {quote(view.name)}")
        self.settled[fold(view.name)] = rows
        self._made.discard(fold(view.name))
        self.make(view.name)

    def show(self, name: str, schema: Schema, rows: pa.Table) -> None:
        """A view over Arrow rows, whose columns are c0, c1, ..., under the relation's names and types."""
        self._duck.register(_data_name(name), rows)
        columns = column_list(schema)
        self.run(f"CREATE VIEW {quote(name)} AS SELECT {columns} FROM {quote(_data_name(name))}")

    def register(self, name: str, rows: pa.Table) -> None:
        self._duck.register(name, rows)

    def _rows(self, table: Table) -> pa.Table:
        rows = rows_table(self._tables[fold(table.name)], table.schema)
        if self._shuffle is None:
            return rows
        return rows.take(np.random.default_rng(self._shuffle).permutation(rows.num_rows))


def rows_table(rows: ZSet, schema: Schema) -> pa.Table:
    """Rows as DuckDB reads them: columns c0, c1, ..., one row for each multiplicity."""
    return arrow_table(rows, Schema(plain_names(schema), schema.types), plain=False)


def key_name(number: int) -> str:
    """A column beside the view's own, under a name that none of them has."""
    return quote(f"penstock key {number}")


def typed_query(view: MaterializedView, sql: str | None = None, extra: int = 0) -> str:
    """A view's query, its columns under the view's names and in its types; `extra` more are left as they are."""
    plain = [*plain_names(view.schema), *(key_name(i) for i in range(extra))]
    columns = [
        f"{_typed(c, t)} AS {quote(n)}"
        for c, n, t in zip(plain, view.schema.names, view.schema.types, strict=False)
    ]
    columns += plain[len(columns) :]
    # The line ends keep a comment at the end of the query from swallowing the rest.
    return f"SELECT {', '.join(columns)} FROM (\n{sql or view.sql}\n) AS q({', '.join(plain)})"


def _typed(column: str, type: SqlType) -> str:
    name = (INTEGER if type.id == "NULL" else type).duck
    # A zero has no sign in what a view holds (zset/zeros.py); those that are nested are left to the comparison.
    return f"(CAST({column} AS {name}) + CAST(0 AS {name}))" if type.is_float else f"CAST({column} AS {name})"


def _data_name(name: str) -> str:
    return f"penstock rows of {fold(name)}"
