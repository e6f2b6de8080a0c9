"""Flow: tables and views that are kept fresh. The Python API."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import pyarrow as pa

from penstock.base.errors import (
    BindError,
    FlowClosed,
    InvalidDelta,
    SqlSyntaxError,
    TransactionError,
    UndefinedColumn,
    WrongObjectType,
)
from penstock.engine import statements as run
from penstock.engine.accept import upsert
from penstock.engine.catalog import MaterializedView, Table, View, VolatileDefault
from penstock.engine.consolidate import consolidated
from penstock.engine.core import Core
from penstock.engine.explain import explain
from penstock.engine.ingest import to_zset
from penstock.engine.read import arrow_table
from penstock.engine.transaction import Transaction
from penstock.engine.watch import Watch
from penstock.sql import statements as st
from penstock.sql.parse import parse
from penstock.sql.tokens import fold, quote
from penstock.zset.interchange import sql_type_of
from penstock.zset.types import Schema, SqlType
from penstock.zset.zset import ZSet


class TickSummary:
    """What one epoch did."""

    __slots__ = ("__dict__", "_changes", "_types", "duration_ms", "epoch", "rows_in")

    def __init__(
        self, epoch: int, rows_in: int, duration_ms: float, changes: dict[str, ZSet], types: dict[str, Any]
    ) -> None:
        self.epoch = epoch
        self.rows_in = rows_in
        self.duration_ms = duration_ms
        self._changes = changes
        self._types = types

    @cached_property
    def views(self) -> dict[str, int]:
        """The views that changed, each with the number of its rows that came or went."""
        counts = {n: len(consolidated(rows, self._types[n])) for n, rows in self._changes.items()}
        return {name: count for name, count in counts.items() if count}

    @property
    def rows_out(self) -> int:
        """Rows that came or went, over all views."""
        return sum(self.views.values())

    def __repr__(self) -> str:
        return (
            f"TickSummary(epoch={self.epoch}, rows_in={self.rows_in}, rows_out={self.rows_out}, "
            f"duration_ms={self.duration_ms:.3f}, views={self.views})"
        )


@dataclass(frozen=True)
class StateEntry:
    """One piece of state: an arrangement, a table's rows or a view's contents."""

    name: str
    rows: int
    bytes: int


class Flow:
    """Tables, and views over them that follow every change.

    >>> flow = Flow()
    >>> _ = flow.sql("CREATE TABLE orders (id BIGINT PRIMARY KEY, customer TEXT, amount DECIMAL(12,2))")
    >>> _ = flow.sql("CREATE MATERIALIZED VIEW totals AS "
    ...              "SELECT customer, SUM(amount) AS total FROM orders GROUP BY customer")
    >>> _ = flow.sql("INSERT INTO orders VALUES (1, 'ann', 10.00), (2, 'bob', 2.50)")
    >>> flow.sql("SELECT * FROM totals WHERE total > 5").to_pylist()
    [{'customer': 'ann', 'total': Decimal('10.00')}]
    >>> flow.tick("orders", [{"id": 3, "customer": "ann", "amount": 1}]).views
    {'totals': 2}
    >>> flow.close()

    A flow may be used from several threads: its calls take turns. `share_arrangements=False` gives
    every view its own state, which costs memory and is only of use for comparing.
    """

    def __init__(self, *, share_arrangements: bool = True) -> None:
        self._core = Core(share_arrangements)
        self._lock = threading.RLock()
        self._transaction: Transaction | None = None
        self._watches: dict[str, list[Watch]] = {}
        self._closed = False

    # -- SQL -------------------------------------------------------------------------------

    def sql(self, sql: str) -> pa.Table:
        """Run one or several statements; the answer of the last one as a pyarrow.Table.

        Queries give their rows, INSERT/UPDATE/DELETE the count of rows (or what RETURNING asks for), the
        others a status. A statement outside BEGIN ... COMMIT is an epoch of its own.
        """
        if not isinstance(sql, str):
            raise SqlSyntaxError(f"SQL is text, not {type(sql).__name__}")
        statements = parse(sql)
        answer = run.status("")
        with self._lock:
            self._check_open()
            for statement in statements:
                answer = self._run(statement)
        return answer

    def _run(self, s: st.Statement) -> pa.Table:
        if s.parameters:
            raise SqlSyntaxError(
                f"the placeholder {s.parameters[0].text} has no value",
                hint="Write the value itself.",
                position=s.parameters[0].offset,
            )
        core = self._core
        if isinstance(s, (st.Insert, st.Update, st.Delete, st.Truncate)):
            return self._change(lambda t: run.change(t, s))
        if isinstance(s, st.Query):
            with run.positions_in(s.text):
                return self._view_of_flow().query(s.text.text)
        if isinstance(s, (st.Begin, st.Commit, st.Rollback)):
            return self._transact(s)
        if isinstance(s, st.Show):
            return run.show(core, s)
        if isinstance(s, st.Describe):
            if s.name:
                return run.describe(core, s.name)
            assert s.query is not None
            return run.describe_query(core, s.query.text)
        if isinstance(s, st.Explain):
            return pa.table({"explain": [core.reader.explain(s.query.text)]})
        if isinstance(s, st.ExplainIncremental):
            if s.name:
                text = self.explain(s.name)
            else:
                assert s.query is not None
                text = self._explain_query(s.query.text)
            return pa.table({"explain": text.splitlines()})
        if self._transaction is not None:
            raise TransactionError(
                "tables and views cannot be created or dropped inside a transaction", hint="COMMIT first."
            )
        return self._define(s)

    def _define(self, s: st.Statement) -> pa.Table:
        core = self._core
        if isinstance(s, st.CreateTable):
            return self._replacing(s, run.create_table(core, s))
        if isinstance(s, st.CreateTableAs):
            return self._change(lambda t: run.create_table_as(core, s, t))
        if isinstance(s, st.CreateView):
            return run.create_view(core, s)
        if isinstance(s, st.CreateMaterializedView):
            return self._replacing(s, run.create_materialized(core, s))
        if isinstance(s, st.Drop):
            self._close_watches(run.drop(core, s))
            return run.status(f"DROP {s.kind.upper()}")
        raise SqlSyntaxError(f"{type(s).__name__} is not a statement of a flow")

    def _replacing(self, s: st.CreateTable | st.CreateMaterializedView, answer: pa.Table) -> pa.Table:
        """End the watches on what OR REPLACE took away: its columns may be others now."""
        if s.or_replace:
            self._close_watches([s.name])
        return answer

    def _view_of_flow(self) -> Transaction:
        return self._transaction if self._transaction is not None else Transaction(self._core)

    def _change(self, work: Any) -> pa.Table:
        """Run a statement that changes rows: in the open transaction, or as an epoch of its own."""
        if self._transaction is not None:
            return work(self._transaction)
        transaction = Transaction(self._core)
        answer = work(transaction)
        self._commit(transaction)
        return answer

    def _transact(self, s: st.Statement) -> pa.Table:
        if isinstance(s, st.Begin):
            if self._transaction is not None:
                raise TransactionError("a transaction is open already", hint="COMMIT or ROLLBACK first.")
            self._transaction = Transaction(self._core, s.read_only)
            return run.status("BEGIN")
        if self._transaction is None:
            raise TransactionError("there is no transaction to end", hint="BEGIN one first.")
        transaction, self._transaction = self._transaction, None
        if isinstance(s, st.Rollback):
            return run.status("ROLLBACK")
        self._commit(transaction)
        return run.status("COMMIT")

    def _commit(self, transaction: Transaction) -> dict[str, ZSet]:
        if not any(len(delta) for delta, _ in transaction.changes.values()):
            return {}
        changed = transaction.commit()
        if self._watches:
            tables = {name: delta for name, (delta, _) in transaction.changes.items()}
            for name, rows in {**tables, **changed}.items():
                for watch in self._watches.get(fold(name), ()):
                    watch.push(self._core.epoch, rows)
        return changed

    # -- ticks -----------------------------------------------------------------------------

    def tick(
        self, source: str | Mapping[str, Any], delta: Any = None, *, mode: str | None = None
    ) -> TickSummary:
        """Apply deltas to one table, or to several at once ({table: delta}), as one epoch.

        A delta is a pyarrow table or record batch, a pandas or polars frame, or a list of dicts. The
        column `_weight` says how often each row comes (positive) or goes (negative); without it each comes
        once. mode="upsert" replaces the rows that have the same primary key.
        """
        began = time.perf_counter()
        if mode not in (None, "insert", "upsert"):
            raise InvalidDelta(f'unknown mode "{mode}"', hint='Use "insert" or "upsert".')
        if not isinstance(source, Mapping) and delta is None:
            raise InvalidDelta(f'tick("{source}") has no delta', hint="Give the rows: tick(table, rows).")
        deltas = source if isinstance(source, Mapping) else {source: delta}
        with self._lock:
            self._check_open()
            if self._transaction is not None:
                raise TransactionError("a tick is an epoch of its own", hint="COMMIT or ROLLBACK first.")
            core = self._core
            transaction = Transaction(core)
            rows_in = 0
            for name, data in deltas.items():
                table = core.table(name)
                rows = to_zset(data, table.matching, self._defaults(table))
                rows_in += len(rows)
                if not len(rows):
                    continue
                if mode == "upsert":
                    rows = upsert(table, rows, transaction.pending(table))
                transaction.apply(table, rows)
            if transaction.changes:
                changed = self._commit(transaction)
            else:
                changed = {}
            types = {n: core.catalog.get(n).schema.types for n in changed}  # type: ignore[union-attr]
            return TickSummary(core.epoch, rows_in, (time.perf_counter() - began) * 1000, changed, types)

    def _defaults(self, table: Table) -> Sequence[Any]:
        if not table.has_volatile_defaults:
            return table.defaults
        types = table.schema.types
        return [
            self._core.evaluate(d.text, t) if isinstance(d, VolatileDefault) else d
            for d, t in zip(table.defaults, types, strict=True)
        ]

    # -- definitions from Python -----------------------------------------------------------

    def register_source(self, name: str, schema: pa.Schema, key: str | Sequence[str] | None = None) -> None:
        """A table from an Arrow schema: the same as CREATE TABLE."""
        if not isinstance(schema, pa.Schema):
            raise BindError(f"the schema of a source is a pyarrow.Schema, not {type(schema).__name__}")
        types: tuple[SqlType, ...] = tuple(sql_type_of(f.type) for f in schema)
        keys = [key] if isinstance(key, str) else list(key or ())
        for column in keys:
            if column not in schema.names:
                raise UndefinedColumn(f'the key column "{column}" is not in the schema of "{name}"')
        with self._lock:
            self._check_open()
            columns = Schema(tuple(schema.names), types)
            places = tuple(schema.names.index(k) for k in keys)
            required = tuple(i for i, f in enumerate(schema) if not f.nullable)
            run.add_table(self._core, name, columns, places, required)

    def register_view(self, name: str, query: str, *, replace: bool = False) -> None:
        """A materialized view: the same as CREATE [OR REPLACE] MATERIALIZED VIEW."""
        prefix = "CREATE OR REPLACE" if replace else "CREATE"
        self.sql(f"{prefix} MATERIALIZED VIEW {quote(name)} AS {query}")

    # -- reading ---------------------------------------------------------------------------

    @property
    def epoch(self) -> int:
        """The number of the last committed epoch."""
        return self._core.epoch

    def snapshot(self, name: str) -> pa.Table:
        """The rows of a table or view now, one row for each multiplicity."""
        with self._lock:
            self._check_open()
            relation = self._core.catalog.get(name)
            if isinstance(relation, View):
                return self._view_of_flow().query(f"SELECT * FROM {quote(relation.name)}")
            return arrow_table(self._view_of_flow().rows(relation), relation.schema)

    def watch(self, view: str) -> Watch:
        """The changes of a view (or table) from now on: iterate over it; close() ends it."""
        with self._lock:
            self._check_open()
            relation = self._core.catalog.get(view)
            if isinstance(relation, View):
                raise WrongObjectType(
                    f'"{relation.name}" is a plain view; tables and materialized views can be watched',
                    hint="Create a materialized view over it.",
                )
            watch = Watch(relation.name, relation.schema, self._forget)
            self._watches.setdefault(fold(relation.name), []).append(watch)
            return watch

    def _forget(self, watch: Watch) -> None:
        with self._lock:
            watches = self._watches.get(fold(watch.view), [])
            if watch in watches:
                watches.remove(watch)

    def _close_watches(self, names: Sequence[str]) -> None:
        for name in names:
            for watch in list(self._watches.get(fold(name), ())):
                watch.close()

    def explain(self, name: str) -> str:
        """The text of EXPLAIN INCREMENTAL: operators, laws, keys, state."""
        with self._lock:
            self._check_open()
            relation = self._core.catalog.get(name)
            if not isinstance(relation, MaterializedView):
                raise WrongObjectType(f'"{relation.name}" is a {relation.kind}, not a materialized view')
            return self._explain(relation)

    def _explain(self, view: MaterializedView) -> str:
        core = self._core
        uses = {v.name: {n.id for n in core.circuit.below([v.node])} for v in core.catalog.materialized()}
        tables = {t.node: t for t in core.catalog.tables()}
        return explain(core.circuit, view, lambda id: [n for n, ids in uses.items() if id in ids], tables)

    def _explain_query(self, sql: str) -> str:
        """What a view with this query would be: it is made, explained and dropped again."""
        name = "penstock explained query"
        view = self._core.create_materialized(name, sql, None, {})
        try:
            return self._explain(view).replace(f"materialized view {name}", "query")
        finally:
            self._core.drop(view, cascade=False)

    def state(self) -> list[StateEntry]:
        """Every piece of state that the flow holds, with its rows and bytes."""
        with self._lock:
            self._check_open()
            core = self._core
            entries = [
                StateEntry(a.name, a.rows(), a.nbytes()) for n in core.circuit.nodes.values() for a in n.owned
            ]
            for relation in core.catalog:
                bag = (
                    relation.contents
                    if isinstance(relation, MaterializedView)
                    else getattr(relation, "bag", None)
                )
                if bag is not None:
                    entries.append(StateEntry(bag.name, bag.row_count(), bag.nbytes()))
            return entries

    # -- the end ---------------------------------------------------------------------------

    def close(self) -> None:
        """End the flow: watches end, memory is freed. Closing twice is fine."""
        with self._lock:
            if self._closed:
                return
            self._close_watches(list(self._watches))
            self._transaction = None
            self._closed = True
            self._core.close()

    def __enter__(self) -> Flow:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _check_open(self) -> None:
        if self._closed:
            raise FlowClosed("the flow is closed", hint="Make a new Flow().")
