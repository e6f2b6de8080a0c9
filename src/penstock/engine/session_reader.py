"""A session's own way to read: its queries run while others work.

Under the flow's lock the relations of a query are shown to a DuckDB connection of the session's own, as Arrow tables
that nobody changes any more; the query itself runs without the lock, over the rows of that one epoch.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

import pyarrow as pa

from penstock.base.errors import PenstockError
from penstock.base.limits import REMEMBERED_QUERIES_MAX, STREAM_ROWS
from penstock.base.undivided import Undivided
from penstock.duck.connect import DuckConnection, DuckError, cursor_of, translate
from penstock.engine.catalog import Relation, View
from penstock.engine.core import Core
from penstock.engine.read import RowsOf, bound, column_list, data_name, fetched, shown_rows
from penstock.engine.system import BY_NAME, SCHEMA, SystemRelation
from penstock.engine.system.shown import Rows, SystemShown, may_mention
from penstock.sql import mentions
from penstock.sql.binding import quoted_text
from penstock.sql.tokens import fold, quote


class SessionReader:
    """Temporary views over the rows of a flow, declared when a query first needs them.

    `constants` are functions without arguments that answer with a text, such as version().
    """

    def __init__(self, database: DuckConnection, constants: Mapping[str, str]) -> None:
        self._duck = cursor_of(database)
        self._declared: dict[str, Relation] = {}  # by folded name
        self._shown: dict[str, int | None] = {}  # the version that is registered; None: a transaction's own
        self._known: dict[str, tuple[list[Relation], list[SystemRelation]]] = {}  # by the text of a query
        self._system = SystemShown(self._duck)
        self._known_for: tuple[Core, int] | None = None  # the state of the catalog
        for name, text in constants.items():
            self._duck.execute(f"CREATE TEMP MACRO {quote(name)}() AS {quoted_text(text)}")

    def close(self) -> None:
        self._duck.close()

    def interrupt(self) -> None:
        """Stop the query that runs in another thread, which then raises QueryCanceled."""
        self._duck.interrupt()

    # -- under the flow's lock -------------------------------------------------------------

    def prepare(self, core: Core, sql: str, rows_of: RowsOf) -> None:
        """Show the rows that a query needs: those that `rows_of` gives, or the committed ones."""
        with Undivided():
            self._forget_changed(core)
        relations, system = self._relations(core, sql)
        if system or may_mention(sql):
            self._system.show(system, core.reader.system_rows)
        with Undivided():
            for relation in relations:
                self._declare(core, relation)
        for relation in relations:
            if isinstance(relation, View):
                continue
            name, own = fold(relation.name), rows_of(relation)
            if own is None and self._shown.get(name) == relation.version and relation.version:
                continue
            rows = core.reader.committed(relation) if own is None else shown_rows(relation, own)
            self._shown[name] = None  # if this is stopped, whatever is registered is not trusted
            self._duck.register(data_name(name), rows)
            self._shown[name] = relation.version if own is None else None

    def _relations(self, core: Core, sql: str) -> tuple[list[Relation], list[SystemRelation]]:
        """What a query reads. Asking DuckDB takes longer than a small query does, so it is remembered."""
        state = core, core.catalog.changes  # a reader of another process's flow may get a new core
        if self._known_for != state or len(self._known) >= REMEMBERED_QUERIES_MAX:
            self._known.clear()
            self._known_for = state
        if sql not in self._known:
            relations = core.reader.relations(sql)
            self._known[sql] = relations, core.reader.system_relations(sql, relations)
        return self._known[sql]

    def _forget_changed(self, core: Core) -> None:
        """Views over what was dropped or replaced go, and so does what is built on them."""
        changed = [n for n, relation in self._declared.items() if core.catalog.find(n) is not relation]
        if not changed:
            return
        for name in reversed(self._declared):  # what is built on others was declared after them
            self._duck.execute(f"DROP VIEW {quote(name)}")
            if name in self._shown:
                self._duck.unregister(data_name(name))
        self._declared.clear()
        self._shown.clear()

    def _declare(self, core: Core, relation: Relation) -> None:
        name = fold(relation.name)
        if name in self._declared:
            return
        if isinstance(relation, View):
            for other in sorted(relation.depends):
                found = core.catalog.find(other)
                if found is not None:
                    self._declare(core, found)
            columns = f" ({', '.join(quote(c) for c in relation.aliases)})" if relation.aliases else ""
            self._run(f"CREATE TEMP VIEW {quote(name)}{columns} AS {relation.sql}")
        else:
            schema = relation.schema
            empty = [pa.nulls(0, t.arrow) for t in schema.types]
            self._duck.register(data_name(name), pa.table(empty, names=[f"c{i}" for i in range(len(schema))]))
            source = quote(data_name(name))
            self._run(f"CREATE TEMP VIEW {quote(name)} AS SELECT {column_list(schema)} FROM {source}")
            self._shown[name] = None
        self._declared[name] = relation

    def _run(self, sql: str) -> None:
        try:
            self._duck.execute(sql)
        except DuckError as error:
            raise translate(error, sql) from None

    # -- without it ------------------------------------------------------------------------

    def at_any_time(self, sql: str) -> list[SystemRelation] | None:
        """The relations of a query, if all of them are such that nobody's lock is needed to read them."""
        ((parsed,),) = self._duck.execute("SELECT json_serialize_sql(?::varchar)", [sql]).fetchall()
        tree = json.loads(parsed)
        if mentions.has_table_function(tree):
            return None  # it may read what is not named
        found = mentions.qualified(tree)
        if not found or any(schema.lower() != SCHEMA for schema, _ in found):
            return None
        relations = [BY_NAME.get(name.lower()) for _, name in found]
        known = [r for r in relations if r is not None and r.at_any_time]
        return known if len(known) == len(relations) else None

    def show_system(self, relations: Sequence[SystemRelation], rows: Rows) -> None:
        self._system.show(relations, rows)

    def run(self, sql: str) -> pa.Table:
        try:
            return fetched(self._duck, sql)
        except DuckError as error:
            raise translate(error, sql) from None
        except pa.ArrowInvalid as error:
            raise PenstockError(f"the result cannot be shown: {error}") from None

    def open(self, sql: str) -> tuple[pa.RecordBatchReader | None, list[str]]:
        """Begin a query: its rows, to be read, and the types of its columns; no rows for other statements."""
        relation = bound(self._duck, sql)
        if relation is None:
            return None, []
        return relation.to_arrow_reader(STREAM_ROWS), [str(t) for t in relation.types]

    def columns(self, sql: str) -> list[tuple[str, str]]:
        """Names and types of a query's columns."""
        try:
            relation = bound(self._duck, sql)
        except DuckError as error:
            raise translate(error, sql) from None
        return list(zip(relation.columns, [str(t) for t in relation.types], strict=True))
