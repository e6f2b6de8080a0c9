"""SQL text to plan: DuckDB parses, binds and flattens; we read what it gives and optimise it.

A Binder mirrors the catalog as empty DuckDB tables (tables and materialized views) and DuckDB
views (plain views, so that DuckDB expands them). It holds no rows.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from penstock.base.errors import BindError, GroupingError, LimitExceeded, NotMaintainable, UndefinedTable
from penstock.base.undivided import Undivided
from penstock.duck.connect import DuckError, connect, describe, translate
from penstock.plan import tree
from penstock.plan.expr import Const, Expr
from penstock.plan.expr import walk as walk_expr
from penstock.plan.nodes import Node, Project, identity
from penstock.plan.rules import RULES
from penstock.plan.rules.settle_nulls import settle_keys, settle_marks
from penstock.sql import mentions, plan_json
from penstock.sql.as_written import as_written
from penstock.sql.mark import marked_types
from penstock.sql.read_aggregate import MAINTAINED
from penstock.sql.read_plan import ROWID, read_plan
from penstock.sql.read_types import Json, Unreadable, read_type
from penstock.zset.types import INTEGER, Schema

# Passes that look at data or at physical execution, that need what we do not enforce (foreign
# keys: join_elimination), that make state of what needs none (in_clause), or after which the
# serialised plan refers to columns that are not there (unused_columns, common_aggregate).
OFF = (
    "statistics_propagation", "empty_result_pullup", "late_materialization", "top_n",
    "compressed_materialization", "join_filter_pushdown", "build_side_probe_side", "row_group_pruner",
    "limit_pushdown", "sampling_pushdown", "top_n_window_elimination", "common_subplan", "window_self_join",
    "partitioned_execution", "partial_aggregate_pushdown", "column_lifetime", "join_order",
    "materialized_cte", "grouping_sets", "distinct_aggregate_rewrite", "window_rewriter", "aggregate_reuse",
    "projection_placement", "redundant_order_keys", "type_pushdown", "scalar_fn_pushdown",
    "remote_pushdown", "aggregate_function_rewriter", "reorder_filter", "projection_pullup",
    "unused_columns", "join_elimination", "in_clause", "common_aggregate",
)  # fmt: skip
# DuckDB fails on some queries under some settings: the first of these that gives a plan is taken.
ATTEMPTS: tuple[tuple[bool, tuple[str, ...]], ...] = (
    (True, OFF),
    (True, (*OFF, "deliminator", "filter_pullup", "common_subexpressions", "duplicate_groups")),
    (False, OFF),
)

Columns = Sequence[tuple[str, str]]  # names and types

# Change from query to query although DuckDB calls them consistent, or reverse.
_ALSO_VOLATILE = {"current_localtime", "current_localtimestamp", "localtime", "localtimestamp"}
_NOT_VOLATILE = {"error"}


@dataclass(frozen=True)
class TableDescription:
    """What CREATE TABLE said; `defaults` and `checks` are SQL text, `primary_key` column positions."""

    name: str
    schema: Schema
    not_null: tuple[bool, ...]
    defaults: tuple[str | None, ...]
    primary_key: tuple[int, ...]
    checks: tuple[str, ...]


def quoted(name: str) -> str:
    """A name as it stands in SQL text.

    >>> print(quoted('a "b"'))
    "a ""b\"""
    """
    return '"' + name.replace('"', '""') + '"'


class Binder:
    """Turns SQL into plans against a catalog of empty tables.

    >>> binder = Binder()
    >>> binder.create_table("CREATE TABLE t (id BIGINT PRIMARY KEY, v INTEGER)").primary_key
    (0,)
    >>> binder.plan("SELECT v AS x FROM t WHERE id > 1").schema.names
    ('x',)
    """

    def __init__(self, system: tuple[str, Mapping[str, Columns]] | None = None) -> None:
        self._duck = connect(threads=1)
        self._system = system  # a schema that is always there, with the columns of its relations
        self._system_declared = False
        self._disabled: tuple[str, ...] | None = None
        self._not_null: dict[str, set[tuple[str, int]]] = {}  # by table: its columns that are NOT NULL
        rows = self._duck.execute(
            "SELECT DISTINCT function_name FROM duckdb_functions() WHERE stability IN "
            "('VOLATILE', 'CONSISTENT_WITHIN_QUERY')"
        ).fetchall()
        self._volatile = {name for (name,) in rows} - _NOT_VOLATILE | _ALSO_VOLATILE

    def close(self) -> None:
        self._duck.close()

    def create_table(self, sql: str) -> TableDescription | None:
        """Runs CREATE TABLE and says what it made; None if IF NOT EXISTS found the table there."""
        with Undivided():  # it takes some milliseconds, and a transaction that stays open refuses all others
            before = self._objects("tables", "table")
            self._run("BEGIN")
            try:
                self._run(sql)
                made = [name for oid, name in self._objects("tables", "table").items() if oid not in before]
                description = self._describe(made[0]) if made else None
            except BaseException:
                self._run("ROLLBACK")
                raise
            self._run("COMMIT")
            if description is not None:
                name = description.name
                self._not_null[name] = {(name, i) for i, flag in enumerate(description.not_null) if flag}
        return description

    def restore_table(self, name: str, schema: Schema, not_null: Sequence[int], key: Sequence[int]) -> None:
        """A table that CREATE TABLE made in another process. Defaults and checks are not for the binder."""
        columns = [
            f"{quoted(n)} {t.duck}{' NOT NULL' if i in not_null else ''}"
            for i, (n, t) in enumerate(zip(schema.names, schema.types, strict=True))
        ]
        if key:
            columns.append(f"PRIMARY KEY ({', '.join(quoted(schema.names[k]) for k in key)})")
        self._run(f"CREATE TABLE {quoted(name)} ({', '.join(columns)})")
        self._not_null[name] = {(name, i) for i in not_null}

    def is_declared(self, name: str) -> bool:
        """Did CREATE TABLE make it? Else it is a relation of which the binder knows no constraints."""
        return name in self._not_null

    def add_relation(self, name: str, schema: Schema) -> None:
        """An empty table with these columns: for materialized views and registered sources."""
        if not len(schema):
            raise BindError(f'"{name}" has no columns')
        pairs = zip(schema.names, schema.types, strict=True)
        self.add_columns(name, [(n, (INTEGER if t.id == "NULL" else t).duck) for n, t in pairs])

    def add_columns(self, name: str, columns: Sequence[tuple[str, str]]) -> None:
        """An empty table with columns of these names and types."""
        items = ", ".join(f"{quoted(n)} {type}" for n, type in columns)
        self._run(f"CREATE TABLE {quoted(name)} ({items})")

    def create_view(self, sql: str) -> str | None:
        """Runs CREATE VIEW; the view's name, or None if IF NOT EXISTS found one."""
        self._declare_system(sql)
        before = self._objects("views", "view")
        self._run(sql)
        made = [name for oid, name in self._objects("views", "view").items() if oid not in before]
        return made[0] if made else None

    def drop(self, name: str) -> None:
        """Removes a table, materialized view or view."""
        for plural, kind in (("tables", "table"), ("views", "view")):
            for found in self._objects(plural, kind).values():
                if found.lower() == name.lower():
                    self._run(f"DROP {kind} {quoted(found)}")
                    self._not_null.pop(found, None)
                    return
        raise UndefinedTable(f'table or view "{name}" does not exist')

    def plan(self, sql: str, attempts: tuple[tuple[bool, tuple[str, ...]], ...] = ATTEMPTS) -> Node:
        """The optimised plan of a query, with the column names that the query gives (doubles too)."""
        reason = ""
        for optimize, disabled in attempts:
            try:
                node = read_plan(self._serialised(sql, optimize, disabled))
                return self._finished(node, self._column_names(sql))
            except Unreadable as problem:
                reason = str(problem)
            except RecursionError:
                raise LimitExceeded("the query is nested too deeply", hint="Split it into views.") from None
        raise NotMaintainable("DuckDB gives no plan for this query", hint=f"Write it another way ({reason}).")

    def name_as_written(self, error: NotMaintainable, sql: str) -> None:
        """Let a refusal of a query's plan name what stands in the query."""
        as_written(error, self._texts(sql, set()), self._aggregates())

    def marked_types(self, sql: str) -> dict[int, str]:
        """The types of the marks (see mark.py) in a query, by number."""
        try:
            return marked_types(self._serialised(sql, False, OFF))
        except Unreadable:
            return {}

    def references(self, sql: str) -> set[str]:
        """The relations that the text itself names, plain views as such and not what is behind them."""
        known = {**self._objects("tables", "table"), **self._objects("views", "view")}
        by_name = {name.lower(): name for name in known.values()}
        named = mentions.relations(self._parsed(sql))
        return {by_name[name.lower()] for name in named if name.lower() in by_name}

    def named(self, sql: str) -> tuple[set[tuple[str, str]], set[str]] | None:
        """The relations (schema and name) and functions whose names stand anywhere in a query; None if DuckDB's parser cannot tell."""
        parsed = self._parsed(sql)
        if parsed.get("error"):
            return None
        return mentions.named_relations(parsed), {
            name for name, count in mentions.functions(parsed) if count >= 0
        }

    def system_references(self, sql: str) -> set[str]:
        """The relations of the schema that is always there which the text itself names, folded."""
        if self._system is None or self._system[0] not in sql.lower():
            return set()
        return mentions.of_schema(self._parsed(sql), self._system[0])

    def _declare_system(self, sql: str) -> None:
        """Before DuckDB binds a text that may name them. Most flows never need them."""
        if self._system is None or self._system_declared or self._system[0] not in sql.lower():
            return
        schema, relations = self._system
        with Undivided():
            self._run(f"CREATE SCHEMA {schema}")
            for name, columns in relations.items():
                items = ", ".join(f"{quoted(n)} {type}" for n, type in columns)
                self._run(f"CREATE TABLE {schema}.{name} ({items})")
            self._system_declared = True

    def volatile_functions(self, sql: str) -> list[str]:
        """The functions that do not always give the same for the same arguments, also those of plain views.

        >>> Binder().volatile_functions("SELECT now() - INTERVAL 1 DAY, abs(-1), random()")
        ['now', 'random']
        """
        bound = mentions.bound_functions(self._serialised(sql, False, OFF))
        rows = self._duck.execute(
            "SELECT lower(column_name) FROM duckdb_columns() WHERE NOT internal"
        ).fetchall()
        keywords = mentions.KEYWORDS - {name for (name,) in rows}

        def is_volatile(name: str, arguments: int) -> bool:
            if arguments < 0:
                return name in keywords
            return name in self._volatile or (name == "age" and arguments == 1)  # age(x): until today

        written = [name for name, n in self._functions(sql, set()) if is_volatile(name, n)]
        return written or [name for name, n in bound if is_volatile(name, n)]

    def _functions(self, sql: str, seen: set[str]) -> dict[tuple[str, int], None]:
        """What the text and the texts of the views in it call."""
        found: dict[tuple[str, int], None] = {}
        for text in self._texts(sql, seen):
            found |= mentions.functions(self._parsed(text))
        return found

    def _texts(self, sql: str, seen: set[str]) -> list[str]:
        """The text, and the texts of the views in it."""
        rows = self._duck.execute(
            "SELECT lower(view_name), sql FROM duckdb_views() WHERE NOT internal"
        ).fetchall()
        views = dict(rows)
        texts = [sql]
        for name in mentions.relations(self._parsed(sql)):
            if name.lower() in views and name.lower() not in seen:
                seen.add(name.lower())
                texts += self._texts(mentions.view_query(views[name.lower()]), seen)
        return texts

    def _aggregates(self) -> set[str]:
        """The functions that may become an aggregate which no view can have, or several of them."""
        rows = self._duck.execute(
            "SELECT DISTINCT function_name FROM duckdb_functions() WHERE function_type IN ('aggregate', 'macro')"
        ).fetchall()
        return {name for (name,) in rows} - MAINTAINED

    def _parsed(self, sql: str) -> Any:
        return json.loads(self._one("SELECT json_serialize_sql(?::varchar)", sql))

    def _finished(self, node: Node, names: tuple[str, ...]) -> Node:
        not_null = set().union(*self._not_null.values())
        node = settle_marks(node, not_null)
        for rule in RULES:
            node = rule(node)
        node = tree.intern(settle_keys(node, not_null))
        if any(ROWID in walk_expr(e) for n in tree.walk(node) for e in tree.expressions(n)):
            raise NotMaintainable("rowid cannot be maintained", hint="Give the table a key column.")
        exprs: tuple[Expr, ...] = node.exprs if isinstance(node, Project) else identity(node)
        exprs = tuple(Const(INTEGER, None) if e.type.id == "NULL" else e for e in exprs)
        below = node.input if isinstance(node, Project) else node
        if exprs == identity(below) and names == below.schema.names:
            return below
        return Project(below, exprs, names)

    def _serialised(self, sql: str, optimize: bool, disabled: tuple[str, ...]) -> Json:
        self._declare_system(sql)
        if disabled != self._disabled:
            self._disabled = None  # what holds if this is stopped
            self._run(f"SET disabled_optimizers = '{','.join(disabled)}'")
            self._disabled = disabled
        word = "true" if optimize else "false"
        text = self._one(f"SELECT json_serialize_plan(?::varchar, optimize := {word})", sql)
        answer = plan_json.parse(text)
        if answer.get("error"):
            self._raise(answer, sql)
        if len(answer["plans"]) != 1:
            raise BindError("one query is expected", hint="Give one SELECT at a time.")
        if not sql.isascii():
            plan_json.count_characters(answer, sql.encode())
        plan: Json = answer["plans"][0]
        return plan

    def _raise(self, answer: Json, sql: str) -> None:
        kind, message = answer.get("error_type", ""), answer.get("error_message", "")
        if kind == "internal":
            raise Unreadable(message.split(":")[0])
        error = describe(kind, message, answer.get("position"), sql)
        if isinstance(error, GroupingError) and "ANY_VALUE" in (error.hint or ""):
            # No view can have it: which value it gives depends on the order of rows.
            error.hint = "Add it to the GROUP BY list, or take an aggregate of it, such as min or max."
        raise error

    def _column_names(self, sql: str) -> tuple[str, ...]:
        try:
            return tuple(self._duck.sql(sql).columns)
        except DuckError as error:
            raise translate(error, sql) from None

    def _objects(self, plural: str, kind: str) -> dict[int, str]:
        query = f"SELECT {kind}_oid, {kind}_name FROM duckdb_{plural}() WHERE NOT internal AND schema_name = 'main'"
        return dict(self._duck.execute(query).fetchall())

    def _describe(self, name: str) -> TableDescription:
        columns = self._duck.execute(
            "SELECT column_name, column_default, is_nullable, is_generated, schema_name FROM duckdb_columns() "
            "WHERE table_name = ? AND schema_name <> ? AND NOT internal ORDER BY column_index",
            [name, "" if self._system is None else self._system[0]],
        ).fetchall()  # fmt: skip
        if any(schema != "main" for *_, schema in columns):
            raise BindError(f'table "{name}" is not in the schema "main"', hint="Leave the schema out.")
        if any(generated for *_, generated, _ in columns):
            raise NotMaintainable("generated columns", hint="Compute the column in a view.")
        scan = self._serialised(f"SELECT * FROM {quoted(name)}", False, OFF)
        while scan["type"] != "LOGICAL_GET":
            scan = scan["children"][0]
        types = tuple(read_type(t) for t in scan["returned_types"])
        primary_key, checks = self._constraints(name)
        schema = Schema(tuple(c[0] for c in columns), types)
        not_null = tuple(not c[2] for c in columns)
        return TableDescription(name, schema, not_null, tuple(c[1] for c in columns), primary_key, checks)

    def _constraints(self, name: str) -> tuple[tuple[int, ...], tuple[str, ...]]:
        rows = self._duck.execute(
            "SELECT constraint_type, expression, constraint_column_indexes FROM duckdb_constraints() "
            "WHERE table_name = ? ORDER BY constraint_index", [name],
        ).fetchall()  # fmt: skip
        primary_key: tuple[int, ...] = ()
        checks = []
        for kind, expression, indexes in rows:
            if kind == "PRIMARY KEY":
                primary_key = tuple(indexes)
            elif kind == "CHECK":
                checks.append(expression)
            elif kind != "NOT NULL":
                raise NotMaintainable(f"{kind} constraints", hint="Leave it out, or make it the PRIMARY KEY.")
        return primary_key, tuple(checks)

    def _one(self, query: str, sql: str) -> str:
        try:
            row = self._duck.execute(query, [sql]).fetchone()
        except DuckError as error:
            raise translate(error, sql) from None
        if row is None or not row[0]:
            raise NotMaintainable("DuckDB cannot write down a plan of this query")
        return str(row[0])

    def _run(self, sql: str) -> None:
        try:
            self._duck.execute(sql)
        except DuckError as error:
            raise translate(error, sql) from None
