"""Flow: tables and views that are kept fresh. The Python API."""

from __future__ import annotations

import atexit
import os
import threading
import time
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import cached_property
from typing import Any

import pyarrow as pa

from penstock.base.errors import (
    BindError,
    FlowClosed,
    HistoryGone,
    InvalidDelta,
    InvalidOption,
    ReadOnly,
    SqlSyntaxError,
    TransactionError,
    UndefinedColumn,
    WrongObjectType,
)
from penstock.base.limits import (
    CACHE_BYTES_MAX,
    INDEX_MEMORY_SHARE_MAX,
    INDEX_ROW_BYTES,
    INDEX_ROWS_MAX,
    VERIFY_ROWS_SHOWN,
)
from penstock.base.quantities import seconds, size_bytes
from penstock.commit.checkpoint import Checkpoint
from penstock.commit.copying import Progress
from penstock.commit.history import now_us
from penstock.commit.journal import Entry
from penstock.commit.once import Offset, Once
from penstock.duck.connect import DuckConnection, connect
from penstock.engine import checkpoint as checkpoints
from penstock.engine import slots
from penstock.engine import statements as run
from penstock.engine.accept import upsert
from penstock.engine.applied import Applied
from penstock.engine.as_of import Past
from penstock.engine.catalog import MaterializedView, Table, View, VolatileDefault
from penstock.engine.check_files import FileChecker
from penstock.engine.consolidate import consolidated
from penstock.engine.core import Change as TableChange
from penstock.engine.core import Core
from penstock.engine.durable import Durable
from penstock.engine.explain import explain
from penstock.engine.follow import Follower
from penstock.engine.ingest import to_zset
from penstock.engine.opening import Settings
from penstock.engine.options import read_options
from penstock.engine.progress import Counter
from penstock.engine.session import Session
from penstock.engine.session_reader import SessionReader
from penstock.engine.showing import arrow_table
from penstock.engine.transaction import Transaction
from penstock.engine.verify import Check, Verifier, gather
from penstock.engine.watch import Change, Watch
from penstock.sql import statements as st
from penstock.sql.binding import Parameters
from penstock.sql.tokens import fold, quote
from penstock.store.location import Location
from penstock.zset.interchange import sql_type_of
from penstock.zset.types import Schema, SqlType
from penstock.zset.zset import ZSet


class TickSummary:
    """What one epoch did."""

    __slots__ = ("__dict__", "_changes", "_types", "duration_ms", "epoch", "repeated", "rows_in")

    def __init__(
        self,
        epoch: int,
        rows_in: int,
        duration_ms: float,
        changes: dict[str, ZSet],
        types: dict[str, Any],
        repeated: tuple[str, ...] = (),
    ) -> None:
        self.epoch = epoch
        self.repeated = repeated  # sources whose delta had been applied before, and was not again
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

    With a URL (a folder, s3://, gs://, az://, memory://) the flow is kept there: opened again it is as it
    was. `commit` says when a tick returns: "durable", when it is on storage, or "visible", at once, to be
    on storage within `commit_interval`. `sync=False` leaves the disk of a folder to the operating system:
    faster, and a killed process loses nothing, but a loss of power may. `retain_history` is how long past
    epochs can be read; `memory_limit` lets state live on disk alone; `cache_dir` and `cache_limit` are for
    local copies of remote files. `read_only=True` follows a flow that another process writes.

    A flow may be used from several threads: its calls take turns. `share_arrangements=False` gives
    every view its own state, which costs memory and is only of use for comparing. `clock_us` gives the
    time of an epoch, in microseconds since 1970.
    """

    def __init__(
        self,
        url: str | os.PathLike[str] | None = None,
        *,
        read_only: bool = False,
        commit: str = "durable",
        commit_interval: float | str = "100 ms",
        retain_history: float | str | timedelta = "10 minutes",
        memory_limit: int | str | None = None,
        sync: bool = True,
        cache_dir: str | os.PathLike[str] | None = None,
        cache_limit: int | str | None = None,
        storage_options: Mapping[str, object] | None = None,
        share_arrangements: bool = True,
        clock_us: Callable[[], int] = now_us,
    ) -> None:
        self._lock = threading.RLock()
        self._session = Session(self)
        self._database: DuckConnection | None = None  # in which sessions read; made with the first of them
        self._watches: dict[str, list[Watch]] = {}
        self._closed = False
        self._once = Once()  # replaced by what storage knows
        self._pending: list[Entry] | None = None  # epochs of a statement that changes the catalog too
        self._store: Durable | Follower | None = None
        if url is None:
            if read_only:
                raise InvalidOption("a flow in memory cannot be read only", hint="Give the URL of a flow.")
            given = {"memory_limit": memory_limit, "cache_dir": cache_dir, "cache_limit": cache_limit}
            for name, value in {**given, "storage_options": storage_options}.items():
                if value is not None:
                    raise InvalidOption(
                        f"{name} is for flows on storage", hint="Give the URL of a place to keep the flow."
                    )
            self._core = Core(share_arrangements)
            return
        settings = Settings(
            Location.parse(url, storage_options),
            commit_mode(commit),
            seconds(commit_interval, "commit_interval"),
            seconds(retain_history, "retain_history"),
            None if memory_limit is None else size_bytes(memory_limit, "memory_limit"),
            sync,
            None if cache_dir is None else os.fspath(cache_dir),
            CACHE_BYTES_MAX if cache_limit is None else size_bytes(cache_limit, "cache_limit"),
        )
        if read_only:
            self._store = Follower(settings, self._lock, self._followed, clock_us)
            self._core = self._store.core
        else:
            self._core = Core(share_arrangements)
            try:
                self._store = Durable(self._core, settings, clock_us)
            except BaseException:
                self._core.close()
                raise
            self._once = self._store.once
        # A program that ends without close() keeps what it committed, as far as it can.
        atexit.register(_close_at_exit, weakref.ref(self))

    # -- SQL -------------------------------------------------------------------------------

    def sql(self, sql: str, parameters: Parameters | None = None, *, commit: str | None = None) -> pa.Table:
        """Run one or several statements; the answer of the last one as a pyarrow.Table.

        Queries give their rows, INSERT/UPDATE/DELETE the count of rows (or what RETURNING asks for), the
        others a status. A statement outside BEGIN ... COMMIT is an epoch of its own. `parameters` are the
        values of $1, $2, ... or ? (a list) or of $name (a dict). All calls are of one session, which has one
        transaction at a time; `session()` makes others. `commit` is as for `tick`.
        """
        return self._session.sql(sql, parameters, None if commit is None else commit_mode(commit))

    def session(self, *, define_at_once: bool = False, constants: Mapping[str, str] | None = None) -> Session:
        """A session with transactions of its own, whose queries do not make others wait.

        `define_at_once` lets CREATE and DROP run inside a transaction that has changed nothing yet, as a
        commit of their own; `constants` are functions without arguments that answer with a text.
        """
        with self._lock:
            self._check_open()
            if self._database is None:
                self._database = connect()
            database, functions = self._database, dict(constants or {})
            return Session(self, lambda: SessionReader(database, functions), define_at_once, functions)

    def _index_rows_max(self) -> int:
        """The largest piece of state that gets an index for point reads."""
        limit = self._store.settings.memory_limit if isinstance(self._store, Durable) else None
        return INDEX_ROWS_MAX if limit is None else int(limit * INDEX_MEMORY_SHARE_MAX) // INDEX_ROW_BYTES

    @contextmanager
    def _defining(self) -> Iterator[None]:
        """Around what may change the catalog: it becomes durable as one, with the epochs it made."""
        if isinstance(self._store, Follower):
            raise read_only_error()
        before = self._core.catalog.changes
        self._pending = [] if self._store is not None else None
        try:
            yield
        finally:
            pending, self._pending = self._pending, None
            if self._store is not None and (pending or self._core.catalog.changes != before):
                self._store.define(pending or ())

    def _define(self, s: st.Statement, session: Session) -> pa.Table:
        core = self._core
        if isinstance(s, (st.CreateTable, st.CreateTableAs, st.CreateMaterializedView)):
            self._check_retention(s.options.get("retain_history"))
        if isinstance(s, st.CreateTable):
            return self._replacing(s, run.create_table(core, s))
        if isinstance(s, st.CreateTableAs):
            return session.change(lambda t: self._replacing(s, run.create_table_as(core, s, t)))
        if isinstance(s, st.CreateView):
            return run.create_view(core, s)
        if isinstance(s, st.CreateMaterializedView):
            return self._replacing(s, run.create_materialized(core, s))
        if isinstance(s, st.Drop):
            self._close_watches(run.drop(core, s))
            return run.status(f"DROP {s.kind.upper()}")
        raise SqlSyntaxError(f"{type(s).__name__} is not a statement of a flow")

    def _check_retention(self, retain_history: object) -> None:
        if retain_history is not None and self._store is None:
            raise InvalidOption(
                "a flow in memory keeps no history, so there is none to retain",
                hint='Open it on storage ("memory://name" will do), or leave RETAIN HISTORY out.',
            )

    def _replacing(
        self, s: st.CreateTable | st.CreateTableAs | st.CreateMaterializedView, answer: pa.Table
    ) -> pa.Table:
        """End the watches on what OR REPLACE took away: its columns may be others now."""
        if s.or_replace:
            self._close_watches([s.name])
        return answer

    def _commit(self, transaction: Transaction, note: dict[str, Any] | None = None) -> dict[str, ZSet]:
        changes = {name: change for name, change in transaction.changes.items() if len(change[0])}
        if not changes and not note:
            return {}
        if self._store is not None:
            store = self._writer()
            store.check()
            if changes:
                store.check_fits(changes, transaction.epoch())
        began = time.perf_counter()
        if changes:
            changed = transaction.commit()
        else:  # an offset without rows is an epoch too
            self._core.epoch += 1
            changed = {}
        if self._store is not None:
            self._record(changes, changed, note or {}, time.perf_counter() - began)
        elif note:
            self._once.writes(note, self._core.epoch)
        if self._watches:
            tables = {name: delta for name, (delta, _) in changes.items()}
            self._push(self._core.epoch, {**tables, **changed})
        return changed

    def _record(
        self, changes: dict[str, TableChange], views: dict[str, ZSet], note: dict[str, Any], cost_s: float
    ) -> None:
        store = self._writer()
        entry = store.entry(changes, views, note)
        if self._pending is not None:
            self._pending.append(entry)
        else:
            store.commit(entry, changes, cost_s)

    def _push(self, epoch: int, changes: Mapping[str, ZSet]) -> None:
        for name, rows in changes.items():
            for watch in self._watches.get(fold(name), ()):
                watch.push(epoch, rows)

    def _followed(self, epoch: int, changes: dict[str, ZSet]) -> None:
        """A reader has taken in an epoch, or has read everything anew (no changes to tell of then)."""
        assert isinstance(self._store, Follower)
        self._core = self._store.core
        if self._watches and changes:
            self._push(epoch, changes)

    def _writer(self) -> Durable:
        if not isinstance(self._store, Durable):
            raise read_only_error()
        return self._store

    def _settle(self, epoch: int, mode: str | None) -> None:
        """Wait until an epoch is on storage, where that was asked for. Without the lock: others go on."""
        if epoch and isinstance(self._store, Durable) and (mode or self._store.settings.commit) == "durable":
            self._store.wait(epoch)

    # -- ticks -----------------------------------------------------------------------------

    def tick(
        self,
        source: str | Mapping[str, Any],
        delta: Any = None,
        *,
        mode: str | None = None,
        commit: str | None = None,
        offset: Offset | Mapping[str, Offset] | None = None,
        idempotency_key: str | None = None,
    ) -> TickSummary:
        """Apply deltas to one table, or to several at once ({table: delta}), as one epoch.

        A delta is a pyarrow table or record batch, a pandas or polars frame, or a list of dicts. The
        column `_weight` says how often each row comes (positive) or goes (negative); without it each comes
        once. mode="upsert" replaces the rows that have the same primary key.

        A flow on storage returns when the epoch is there (commit="durable"), or at once ("visible": it is
        there within the commit interval). `offset` says how far the source has been read: a tick whose
        offset has been applied changes nothing, also after a crash; so does one whose `idempotency_key`
        was used before.
        """
        began = time.perf_counter()
        if mode not in (None, "insert", "upsert"):
            raise InvalidDelta(f'unknown mode "{mode}"', hint='Use "insert" or "upsert".')
        if not isinstance(source, Mapping) and delta is None:
            raise InvalidDelta(f'tick("{source}") has no delta', hint="Give the rows: tick(table, rows).")
        deltas = source if isinstance(source, Mapping) else {source: delta}
        if commit is not None:
            commit = commit_mode(commit)
        with self._lock:
            self._check_open()
            if self._session.transaction is not None:
                raise TransactionError("a tick is an epoch of its own", hint="COMMIT or ROLLBACK first.")
            if isinstance(self._store, Follower):
                raise read_only_error()
            summary = self._tick(deltas, mode, offset, idempotency_key, began)
        self._settle(summary.epoch, commit)
        return summary

    def _tick(
        self, deltas: Mapping[str, Any], mode: str | None, offset: Any, key: str | None, began: float
    ) -> TickSummary:
        core = self._core
        applied = Applied(self._once, offset, key) if offset is not None or key is not None else None
        if applied is not None:
            applied.check(deltas)
            if applied.epoch is not None:
                return TickSummary(applied.epoch, 0, _ms_since(began), {}, {}, tuple(deltas))
        transaction = Transaction(core)
        note: dict[str, Any] = {}
        repeated: list[str] = []
        dropped: list[Table] = []
        rows_in = 0
        for name, data in deltas.items():
            table = core.table(name)
            if applied is not None and applied.has(table):
                repeated.append(table.name)
                continue
            rows = to_zset(data, table.matching, self._defaults(table))
            if not len(rows):
                continue
            if table.dedup and self._once.repeats(table.id, self._given(table, data, rows), note):
                repeated.append(table.name)
                dropped.append(table)
                continue
            rows_in += len(rows)
            if mode == "upsert":
                rows = upsert(table, rows, transaction.pending(table))
            transaction.apply(table, rows)
        if applied is not None:
            applied.note(note)
        changed = self._commit(transaction, note) if transaction.changes or note else {}
        for table in dropped:
            self._once.count(table.id)
        types = {n: core.catalog.get(n).schema.types for n in changed}  # type: ignore[union-attr]
        return TickSummary(core.epoch, rows_in, _ms_since(began), changed, types, tuple(repeated))

    def _given(self, table: Table, data: Any, rows: ZSet) -> ZSet:
        """A delta to be compared with the one before: without defaults such as now(), which always differ."""
        if not table.has_volatile_defaults:
            return rows
        fixed = [None if isinstance(d, VolatileDefault) else d for d in table.defaults]
        return to_zset(data, table.matching, fixed)

    def _defaults(self, table: Table) -> Sequence[Any]:
        if not table.has_volatile_defaults:
            return table.defaults
        types = table.schema.types
        return [
            self._core.evaluate(d.text, t) if isinstance(d, VolatileDefault) else d
            for d, t in zip(table.defaults, types, strict=True)
        ]

    # -- definitions from Python -----------------------------------------------------------

    def register_source(
        self,
        name: str,
        schema: pa.Schema,
        key: str | Sequence[str] | None = None,
        *,
        dedup: str | None = None,
        retain_history: float | str | timedelta | None = None,
    ) -> None:
        """A table from an Arrow schema: the same as CREATE TABLE. With dedup="content" a tick's delta that is
        the same as the one before it changes nothing."""
        given = {"dedup": dedup, "retain_history": retain_history}
        options = read_options({k: v for k, v in given.items() if v is not None}, "table", name)
        if not isinstance(schema, pa.Schema):
            raise BindError(f"the schema of a source is a pyarrow.Schema, not {type(schema).__name__}")
        types: tuple[SqlType, ...] = tuple(sql_type_of(f.type) for f in schema)
        keys = [key] if isinstance(key, str) else list(key or ())
        for column in keys:
            if column not in schema.names:
                raise UndefinedColumn(f'the key column "{column}" is not in the schema of "{name}"')
        with self._lock:
            self._check_open()
            self._check_retention(retain_history)
            self._session.check_may_define()
            columns = Schema(tuple(schema.names), types)
            places = tuple(schema.names.index(k) for k in keys)
            required = tuple(i for i, f in enumerate(schema) if not f.nullable)
            with self._defining():
                run.add_table(self._core, name, columns, places, required, options)

    def register_view(
        self,
        name: str,
        query: str,
        *,
        replace: bool = False,
        retain_history: float | str | timedelta | None = None,
    ) -> None:
        """A materialized view: the same as CREATE [OR REPLACE] MATERIALIZED VIEW."""
        prefix = "CREATE OR REPLACE" if replace else "CREATE"
        options = ""
        if retain_history is not None:
            options = f" WITH (retain_history = {seconds(retain_history, 'retain_history')!r})"
        self.sql(f"{prefix} MATERIALIZED VIEW {quote(name)}{options} AS {query}")

    # -- reading ---------------------------------------------------------------------------

    @property
    def epoch(self) -> int:
        """The number of the last committed epoch."""
        return self._core.epoch

    @property
    def durable_epoch(self) -> int:
        """The last epoch that is on storage; `epoch` is the last one that is visible."""
        if isinstance(self._store, Durable):
            return self._store.journal.durable
        if isinstance(self._store, Follower):
            return self._core.epoch
        raise InvalidOption("a flow in memory has no durable epochs", hint="Open it on a storage URL.")

    def flush(self) -> int:
        """Return when everything that is visible is on storage: the last epoch that is."""
        with self._lock:
            self._check_open()
            epoch = self._core.epoch
            store = self._writer() if self._store is not None else None
        if store is not None:
            store.wait(epoch)
        return epoch

    def snapshot(self, name: str, as_of: int | datetime | str | None = None) -> pa.Table:
        """The rows of a table or view, one row for each multiplicity: now, or as of an epoch or a time."""
        with self._lock:
            self._check_open()
            relation = self._core.catalog.get(name)
            if as_of is not None:
                past = self._past()
                epoch = past.epoch(as_of)
                if isinstance(relation, View):
                    return past.query(f"SELECT * FROM {quote(relation.name)}", epoch)
                return arrow_table(past.rows(relation, epoch), relation.schema)
            if isinstance(relation, View):
                return self._session.view().query(f"SELECT * FROM {quote(relation.name)}")
            return arrow_table(self._session.view().rows(relation), relation.schema)

    def changes(self, name: str, from_epoch: int, to_epoch: int | None = None) -> Iterator[Change]:
        """What changed in a table or view after `from_epoch` up to and including `to_epoch` (or now)."""
        with self._lock:
            self._check_open()
            relation = self._core.catalog.get(name)
            if isinstance(relation, View):
                raise WrongObjectType(
                    f'"{relation.name}" is a plain view; tables and materialized views have changes'
                )
            past = self._past()
            last = self._core.epoch if to_epoch is None else to_epoch
            past.check_range(relation, from_epoch, last)
        return past.changes(relation, from_epoch, last)

    def _past(self) -> Past:
        if self._store is None:
            raise HistoryGone(
                "a flow in memory keeps no history", hint='Open it on storage; "memory://name" will do.'
            )
        if isinstance(self._store, Durable):
            self._store.wait(self._core.epoch)
            return Past(self._core, self._store.history, self._store.settings.retain_s)
        return Past(self._core, self._store.history, None)  # what the writer retains is what there is

    def offset(self, source: str) -> Offset | None:
        """How far a source has been read: the offset of the last tick of this table that had one."""
        with self._lock:
            self._check_open()
            table = self._core.table(source)
            if isinstance(self._store, Follower):
                return self._store.offset(table.id)
            return self._once.offsets.get(table.id)

    def repetitions(self, source: str) -> int:
        """How many deltas of a table with dedup="content" were dropped since the flow was opened."""
        with self._lock:
            self._check_open()
            return self._once.repetitions.get(self._core.table(source).id, 0)

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

    # -- upkeep ----------------------------------------------------------------------------

    def verify(
        self,
        view: str | None = None,
        as_of: int | datetime | str | None = None,
        *,
        limit: int = VERIFY_ROWS_SHOWN,
        progress: Progress | None = None,
    ) -> list[Check]:
        """Compute the materialized views (or one) anew from the tables with DuckDB and compare, and check
        every byte of the flow's files. Each result says whether it is `equal`, and if not, what is missing and
        what is too much, up to `limit` rows of each."""
        with self._lock:
            self._check_open()
            if view is not None:
                self._core.catalog.get(view)
            store = self._store
        files = None if store is None else FileChecker(store.truth, store.files)
        of_files = 0 if files is None else len(files)
        done = Counter(progress, of_files)
        found = [] if files is None else files.run(done)
        with self._lock:
            self._check_open()
            past = None if as_of is None else self._past()
            verifier = Verifier(gather(self._core, view, past, as_of), limit)
        done.total = of_files + len(verifier)
        return found + verifier.run(done)

    def compact(self, progress: Progress | None = None) -> int:
        """Merge each piece of state into one batch; on storage write it, and delete the files that this frees:
        how many."""
        with self._lock:
            self._check_open()
            if self._store is None:
                slots.compact(self._core, progress)
                return 0
            store = self._writer()
            store.check()
            return store.compact(progress)

    # -- checkpoints -----------------------------------------------------------------------

    def checkpoint(
        self, url: str | os.PathLike[str], *, storage_options: Mapping[str, object] | None = None,
        progress: Progress | None = None,
    ) -> Checkpoint:  # fmt: skip
        """Write this epoch to another place: the files that it does not have yet, and their list."""
        return self._checkpoint(url, storage_options, False, progress)

    def checkpoint_full(
        self, url: str | os.PathLike[str], *, storage_options: Mapping[str, object] | None = None,
        progress: Progress | None = None,
    ) -> Checkpoint:  # fmt: skip
        """Write this epoch to another place as a copy that needs nothing else there."""
        return self._checkpoint(url, storage_options, True, progress)

    def _checkpoint(
        self, url: Any, storage_options: Mapping[str, object] | None, full: bool, progress: Progress | None
    ) -> Checkpoint:
        with self._lock:
            self._check_open()
            store = self._on_storage()
            place = self._place(url, storage_options)
            image, holding = checkpoints.capture(store)
        with holding:
            return checkpoints.checkpoint(store, image, place, full, progress)

    @staticmethod
    def restore(
        url: str | os.PathLike[str], into: str | os.PathLike[str], *, epoch: int | None = None,
        storage_options: Mapping[str, object] | None = None, progress: Progress | None = None,
    ) -> Checkpoint:  # fmt: skip
        """Make a flow of the newest checkpoint at a place, or of that of an epoch. Open it afterwards."""
        source = Location.parse(url)
        if storage_options is not None and source.is_remote:
            source = Location.parse(url, storage_options)
        target = Location.parse(into)
        if storage_options is not None and target.is_remote:
            target = Location.parse(into, storage_options)
        return checkpoints.restore(source, target, epoch, progress)

    def branch(
        self, url: str | os.PathLike[str], *, storage_options: Mapping[str, object] | None = None
    ) -> Checkpoint:
        """A second flow at another place, which begins as this one is now and shares its files: open it there."""
        with self._lock:
            self._check_open()
            return checkpoints.branch(self._on_storage(), self._place(url, storage_options))

    def _place(self, url: Any, storage_options: Mapping[str, object] | None) -> Location:
        if storage_options is not None:
            return Location.parse(url, storage_options)
        return checkpoints.place_of(url, self._on_storage().settings.location)

    def _on_storage(self) -> Durable:
        if self._store is None:
            raise InvalidOption("a flow in memory cannot be checkpointed", hint="Open it on a storage URL.")
        store = self._writer()
        store.check()
        return store

    # -- the end ---------------------------------------------------------------------------

    def close(self) -> None:
        """End the flow: watches end, memory is freed. Closing twice is fine."""
        with self._lock:
            if self._closed:
                return
            self._close_watches(list(self._watches))
            self._session.rollback()
            self._closed = True
            store = self._store
        try:  # a reader's thread needs the lock to end
            if isinstance(store, Follower):
                store.close()
            elif store is not None:
                with self._lock:
                    store.close()
        finally:
            self._core.close()
            if self._database is not None:
                self._database.close()

    def __enter__(self) -> Flow:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _check_open(self) -> None:
        if self._closed:
            raise FlowClosed("the flow is closed", hint="Make a new Flow().")
        self._core.check()
        if isinstance(self._store, Follower):
            self._store.check()
        elif self._store is not None:
            # What is in memory may be ahead of storage for ever: a flow that has stopped answers nothing.
            self._store.journal.check()


def _close_at_exit(flow: weakref.ref[Flow]) -> None:
    found = flow()
    if found is not None:
        found.close()


def commit_mode(mode: str) -> str:
    if mode not in ("durable", "visible"):
        raise InvalidOption(f'unknown commit mode "{mode}"', hint='Use "durable" or "visible".')
    return mode


def read_only_error() -> ReadOnly:
    return ReadOnly("the flow is open for reading", hint="Open it without read_only=True to change it.")


def _ms_since(began: float) -> float:
    return (time.perf_counter() - began) * 1000
