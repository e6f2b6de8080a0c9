"""The flow's heart: catalog, circuit and epochs. SQL statements and the Python API are written on it.

Every change goes through `propose` (which works out what an epoch would do, and changes nothing)
and `commit` (which cannot fail for a reason that lies in the data).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from penstock.base.errors import (
    BindError,
    DependentObjects,
    DuplicateColumn,
    NotMaintainable,
    PenstockError,
    ReservedName,
    StateBroken,
    WrongObjectType,
)
from penstock.base.undivided import Undivided, interruptible
from penstock.circuit.build import ArrangementKey, Builder, Registry, Source
from penstock.circuit.circuit import Circuit, CircuitNode
from penstock.circuit.estimate import Estimator
from penstock.circuit.operator import Delta
from penstock.circuit.operators.arrange import Arrange
from penstock.commit.history import now_us
from penstock.engine.audit import AuditLog
from penstock.engine.catalog import (
    Catalog,
    MaterializedView,
    Relation,
    Table,
    View,
    VolatileDefault,
    estimated_distinct,
)
from penstock.engine.error_places import positions_from
from penstock.engine.frames import Frame
from penstock.engine.instead import advising
from penstock.engine.plain_dicts import WEIGHT
from penstock.engine.read import Reader
from penstock.engine.row_check import RowCheck
from penstock.engine.system import RELATIONS, SCHEMA
from penstock.plan.nodes import Project
from penstock.run.compile import Outputs
from penstock.run.distributed import Executor, FrameExecutor
from penstock.run.inline import Epoch, fill, run
from penstock.sql.bind import Binder, TableDescription
from penstock.sql.statements import Slice
from penstock.sql.tokens import fold, quote
from penstock.state.arrangement import Arrangement
from penstock.state.batch import Batch
from penstock.state.contents import Contents
from penstock.state.scattered import Rows, Scattered
from penstock.zset.column import Column, from_pylist
from penstock.zset.interchange import from_arrow
from penstock.zset.types import Schema, SqlType
from penstock.zset.zset import ZSet, union

Change = tuple[Rows, Batch | None]  # a table's delta, and (unless tasks have arranged it) the same by its key


class Core:
    def __init__(self, share_arrangements: bool = True, clock_us: Callable[[], int] = now_us) -> None:
        self.clock_us = clock_us
        self.catalog = Catalog()
        self.circuit = Circuit()
        self.binder = Binder((SCHEMA, {r.name: r.columns for r in RELATIONS}))
        self.reader = Reader(self.catalog, self.binder)
        self.epoch = 0
        self.executor: Executor | None = None  # where epochs run; None: here
        self.audit = AuditLog(clock_us, lambda: self.epoch)
        self.failure: str | None = None  # why the state is that of no epoch, if it is
        self._share = share_arrangements
        self.registry = Registry()

    def close(self) -> None:
        self.reader.close()
        self.binder.close()

    # -- epochs ----------------------------------------------------------------------------

    def propose(self, changes: Mapping[str, Change]) -> Epoch:
        """What an epoch with these (accepted) changes of tables would do."""
        deltas = self._deltas(changes)
        try:
            if self.executor is not None:
                return self.executor.run(self.circuit, deltas, self.outputs())
            return run(self.circuit, deltas)
        except PenstockError as error:
            raise self._located(error, list(changes)) from None

    def _deltas(self, changes: Mapping[str, Change]) -> dict[int, Delta]:
        deltas: dict[int, Delta] = {}
        for name, (delta, batch) in changes.items():
            table = self.table(name)
            deltas[table.node] = delta.zset() if isinstance(delta, Scattered) else delta
            if table.key_node is not None:
                deltas[table.key_node] = batch
        return deltas

    def propose_frames(self, changes: Mapping[str, Change], frames: Sequence[Frame]) -> Epoch:
        """The same with DataFrames among the changes, which tasks check first."""
        deltas = self._deltas(changes)
        assert isinstance(self.executor, FrameExecutor)
        try:
            return self.executor.run_frames(self.circuit, deltas, self.outputs(), frames)
        except PenstockError as error:
            raise self._located(error, [*changes, *(f.source.name for f in frames)]) from None

    def outputs(self) -> Outputs:
        """The nodes that give the rows of materialized views."""
        return {view.node: view.schema.types for view in self.catalog.materialized()}

    def _located(self, error: PenstockError, tables: Sequence[str]) -> PenstockError:
        """The error of an operator, with the tables whose rows it met and the view it worked for."""
        if error.node is None:
            return error
        below = {n.id for n in self.circuit.below([error.node])}
        met = [f'"{name}"' for name in tables if self.table(name).node in below]
        views = [v.name for v in self.catalog.materialized() if error.node in self._needed_by(v)]
        where = f'in a row of table {" or ".join(met)}, for view "{views[0]}"' if views else ""
        return type(error)(f"{error.message}, {where}" if where else error.message, hint=error.hint)

    def _needed_by(self, view: MaterializedView) -> set[int]:
        return {n.id for n in self.circuit.below([view.node])}

    def commit(self, changes: Mapping[str, Change], epoch: Epoch) -> dict[str, Rows]:
        """Make it so: the changes of the materialized views, by name. Whoever calls holds off signals, since more
        than this belongs to an epoch."""
        try:
            self._commit_tables(changes)
            epoch.commit()
            self.epoch += 1
            return self._commit_views(epoch)
        except BaseException as error:
            self._stop(error)
            raise

    def _stop(self, error: BaseException) -> None:
        """What must happen whole has failed half-way: the state is good for nothing any more."""
        self.failure = str(error) or type(error).__name__
        self.audit.record("stopped", error=self.failure)

    def check(self) -> None:
        """Raise if an epoch has been applied by half."""
        if self.failure is not None:
            raise StateBroken(
                f"the flow has stopped: an epoch could not be applied whole ({self.failure})",
                hint="Open it again: storage has every epoch that was acknowledged. In memory it is lost.",
            )

    def _commit_tables(self, changes: Mapping[str, Change]) -> None:
        for name, (delta, batch) in changes.items():
            table = self.table(name)
            if batch is not None:
                assert table.keyed is not None
                table.keyed.append(batch)
            elif table.keyed is not None:
                assert isinstance(delta, Scattered)
                for part in delta.parts:
                    table.keyed.append(part)
            else:
                assert table.bag is not None
                table.bag.append(delta)
            table.version += 1

    def follow(self, changes: Mapping[str, Change], views: Mapping[str, ZSet]) -> None:
        """Take over an epoch that another process worked out: rows alone, no operator runs."""
        with Undivided():
            try:
                self._commit_tables(changes)
                for name, rows in views.items():
                    view = self.catalog.get(name)
                    assert isinstance(view, MaterializedView)
                    view.contents.append(rows)
                    view.version += 1
                self.epoch += 1
            except BaseException as error:
                self._stop(error)
                raise

    def _commit_views(self, epoch: Epoch) -> dict[str, Rows]:
        changed: dict[str, Rows] = {}
        deltas = epoch.deltas
        for view in self.catalog.materialized():
            delta = deltas.get(view.node)
            if delta is None:
                continue
            rows = delta.zset() if isinstance(delta, Batch) else delta
            view.contents.append(rows)
            view.version += 1
            changed[view.name] = rows
        return changed

    # -- names -----------------------------------------------------------------------------

    def table(self, name: str) -> Table:
        known = self.catalog.folded_tables.get(name)  # every tick asks several times
        if known is not None:
            return known
        found = self.catalog.get(name)
        if not isinstance(found, Table):
            raise WrongObjectType(
                f'"{found.name}" is a {found.kind}, not a table', hint="Change its tables instead."
            )
        return found

    def source(self, name: str) -> Source:
        found = self.catalog.get(name)
        assert isinstance(found, (Table, MaterializedView))
        return Source(found.node, found.schema.types, found.schema.names)

    # -- tables ----------------------------------------------------------------------------

    # Definitions are carried out with signals held off (see `DefinitionSide._defining`). Only what takes long is
    # interruptible, and what was begun before it is taken back.

    def create_table(self, description: TableDescription, trial: Table | None = None) -> Table:
        """Add a table that the binder knows already. `trial` is one of the same text: its defaults and checks are
        taken, since what has been dropped for this one must not be lost to a default that fails or takes long."""
        name, schema = description.name, description.schema
        try:
            check_not_weight(name, schema)
            if trial is None:
                defaults, checks = interruptible(lambda: self._constants(description))
            else:
                defaults, checks = trial.defaults, trial.checks
            self.reader.add_rows_relation(name, schema)
        except BaseException:
            self.binder.drop(name)
            raise
        node = self.circuit.reserve()
        not_null = tuple(i for i, flag in enumerate(description.not_null) if flag)
        key = tuple(sorted(description.primary_key))
        table = Table(
            name, schema, node, tuple(sorted({*not_null, *key})), defaults, description.defaults, key, checks
        )
        nodes = [CircuitNode(node, None, (), (), schema.types, schema.names, name)]
        if key:
            nodes.append(self._key_node(table))
        else:
            table.bag = Contents(f"table {name}", schema.types)
        self.circuit.add(nodes)
        table.since = self.epoch
        self.catalog.add(table)
        return table

    def _key_node(self, table: Table) -> CircuitNode:
        """A table's rows by primary key: also the arrangement for joins on that key."""
        operator = Arrange(table.schema.types, table.key, (), one_row=True)
        id = self.circuit.reserve()
        keyed = Arrangement(f"table {table.name}", operator.layouts[0])
        table.key_node, table.keyed = id, keyed
        if self._share:
            # A key is never NULL, so it serves joins on = as well as on IS NOT DISTINCT FROM.
            for not_null in {(), table.key}:
                self.registry.arrangements[ArrangementKey(table.node, table.key, not_null)] = id
            self.registry.columns[id] = list(range(len(table.schema)))
        label = f"{table.name} by primary key"
        return CircuitNode(
            id, operator, (table.node,), (), table.schema.types, table.schema.names, label, [keyed]
        )

    def _constants(
        self, description: TableDescription
    ) -> tuple[tuple[Any, ...], tuple[tuple[str, RowCheck], ...]]:
        """The defaults and checks of a table, worked out as far as they can be before there are rows."""
        name, schema = description.name, description.schema
        defaults = tuple(self._default(d, schema, i) for i, d in enumerate(description.defaults))
        return defaults, tuple((text, self.compile_check(name, text)) for text in description.checks)

    def _default(self, text: str | None, schema: Schema, column: int) -> Any:
        if text is None:
            return None
        if self.binder.volatile_functions(f"SELECT ({text})"):
            return VolatileDefault(text)
        return self.evaluate(text, schema.types[column])

    def evaluate(self, text: str, type: SqlType) -> Any:
        """A constant expression's value, in the form of Const.value."""
        answer = self.reader.query(f"SELECT CAST(({text}) AS {type.duck})")
        return _constant_value(from_arrow(answer.column(0), type))

    def compile_check(self, table: str, text: str) -> RowCheck:
        """A CHECK constraint of a table that the binder knows."""
        plan = self.binder.plan(f"SELECT ({text}) AS ok FROM {quote(table)}")
        if not isinstance(plan, Project):
            raise BindError(f"CHECK ({text}) cannot be evaluated")
        names = self.binder.plan(f"SELECT * FROM {quote(table)}").schema.names
        scan = plan.input
        columns = getattr(scan, "columns", None)
        if columns is None:
            raise BindError(f"CHECK ({text}) must only use the columns of its row")
        check = RowCheck(plan.exprs[0], tuple(columns), tuple(names[c] for c in columns))
        check.compile()  # what cannot be evaluated is refused now
        return check

    # -- views -----------------------------------------------------------------------------

    def create_view(self, name: str, sql: str, columns: tuple[str, ...] | None) -> View:
        depends = frozenset(fold(n) for n in self.binder.references(sql))
        self.declare_view(name, sql, columns)
        try:
            shown = self.reader.columns(f"SELECT * FROM {quote(name)}")
        except BaseException:
            self.reader.drop(name)
            self.binder.drop(name)
            raise
        view = View(name, sql, shown, depends, columns)
        self.catalog.add(view)
        return view

    def declare_view(self, name: str, sql: str, columns: tuple[str, ...] | None) -> None:
        """Tell the binder and the reader of a plain view."""
        names = f" ({', '.join(quote(c) for c in columns)})" if columns else ""
        text = f"CREATE VIEW {quote(name)}{names} AS {sql}"
        with positions_from(text, [Slice(sql, 0)]):
            self.binder.create_view(text)
        try:
            self.reader.add_view(name, sql, columns)
        except BaseException:
            self.binder.drop(name)
            raise

    def create_materialized(
        self, name: str, sql: str, columns: tuple[str, ...] | None, options: dict[str, Any],
        replaces: MaterializedView | None = None,
    ) -> MaterializedView:  # fmt: skip
        """Plan, build and fill a materialized view; everything is as before if any of it fails or is stopped.
        `replaces` is the view whose place it takes, which is dropped when the new one is complete."""
        if replaces is not None:
            self._check_replaceable(replaces)
            self.binder.drop(replaces.name)  # no view can be built on the one that it replaces
        try:
            view, builder, epoch = interruptible(lambda: self._worked_out(name, sql, columns, options))
            self._declare(view)
        except BaseException:
            if replaces is not None:
                self.binder.add_relation(replaces.name, replaces.schema)
                self.reader.forget(replaces)
            raise
        self._install(builder, epoch)
        if replaces is not None:
            self.reader.forget(replaces)
            self.catalog.remove(replaces.name)
        self.catalog.add(view)
        if replaces is not None:
            self._sweep()
        return view

    def _declare(self, view: MaterializedView) -> None:
        """Tell the binder and the reader of a materialized view."""
        self.binder.add_relation(view.name, view.schema)
        try:
            self.reader.add_rows_relation(view.name, view.schema)
        except BaseException:
            self.binder.drop(view.name)
            raise

    def _worked_out(
        self, name: str, sql: str, columns: tuple[str, ...] | None, options: dict[str, Any]
    ) -> tuple[MaterializedView, Builder, Epoch]:
        """A view with its rows, and what its circuit adds; nothing of it is in the flow yet."""
        for relation in self.reader.system_relations(sql):
            raise NotMaintainable(
                f"{SCHEMA}.{relation.name} tells of the flow itself, so a view over it cannot be maintained",
                hint="Make a plain view over it: CREATE VIEW.",
            )
        volatile = self.binder.volatile_functions(sql)
        if volatile:
            raise NotMaintainable(
                f"{volatile[0]}() gives another answer each time, so a view with it cannot be maintained",
                hint="Store its value in a column when the row is written.",
            )
        with advising(self.binder, sql):
            plan = self.binder.plan(sql)
        schema = _view_schema(name, plan.schema, columns)
        check_not_weight(name, schema)
        depends = frozenset(fold(n) for n in self.binder.references(sql))
        registry = self.registry if self._share else Registry()
        builder = Builder(self.circuit, registry, self.source, self._estimator())
        with advising(self.binder, sql):
            root = builder.build(plan)
        try:
            epoch = self._fill(builder, root, schema.types)
        except PenstockError as error:
            raise type(error)(f'{error.message}, for view "{name}"', hint=error.hint) from None
        rows = epoch.deltas.get(root)
        contents = Contents(f"view {name}", schema.types)
        if rows is not None:
            contents.append(rows if isinstance(rows, Scattered) else as_zset(rows))
        view = MaterializedView(name, sql, schema, depends, plan, root, contents, options)
        view.version = 1
        view.since = self.epoch
        return view, builder, epoch

    def _estimator(self) -> Estimator:
        def relation(name: str) -> Table | MaterializedView:
            found = self.catalog.get(name)
            assert isinstance(found, (Table, MaterializedView))
            return found

        def key(name: str) -> tuple[int, ...]:
            found = relation(name)
            return found.key if isinstance(found, Table) else ()

        samples: dict[tuple[str, tuple[int, ...]], float] = {}

        def distinct(name: str, columns: tuple[int, ...]) -> float:
            if (name, columns) not in samples:
                samples[name, columns] = estimated_distinct(relation(name), columns)
            return samples[name, columns]

        return Estimator(lambda name: relation(name).row_count(), key, distinct)

    def _fill(self, builder: Builder, root: int, types: tuple[SqlType, ...]) -> Epoch:
        nodes = {**self.circuit.nodes, **builder.new, **builder.widened}
        fresh = {*builder.new, *builder.widened}
        stored = {r.node: r for r in self.catalog if isinstance(r, (Table, MaterializedView))}
        if self.executor is not None:
            pieces = {node: relation.piece for node, relation in stored.items()}
            return self.executor.fill(nodes, fresh, root, pieces, lambda id: id not in fresh, {root: types})

        def contents(id: int) -> Delta:
            found = stored.get(id)
            return found.rows() if found is not None else None

        return fill(nodes, fresh, root, contents, lambda id: id not in fresh)

    def _install(self, builder: Builder, epoch: Epoch) -> None:
        epoch.commit()
        self.circuit.add([*builder.new.values(), *builder.widened.values()])
        if self._share:
            self.registry = builder.registry

    # -- dropping --------------------------------------------------------------------------

    def drop(self, relation: Relation, cascade: bool) -> list[Relation]:
        """Remove a relation and, with cascade, what is built on it."""
        dependents = self.catalog.dependents(relation.name)
        if dependents and not cascade:
            raise _needed("drop", relation, dependents, "Add CASCADE.")
        dropped = [*dependents, relation]
        for gone in dropped:
            self.reader.drop(gone.name)
            self.binder.drop(gone.name)
            self.catalog.remove(gone.name)
        self._sweep()
        return dropped

    def drop_for_replacement(self, relation: Relation) -> None:
        """Remove a relation that another of its name takes the place of."""
        self._check_replaceable(relation)
        self.drop(relation, cascade=False)

    def _check_replaceable(self, relation: Relation) -> None:
        dependents = self.catalog.dependents(relation.name)
        if dependents:
            drops = "; ".join(f"DROP {r.kind.upper()} {quote(r.name)}" for r in dependents)
            raise _needed("replace", relation, dependents, f"Drop what depends on it first: {drops}.")

    def _sweep(self) -> None:
        """Remove the nodes that nothing needs any more."""
        roots = [v.node for v in self.catalog.materialized()]
        for table in self.catalog.tables():
            roots += [table.node] if table.key_node is None else [table.node, table.key_node]
        needed = {n.id for n in self.circuit.below(roots)}
        gone = set(self.circuit.nodes) - needed
        self.circuit.remove(gone)
        self.registry.forget(gone)


def as_zset(delta: Delta | Scattered) -> ZSet:
    assert delta is not None
    return delta if isinstance(delta, ZSet) else delta.zset()


def added(rows: ZSet, delta: ZSet | None) -> ZSet:
    """Rows with a change added, for reads inside a transaction; equal rows are not yet added up."""
    return rows if delta is None or not len(delta) else union([rows, delta])


def _constant_value(column: Column) -> Any:
    if column.is_null()[0]:
        return None
    if column.type.kind != "arrow":
        return column.values[0].item() if hasattr(column.values[0], "item") else column.values[0]
    return _held(column.type, column.values[0].as_py())


def _held(type: SqlType, value: Any) -> Any:
    """What Const.value holds for a value as pyarrow gives it: also inside nested ones."""
    if value is None:
        return None
    if type.id == "INTERVAL":
        return (value.months, value.days, value.nanoseconds // 1000)
    if type.id in ("LIST", "ARRAY"):
        return tuple(_held(type.children[0][1], v) for v in value)
    if type.id == "STRUCT":
        return tuple(_held(t, value[name]) for name, t in type.children)
    if type.id == "MAP":
        (_, key), (_, item) = type.children
        return tuple((_held(key, k), _held(item, v)) for k, v in value)
    return value if type.kind == "arrow" else _constant_value(from_pylist(type, [value]))


def _view_schema(name: str, schema: Schema, columns: Sequence[str] | None) -> Schema:
    names = schema.names
    if columns is not None:
        if len(columns) > len(names):
            raise BindError(f'"{name}" names {len(columns)} columns but the query has {len(names)}')
        names = (*columns, *names[len(columns) :])
    found = Schema(tuple(names), schema.types)
    check_names(name, found)
    return found


def check_names(relation: str, schema: Schema) -> None:
    """Raise if a column's name stands twice."""
    seen: set[str] = set()
    for column in schema.names:
        if fold(column) in seen:
            raise DuplicateColumn(
                f'column "{column}" stands twice in "{relation}"',
                hint="Give one of them another name with AS.",
            )
        seen.add(fold(column))


def check_not_weight(relation: str, schema: Schema) -> None:
    """Raise if a column has the name of the weight: a delta with both could not be told from one with either."""
    for column in schema.names:
        if fold(column) == WEIGHT:
            raise ReservedName(
                f'"{relation}" cannot have a column "{column}": in deltas and watches that is the weight of a row',
                hint="Give it another name, such as weight.",
            )


def _needed(verb: str, relation: Relation, dependents: Sequence[Relation], hint: str) -> DependentObjects:
    names = ", ".join(f'{r.kind} "{r.name}"' for r in dependents)
    depend = "depends" if len(dependents) == 1 else "depend"
    return DependentObjects(
        f'cannot {verb} {relation.kind} "{relation.name}": {names} {depend} on it', hint=hint
    )
