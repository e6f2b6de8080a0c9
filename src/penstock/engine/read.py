"""Ad-hoc reads: any SELECT over the rows of the current epoch, answered by DuckDB without a copy."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pyarrow as pa

from penstock.base.errors import PenstockError
from penstock.base.limits import REMEMBERED_QUERIES_MAX
from penstock.base.undivided import Undivided
from penstock.duck.connect import DuckConnection, DuckError, connect, translate
from penstock.engine.catalog import Catalog, MaterializedView, Relation, Table, View
from penstock.engine.showing import Showing, arrow_table
from penstock.engine.system import BY_NAME, RELATIONS, SystemRelation
from penstock.engine.system.shown import Rows, SystemShown, may_mention
from penstock.sql.bind import Binder
from penstock.sql.tokens import fold, quote
from penstock.zset.types import Schema, SqlType
from penstock.zset.zset import ZSet

RowsOf = Callable[[Table | MaterializedView], ZSet | None]
_TYPES_KEY = b"penstock.types"

# Types whose Arrow form is another type in SQL: cast when DuckDB reads them.
_CAST_ON_READ = ("HUGEINT", "UUID", "JSON", "NULL")


class Reader:
    """A DuckDB connection in which every relation is a view over its current rows."""

    def __init__(self, catalog: Catalog, binder: Binder) -> None:
        self._catalog = catalog
        self._binder = binder
        self._duck = connect()
        self._shown: dict[str, object] = {}  # what is registered for each relation: a version
        self._showing: dict[int, Showing] = {}  # by the relation's id
        self._system = SystemShown(self._duck)
        self.system_rows: Rows = SystemRelation.empty  # the flow says what it knows of itself
        self._known: dict[str, list[Relation]] = {}  # by the text of a query
        self._known_for = -1  # the state of the catalog

    def close(self) -> None:
        self._duck.close()

    def interrupt(self) -> None:
        """Stop the query that runs in another thread, which then raises QueryCanceled."""
        self._duck.interrupt()

    # -- the catalog's shadow --------------------------------------------------------------

    def add_rows_relation(self, name: str, schema: Schema) -> None:
        """A table or materialized view: a view over an Arrow table that is exchanged as it changes. If there is one of
        its name it is replaced; if that fails it is still there, and shown anew when it is read."""
        self._register(
            name, pa.table([pa.nulls(0, t.arrow) for t in schema.types], names=plain_names(schema))
        )
        source = quote(data_name(name))
        self._run(f"CREATE OR REPLACE VIEW {quote(name)} AS SELECT {column_list(schema)} FROM {source}")

    def add_view(self, name: str, sql: str, columns: tuple[str, ...] | None) -> None:
        names = f" ({', '.join(quote(c) for c in columns)})" if columns else ""
        if may_mention(sql):
            self._system.declare()
        self._run(f"CREATE VIEW {quote(name)}{names} AS {sql}")

    def add_past(self, name: str, rows: pa.Table, columns: Sequence[tuple[str, str]]) -> None:
        """Rows that stay as they are until they are dropped: columns c0, c1, ... become these, of these types."""
        self._register(name, rows)
        items = ", ".join(f"CAST(c{i} AS {t}) AS {quote(n)}" for i, (n, t) in enumerate(columns))
        try:
            self._run(f"CREATE VIEW {quote(name)} AS SELECT {items} FROM {quote(data_name(name))}")
        except BaseException:
            del self._shown[fold(name)]
            relation = self._catalog.find(name)
            if relation is not None:
                self._showing.pop(relation.id, None)
            self._duck.unregister(data_name(name))
            raise

    def drop(self, name: str) -> None:
        self._run(f"DROP VIEW {quote(name)}")
        if fold(name) in self._shown:
            del self._shown[fold(name)]
            relation = self._catalog.find(name)
            if relation is not None:
                self._showing.pop(relation.id, None)
            self._duck.unregister(data_name(name))

    def forget(self, relation: Table | MaterializedView) -> None:
        """Another one takes its place, or was about to: what is remembered may be of the time without either."""
        self._showing.pop(relation.id, None)
        self._known.clear()

    # -- queries ---------------------------------------------------------------------------

    def query(
        self, sql: str, rows_of: RowsOf | None = None,
        overrides: Mapping[str, ZSet] | None = None, extra: Mapping[str, pa.Table] | None = None,
    ) -> pa.Table:  # fmt: skip
        """The answer. `rows_of` gives other rows than the committed ones (a transaction's own), or None;
        `overrides` replace the rows of relations, `extra` are further tables, for this query alone."""
        extra = extra or {}
        try:
            for name, table in extra.items():
                self._duck.register(name, table)
            relations = self.relations(sql)
            for name in sorted(r.name for r in relations if not isinstance(r, View)):
                self._show(name, rows_of, overrides or {})
            self._show_system(sql, relations)
            try:
                return fetched(self._duck, sql)
            except DuckError as error:
                raise translate(error, sql) from None
            except pa.ArrowInvalid as error:
                raise PenstockError(f"the result cannot be shown: {error}") from None
        finally:
            with Undivided():
                for name in extra:
                    self._duck.unregister(name)

    def columns(self, sql: str) -> list[tuple[str, str]]:
        """Names and types of a query's columns."""
        if may_mention(sql):
            self._system.declare()
        try:
            relation = bound(self._duck, sql)
        except DuckError as error:
            raise translate(error, sql) from None
        return list(zip(relation.columns, [str(t) for t in relation.types], strict=True))

    def explain(self, sql: str) -> str:
        if may_mention(sql):
            self._system.declare()
        try:
            return str(self._duck.execute(f"EXPLAIN {sql}").fetchall()[0][1])
        except DuckError as error:
            raise translate(error, sql) from None

    def base_relations(self, sql: str) -> list[str]:
        """Tables and materialized views that a query reads, plain views followed."""
        return sorted(r.name for r in self.relations(sql) if not isinstance(r, View))

    def _show_system(self, sql: str, relations: Sequence[Relation]) -> None:
        found = self.system_relations(sql, relations)
        if found or may_mention(sql):
            self._system.show(found, self.system_rows)

    def system_relations(self, sql: str, relations: Sequence[Relation] | None = None) -> list[SystemRelation]:
        """The relations of schema penstock that a query reads, also through plain views."""
        known = self.relations(sql) if relations is None else relations
        texts = [sql, *(r.sql for r in known if isinstance(r, View))]
        names: set[str] = set()
        for text in texts:
            if may_mention(text):
                try:
                    names |= self._binder.system_references(text)
                except PenstockError:
                    return list(RELATIONS)  # not a SELECT to DuckDB's JSON: show everything
        return [BY_NAME[name] for name in sorted(names) if name in BY_NAME]

    def relations(self, sql: str) -> list[Relation]:
        """What a query reads, plain views and what is behind them. To ask DuckDB takes longer than a small query
        does, so it is remembered while the catalog stays as it is."""
        if self._known_for != self._catalog.changes or len(self._known) >= REMEMBERED_QUERIES_MAX:
            self._known.clear()
            self._known_for = self._catalog.changes
        if sql not in self._known:
            self._known[sql] = self._relations(sql)
        return list(self._known[sql])

    def _relations(self, sql: str) -> list[Relation]:
        found: dict[str, Relation] = {}
        try:
            waiting = {fold(n) for n in self._binder.references(sql)}
        except PenstockError:
            waiting = {fold(r.name) for r in self._catalog}  # not a SELECT to DuckDB's JSON: show everything
        while waiting:
            name = waiting.pop()
            relation = self._catalog.find(name)
            if relation is None or name in found:
                continue
            found[name] = relation
            if isinstance(relation, View):
                waiting |= relation.depends
        return list(found.values())

    def _show(
        self,
        name: str,
        rows_of: RowsOf | None,
        overrides: Mapping[str, ZSet],
    ) -> None:
        relation = self._catalog.get(name)
        assert isinstance(relation, (Table, MaterializedView))
        rows = overrides.get(fold(name))
        if rows is None and rows_of is not None:
            rows = rows_of(relation)
        if rows is not None:
            self._register(name, shown_rows(relation, rows))
        elif self._shown.get(fold(name)) != relation.version or not relation.version:
            self._register(name, self.committed(relation))
            self._shown[fold(name)] = relation.version

    def committed(self, relation: Table | MaterializedView) -> pa.Table:
        """A relation's rows in the form that its view in DuckDB reads."""
        showing = self._showing.get(relation.id)
        if showing is None:
            showing = self._showing[relation.id] = Showing(_plain(relation.schema))
        return showing.table(relation)

    def _register(self, name: str, table: pa.Table) -> None:
        self._shown[fold(name)] = None  # first: if this is stopped, whatever is registered is not trusted
        self._duck.register(data_name(name), table)

    def _run(self, sql: str) -> None:
        try:
            self._duck.execute(sql)
        except DuckError as error:
            raise translate(error, sql) from None


def shown_rows(relation: Table | MaterializedView, rows: ZSet) -> pa.Table:
    """Other rows of a relation in the same form."""
    return arrow_table(rows, _plain(relation.schema), plain=False)


def bound(duck: DuckConnection, sql: str) -> Any:
    """DuckDB's relation for a query, which has not run yet; None for a statement without a result."""
    try:
        return duck.sql(sql)
    except DuckError:
        duck.execute(sql)  # raises the same, but with its place in the text
        raise


def fetched(duck: DuckConnection, sql: str) -> pa.Table:
    """The answer as an Arrow table, with the types in DuckDB's words: Arrow's are fewer (see `type_names`)."""
    relation = bound(duck, sql)
    if relation is None:  # a statement without a result
        return pa.table({})
    return with_type_names(relation.to_arrow_table(), [str(t) for t in relation.types])


def with_type_names(answer: pa.Table, names: Sequence[str]) -> pa.Table:
    """The answer with the SQL types of its columns."""
    return answer.replace_schema_metadata({_TYPES_KEY: "\0".join(names)})


def type_names(answer: pa.Table) -> list[str] | None:
    """The SQL types of an answer's columns, where DuckDB gave it."""
    given = (answer.schema.metadata or {}).get(_TYPES_KEY)
    return None if given is None else given.decode().split("\0")


DATA_NAME = "penstock rows of "  # what the names of kept rows begin with


def data_name(name: str) -> str:
    return f"{DATA_NAME}{fold(name)}"


def _plain(schema: Schema) -> Schema:
    return Schema(plain_names(schema), schema.types)


def plain_names(schema: Schema) -> tuple[str, ...]:
    """The names of the columns in what DuckDB reads from: those of the relation may repeat."""
    return tuple(f"c{i}" for i in range(len(schema)))


def column_list(schema: Schema) -> str:
    """The columns c0, c1, ... of Arrow rows under a relation's names, and in its types."""
    pairs = enumerate(zip(schema.names, schema.types, strict=True))
    return ", ".join(f"{_cast(t, f'c{i}')} AS {quote(n)}" for i, (n, t) in pairs)


def _cast(type: SqlType, name: str) -> str:
    return f"CAST({name} AS {type.duck})" if type.id in _CAST_ON_READ or type.children else name
