"""SQL statements, each carried out by one function."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.base.errors import (
    BindError,
    InvalidOption,
    ReadOnlyTransaction,
    UndefinedTable,
    WrongObjectType,
)
from penstock.base.undivided import interruptible
from penstock.engine import dml
from penstock.engine.catalog import MaterializedView, Table, View
from penstock.engine.column_names import check_names, check_not_weight
from penstock.engine.core import Core
from penstock.engine.error_places import positions_from, positions_in, positions_unknown
from penstock.engine.options import NO_OPTIONS, RelationOptions, read_options
from penstock.engine.transaction import Transaction
from penstock.sql import statements as st
from penstock.sql.bind import TableDescription
from penstock.sql.tokens import fold, quote
from penstock.zset.interchange import sql_type_of
from penstock.zset.types import Schema


def status(text: str) -> pa.Table:
    # Of buffers: pyarrow imports pandas to look at a Python value, which takes a third of a second.
    data = text.encode()
    offsets = pa.py_buffer(np.array([0, len(data)], np.int32))
    one = pa.Array.from_buffers(pa.string(), 1, [None, offsets, pa.py_buffer(data)])
    return pa.Table.from_arrays([one], names=["status"])


# -- tables and views ------------------------------------------------------------------------------


def create_table(core: Core, s: st.CreateTable) -> pa.Table:
    if _exists(core, s.name, s.if_not_exists):
        return status("CREATE TABLE")
    options = read_options(s.options, "table", s.name)
    sql = f"CREATE TABLE {quote(s.name)} {s.body.text}"
    trial: Table | None = None
    if s.or_replace and core.catalog.find(s.name) is not None:
        with positions_from(sql, [s.body]):
            trial = _try_table(sql)
        _drop_for_replacement(core, s.name, Table)
    core.catalog.check_free(s.name)
    with positions_from(sql, [s.body]):
        description = core.binder.create_table(sql)
    assert description is not None
    with positions_unknown():
        _with_options(core.create_table(description, trial), options)
    return status("CREATE TABLE")


def _try_table(sql: str) -> Table:
    """The table in a catalog of its own: raises what is wrong with it before the one that it replaces is gone."""
    trial = Core()
    try:
        description = trial.binder.create_table(sql)
        assert description is not None
        return trial.create_table(description)
    finally:
        trial.close()


def _with_options(relation: Table | MaterializedView, options: RelationOptions) -> None:
    relation.retain_s = options.retain_s
    if isinstance(relation, Table):
        relation.dedup = options.dedup
    elif options.freshness_s is not None:
        relation.options = {**relation.options, "freshness_s": options.freshness_s}


def create_table_as(core: Core, s: st.CreateTableAs, transaction: Transaction) -> pa.Table:
    if _exists(core, s.name, s.if_not_exists):
        return status("CREATE TABLE")
    options = read_options(s.options, "table", s.name)
    if not s.or_replace:
        core.catalog.check_free(s.name)
    with positions_in(s.query):
        # Before the old one goes: it may be asked for.
        answer = interruptible(lambda: transaction.query(s.query.text))
    names = (*(s.columns or ()), *answer.column_names[len(s.columns or ()) :])
    if len(names) != answer.num_columns:
        raise BindError(f'"{s.name}" names more columns than the query has')
    schema = Schema(tuple(names), tuple(sql_type_of(t) for t in answer.schema.types))
    check_names(s.name, schema)
    check_not_weight(s.name, schema)
    if s.or_replace:
        _drop_for_replacement(core, s.name, Table)
    table = add_table(core, s.name, schema, (), options=options)
    if s.with_data and answer.num_rows:
        transaction.apply(table, dml.as_rows(table, answer))
    return status("CREATE TABLE")


def add_table(
    core: Core, name: str, schema: Schema, key: tuple[int, ...], required: tuple[int, ...] = (),
    options: RelationOptions = NO_OPTIONS,
) -> Table:  # fmt: skip
    """A table from a schema instead of SQL; `required` are the columns that refuse NULL."""
    core.catalog.check_free(name)
    core.binder.add_relation(name, schema)
    not_null = tuple(i in key or i in required for i in range(len(schema)))
    none = (None,) * len(schema)
    table = core.create_table(TableDescription(name, schema, not_null, none, key, ()))
    _with_options(table, options)
    return table


def create_view(core: Core, s: st.CreateView) -> pa.Table:
    if _exists(core, s.name, s.if_not_exists):
        return status("CREATE VIEW")
    old = core.catalog.find(s.name) if s.or_replace else None
    if old is not None:
        _drop_for_replacement(core, s.name, View)
    core.catalog.check_free(s.name)
    try:
        with positions_in(s.query):
            core.create_view(s.name, s.query.text, s.columns)
    except BaseException:
        if isinstance(old, View):
            core.create_view(old.name, old.sql, old.aliases)
        raise
    return status("CREATE VIEW")


def create_materialized(core: Core, s: st.CreateMaterializedView) -> pa.Table:
    if _exists(core, s.name, s.if_not_exists):
        return status("CREATE MATERIALIZED VIEW")
    options = read_options(s.options, "materialized view", s.name)
    with positions_in(s.query):
        view = replace_materialized(core, s.name, s.query.text, s.columns, s.or_replace)
    _with_options(view, options)
    return status("CREATE MATERIALIZED VIEW")


def replace_materialized(
    core: Core, name: str, sql: str, columns: tuple[str, ...] | None, or_replace: bool
) -> MaterializedView:
    """Create a materialized view; with or_replace in the place of the old one, which stays if it fails."""
    old = core.catalog.find(name) if or_replace else None
    if old is None:
        core.catalog.check_free(name)
        return core.create_materialized(name, sql, columns, {})
    if not isinstance(old, MaterializedView):
        raise WrongObjectType(f'"{old.name}" is a {old.kind}, not a materialized view')
    return core.create_materialized(name, sql, columns, {}, replaces=old)


def alter_materialized(core: Core, s: st.AlterMaterializedView) -> MaterializedView:
    """Other options for a view that is there: SET the given ones, or RESET those that are named."""
    found = core.catalog.get(s.name)
    if not isinstance(found, MaterializedView):
        raise WrongObjectType(f'"{found.name}" is a {found.kind}, not a materialized view')
    names = [name for name in (*s.options, *s.reset) if name != "freshness"]
    if names:
        raise InvalidOption(
            f"{names[0]} of a view cannot be changed", hint="Only freshness can; replace the view instead."
        )
    options = dict(found.options)
    options.pop("freshness_s", None)
    found.options = options
    _with_options(found, replace(read_options(s.options, found.kind, found.name), retain_s=found.retain_s))
    core.catalog.changes += 1
    return found


def _exists(core: Core, name: str, if_not_exists: bool) -> bool:
    return if_not_exists and core.catalog.find(name) is not None


def _drop_for_replacement(core: Core, name: str, kind: type) -> None:
    found = core.catalog.find(name)
    if found is None:
        return
    if not isinstance(found, kind):
        raise WrongObjectType(f'"{found.name}" is a {found.kind}')
    core.drop_for_replacement(found)


def drop(core: Core, s: st.Drop) -> list[str]:
    """Drop relations; the names of all that went."""
    wanted = []
    for name in s.names:
        found = core.catalog.find(name)
        if found is None:
            if s.if_exists:
                continue
            raise UndefinedTable(f'{s.kind} "{name}" does not exist', hint="Add IF EXISTS if that is fine.")
        if found.kind != s.kind and not (s.kind == "view" and isinstance(found, MaterializedView)):
            raise WrongObjectType(f'"{found.name}" is a {found.kind}', hint=f"Use DROP {found.kind.upper()}.")
        wanted.append(found)
    gone: list[str] = []
    for found in wanted:
        if core.catalog.find(found.name) is found:
            gone += [r.name for r in core.drop(found, s.cascade)]
    return gone


# -- changes ---------------------------------------------------------------------------------------

_CHANGES: tuple[tuple[type, Callable[[Any, Any], dml.Effect]], ...] = (
    (st.Insert, dml.insert),
    (st.Update, dml.update),
    (st.Delete, dml.delete),
)


def change(transaction: Transaction, s: st.Statement) -> pa.Table:
    """INSERT, UPDATE, DELETE, TRUNCATE: the count of rows, or what RETURNING asks for."""
    if transaction.read_only:
        raise ReadOnlyTransaction("the transaction is read only", hint="BEGIN one that is not.")
    if isinstance(s, st.Truncate):
        tables = [transaction.core.table(name) for name in s.tables]
        effects = [dml.truncate(transaction, t) for t in {fold(t.name): t for t in tables}.values()]
        for effect in effects:
            transaction.apply(effect.table, effect.delta)
        return pa.table({"count": [int(sum(e.affected.weights.sum() for e in effects))]})
    for kind, function in _CHANGES:
        if isinstance(s, kind):
            effect = function(transaction, s)
            items = s.returning  # type: ignore[attr-defined]
            answer = pa.table({"count": [int(effect.affected.weights.sum())]})
            if items is not None:
                answer = dml.returning(transaction, effect.table, s.alias, effect.affected, items)  # type: ignore[attr-defined]
            transaction.apply(effect.table, effect.delta)
            return answer
    raise TypeError(type(s).__name__)


# -- looking ---------------------------------------------------------------------------------------


def show(core: Core, s: st.Show) -> pa.Table:
    if s.what == "columns":
        assert s.name is not None
        return describe(core, s.name)
    kinds = {
        "tables": ("table",),
        "views": ("view", "materialized view"),
        "materialized views": ("materialized view",),
    }
    found = sorted((r for r in core.catalog if r.kind in kinds[s.what]), key=lambda r: r.name)
    table = pa.table({"name": pa.array([r.name for r in found], pa.string()),
                      "kind": pa.array([r.kind for r in found], pa.string())})  # fmt: skip
    if s.like is not None and table.num_rows:
        table = table.filter(pc.match_like(table.column("name"), s.like))
    return table


def describe(core: Core, name: str) -> pa.Table:
    relation = core.catalog.get(name)
    if isinstance(relation, View):
        columns = relation.columns
    else:
        pairs = zip(relation.schema.names, relation.schema.types, strict=True)
        columns = [(n, str(t)) for n, t in pairs]
    table = relation if isinstance(relation, Table) else None
    return pa.table(
        {
            "column_name": pa.array([n for n, _ in columns], pa.string()),
            "column_type": pa.array([t for _, t in columns], pa.string()),
            "null": pa.array(
                ["NO" if table and i in table.not_null else "YES" for i in range(len(columns))], pa.string()
            ),
            "key": pa.array(
                ["PRI" if table and i in table.key else None for i in range(len(columns))], pa.string()
            ),
            "default": pa.array(
                [table.default_texts[i] if table else None for i in range(len(columns))], pa.string()
            ),
        }
    )


def describe_query(core: Core, sql: str) -> pa.Table:
    columns = core.reader.columns(sql)
    return pa.table(
        {
            "column_name": pa.array([n for n, _ in columns], pa.string()),
            "column_type": pa.array([t for _, t in columns], pa.string()),
        }
    )
