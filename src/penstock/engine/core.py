"""What there is in a flow: how tables and views are made and dropped, with the epochs below it.

SQL statements and the Python API are written on this.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from penstock.base.errors import BindError, DependentObjects, NotMaintainable, PenstockError
from penstock.base.undivided import interruptible
from penstock.circuit.build import ArrangementKey, Builder, Registry
from penstock.circuit.circuit import CircuitNode
from penstock.circuit.estimate import Estimator
from penstock.circuit.operator import Delta
from penstock.circuit.operators.arrange import Arrange
from penstock.commit.history import now_us
from penstock.engine.catalog import (
    MaterializedView,
    Relation,
    Table,
    View,
    VolatileDefault,
    estimated_distinct,
)
from penstock.engine.column_names import check_not_weight, view_schema
from penstock.engine.constant_value import constant_value
from penstock.engine.epochs import Epochs, as_zset
from penstock.engine.error_places import positions_from
from penstock.engine.instead import advising
from penstock.engine.read import Reader
from penstock.engine.row_check import RowCheck
from penstock.engine.system import RELATIONS, SCHEMA
from penstock.plan.nodes import Project
from penstock.run.inline import Epoch, fill
from penstock.sql.bind import Binder, TableDescription
from penstock.sql.statements import Slice
from penstock.sql.tokens import fold, quote
from penstock.state.arrangement import Arrangement
from penstock.state.contents import Contents
from penstock.state.scattered import Scattered
from penstock.zset.interchange import from_arrow
from penstock.zset.types import Schema, SqlType


class Core(Epochs):
    """A flow without sessions, storage and engines."""

    def __init__(self, share_arrangements: bool = True, clock_us: Callable[[], int] = now_us) -> None:
        super().__init__(clock_us)
        self.binder = Binder((SCHEMA, {r.name: r.columns for r in RELATIONS}))
        self.reader = Reader(self.catalog, self.binder)
        self._share = share_arrangements
        self.registry = Registry()

    def close(self) -> None:
        self.reader.close()
        self.binder.close()

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
        return constant_value(from_arrow(answer.column(0), type))

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
        schema = view_schema(name, plan.schema, columns)
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


def _needed(verb: str, relation: Relation, dependents: Sequence[Relation], hint: str) -> DependentObjects:
    names = ", ".join(f'{r.kind} "{r.name}"' for r in dependents)
    depend = "depends" if len(dependents) == 1 else "depend"
    return DependentObjects(
        f'cannot {verb} {relation.kind} "{relation.name}": {names} {depend} on it', hint=hint
    )
