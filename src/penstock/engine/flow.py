"""Flow: tables and views that are kept fresh. The Python API."""

from __future__ import annotations

import atexit
import itertools
import os
import threading
import time
import uuid
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime, timedelta
from typing import Any

import pyarrow as pa

from penstock.base.errors import (
    BindError,
    FlowClosed,
    FlowPaused,
    HistoryGone,
    InvalidDelta,
    InvalidOption,
    PenstockError,
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
    STORAGE_ASK_AFTER_SECONDS,
)
from penstock.base.quantities import seconds, size_bytes
from penstock.commit.history import now_us
from penstock.commit.journal import Entry
from penstock.commit.once import Offset, Once
from penstock.duck.connect import DuckConnection, connect
from penstock.engine import statements as run
from penstock.engine.accept import upsert
from penstock.engine.access import Access
from penstock.engine.access_changes import change_access, owning
from penstock.engine.applied import Applied
from penstock.engine.as_of import Past
from penstock.engine.audit_ddl import audited
from penstock.engine.bell import Bell
from penstock.engine.catalog import MaterializedView, Table, View, VolatileDefault
from penstock.engine.change_feed import from_change_feed
from penstock.engine.core import Change as TableChange
from penstock.engine.core import Core
from penstock.engine.durable import Durable
from penstock.engine.engines import Engines
from penstock.engine.estimate import estimate_lines
from penstock.engine.explain import explain_in
from penstock.engine.flow_parts import read_only_error
from penstock.engine.flow_spark import SparkSide
from penstock.engine.flow_upkeep import UpkeepSide
from penstock.engine.follow import Follower
from penstock.engine.frames import Frame, FrameSource
from penstock.engine.freshness import Freshness, freshness
from penstock.engine.ingest import to_zset
from penstock.engine.meter import Meter
from penstock.engine.opening import Settings, flow_id
from penstock.engine.options import read_options
from penstock.engine.session import Session
from penstock.engine.session_reader import SessionReader
from penstock.engine.showing import arrow_table
from penstock.engine.sinks import Sink
from penstock.engine.spark_sql import run_spark_sql, spark_columns
from penstock.engine.subscription import Subscription, catch_up, subscribe
from penstock.engine.summary import TickSummary
from penstock.engine.system import SystemRelation
from penstock.engine.transaction import Transaction
from penstock.engine.watch import Watch
from penstock.run.inline import Epoch
from penstock.run.spark.change_feed import from_change_feed as read_change_feed
from penstock.run.spark.session import Spark, is_data_frame
from penstock.run.spark.streams import Streams
from penstock.sql import statements as st
from penstock.sql.access_statements import ACCESS_STATEMENTS, AccessStatement
from penstock.sql.binding import Parameters
from penstock.sql.tokens import fold, fold_all, quote
from penstock.state.scattered import Rows, Scattered, rows_of
from penstock.store.location import Location
from penstock.zset.change_feeds import AUTO
from penstock.zset.interchange import sql_type_of
from penstock.zset.types import Schema, SqlType
from penstock.zset.zset import ZSet


class Flow(SparkSide, UpkeepSide):
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
        engine: str | Spark | None = None,
        share_arrangements: bool = True,
        clock_us: Callable[[], int] = now_us,
    ) -> None:
        self._lock = threading.RLock()
        self.meter = Meter(clock_us)
        self._sessions: dict[int, Session] = {}
        self._session_numbers = itertools.count(1)
        self._paused_us: int | None = None  # since when changes are refused
        self._session = Session(self)
        self._database: DuckConnection | None = None  # in which sessions read; made with the first of them
        self._watches: dict[str, list[Watch]] = {}
        self._sinks: list[Sink] = []
        self._streams: list[Streams] = []
        self.bell = Bell()
        self._id = uuid.uuid4().hex[:12]  # replaced by what storage knows
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
            self._core = Core(share_arrangements, clock_us)
            self._core.audit.record("opened")
            self._core.reader.system_rows = self._system_rows
            self._engines = Engines(self._core, None, engine)
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
            if engine not in (None, "inline"):
                raise InvalidOption("a flow that is read only runs no epochs", hint="Leave engine= out.")
            self._store = Follower(settings, self._lock, self._followed, self.meter)
            self._core = self._store.core
        else:
            self._core = Core(share_arrangements, clock_us)
            try:
                self._store = Durable(self._core, settings, clock_us, self.meter)
            except BaseException:
                self._core.close()
                raise
            self._once = self._store.once
            self._store.journal.on_durable = self.bell.ring
        self._id = flow_id(self._store.truth)
        self._core.reader.system_rows = self._system_rows
        try:
            self._engines = Engines(self._core, self._store if not read_only else None, engine)  # type: ignore[arg-type]
        except BaseException:
            self._store.close()
            self._core.close()
            raise
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

    def spark_sql(self, sql: str, *, commit: str | None = None) -> pa.Table:
        """Run statements of Spark's dialect; the answer of the last one as a pyarrow.Table.

        CREATE [MATERIALIZED] VIEW, CREATE TABLE, INSERT, SELECT and DROP, with Spark's meaning (ANSI mode, UTC):
        docs/spark-sql.md says what is refused.
        """
        return run_spark_sql(sql, lambda: self._core.catalog, lambda text: self.sql(text, commit=commit))

    def spark_columns(self) -> dict[str, str]:
        """The tables and views, each with its columns as Spark's DDL."""
        with self._lock:
            self._check_open()
            return spark_columns(self._core.catalog, self.sql)

    def session(
        self,
        *,
        define_at_once: bool = False,
        constants: Mapping[str, str] | None = None,
        role: str | None = None,
    ) -> Session:
        """A session with transactions of its own, whose queries do not make others wait.

        `define_at_once` lets CREATE and DROP run inside a transaction that has changed nothing yet, as a
        commit of their own; `constants` are functions without arguments that answer with a text. Its statements
        are checked against what `role` may do; None may do everything.
        """
        with self._lock:
            self._check_open()
            if self._database is None:
                self._database = connect()
            database, functions = self._database, dict(constants or {})
            session = Session(
                self, lambda: SessionReader(database, functions), define_at_once, role, functions
            )
            session.number = next(self._session_numbers)
            self._sessions[session.number] = session
            return session

    def sessions(self) -> list[Session]:
        """Those that are open: the flow's own first."""
        return [self._session, *list(self._sessions.values())]

    def _ended(self, session: Session) -> None:
        if session.number is not None:
            self._sessions.pop(session.number, None)

    def access(self) -> Access:
        """Roles, owners and grants, as they are now."""
        return self._core.catalog.access

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
        if isinstance(s, ACCESS_STATEMENTS):
            return self._change_access(s, session)
        with audited(self._core, session.actor, session.number):
            with owning(self._core.catalog, s, session.role):
                return self._carry_out(s, session)

    def _change_access(self, s: AccessStatement, session: Session) -> pa.Table:
        core, before = self._core, self._core.catalog.access
        tag = change_access(core.catalog, s, session.role)
        if core.catalog.access is not before:  # its text has no password in it
            said = {"statement": s.text.text}
            core.audit.record("role", actor=session.actor, session=session.number, with_catalog=True, **said)
        return run.status(tag)

    def _carry_out(self, s: st.Statement, session: Session) -> pa.Table:
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
            return self._replacing(s, self._create_materialized(s))
        if isinstance(s, st.AlterMaterializedView):
            altered = run.alter_materialized(core, s)
            core.audit.record(
                "alter", actor=session.actor, session=session.number, with_catalog=True,
                kind=altered.kind, name=altered.name, options=altered.options,
            )  # fmt: skip
            return run.status("ALTER MATERIALIZED VIEW")
        if isinstance(s, st.Drop):
            self._close_watches(run.drop(core, s), '"{name}" was dropped')
            return run.status(f"DROP {s.kind.upper()}")
        raise SqlSyntaxError(f"{type(s).__name__} is not a statement of a flow")

    def _create_materialized(self, s: st.CreateMaterializedView) -> pa.Table:
        core = self._core
        before = core.catalog.find(s.name)
        target_s = read_options(s.options, "materialized view", s.name).freshness_s
        with self.meter.filling(s.name, target_s, before is not None):
            answer = run.create_materialized(core, s)
        self._engines.ran_on()  # the filling is no epoch
        made = core.catalog.find(s.name)
        if isinstance(made, MaterializedView) and made is not before:
            made.made_us = before.made_us if isinstance(before, MaterializedView) else core.clock_us()
        return answer

    def _alter_system(self, s: st.AlterSystem, session: Session) -> pa.Table:
        """PAUSE: changes are refused, so that views stay as they are; reads go on. RESUME: as before."""
        if isinstance(self._store, Follower):
            raise read_only_error()
        if s.action == "pause" and self._paused_us is None:
            self._paused_us = self.meter.states["PAUSED"] = self.meter.clock_us()
        elif s.action == "resume" and self._paused_us is not None:
            del self.meter.states["PAUSED"]
            self.meter.span(self._paused_us, "PAUSED")
            self._paused_us = None
        self._core.audit.record(s.action, actor=session.actor, session=session.number)
        return run.status("ALTER SYSTEM")

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
            self._close_watches([s.name], '"{name}" was replaced')
        return answer

    def _commit(
        self, transaction: Transaction, arrived_us: int, note: dict[str, Any] | None = None
    ) -> dict[str, Rows]:
        changes = transaction.effective()
        if not changes and not note:
            return {}
        return self._commit_epoch(changes, transaction.epoch, arrived_us, note)

    def _commit_epoch(
        self,
        changes: Mapping[str, TableChange],
        work_out: Callable[[], Epoch],
        arrived_us: int,
        note: dict[str, Any] | None,
    ) -> dict[str, Rows]:
        if self._paused_us is not None:
            raise FlowPaused("the flow is paused: it takes no changes", hint="ALTER SYSTEM RESUME.")
        if self._store is not None:
            store = self._writer()
            store.check()
            if changes:
                store.check_fits(changes, work_out())
        began = time.perf_counter()
        placed = False
        if changes:
            epoch = work_out()
            changed = self._core.commit(changes, epoch)
            placed = epoch.placed
        else:  # an offset without rows is an epoch too
            self._core.epoch += 1
            changed = {}
        if self._store is not None:
            self._record(changes, changed, note or {}, time.perf_counter() - began, placed)
        elif note:
            self._once.writes(note, self._core.epoch)
        if self._watches or self.bell:
            tables: dict[str, Rows] = {name: delta for name, (delta, _) in changes.items()}
            self._push(self._core.epoch, {**tables, **changed})
        self._measure(changes, changed, arrived_us)
        return changed

    def _measure(self, changes: Mapping[str, TableChange], changed: dict[str, Rows], arrived_us: int) -> None:
        held = self._store.held if isinstance(self._store, Durable) else None
        rows_in = rows_out = 0
        for delta, _ in changes.values():
            rows_in += len(delta)
        for rows in changed.values():
            rows_out += len(rows)
        self.meter.epoch(
            self._core.epoch,
            arrived_us,
            rows_in,
            rows_out,
            fold_all(tuple(changes)),
            held or "STRESSED",
            self._engines.ran_on(),
        )

    def _record(
        self,
        changes: Mapping[str, TableChange],
        views: dict[str, Rows],
        note: dict[str, Any],
        cost_s: float,
        placed: bool,
    ) -> None:
        store = self._writer()
        entry = store.entry(changes, views, note)
        if self._pending is not None:
            self._pending.append(entry)
        elif placed:
            store.commit_placed(entry)
        else:
            store.commit(entry, changes, cost_s)

    def _push(self, epoch: int, changes: Mapping[str, Rows]) -> None:
        found = {fold(name): rows for name, rows in changes.items()}
        for name, watches in self._watches.items():
            rows = rows_of(found[name]) if name in found and watches else None
            for watch in watches:
                watch.push(epoch, rows)
        self.bell.ring(epoch, changes)

    def _followed(self, epoch: int, changes: dict[str, ZSet], committed_us: int | None) -> None:
        """A reader has taken in an epoch that the writer committed at a time, or has read everything anew (no
        changes to tell of then)."""
        assert isinstance(self._store, Follower)
        if self._core is not self._store.core:
            self._core = self._store.core
            self._core.reader.system_rows = self._system_rows
            catch_up(self, [w for watches in list(self._watches.values()) for w in list(watches)], epoch)
        if committed_us is not None:
            tables = frozenset(n for n in changes if isinstance(self._core.catalog.find(n), Table))
            rows_in = sum([len(rows) for name, rows in changes.items() if name in tables])
            rows_out = sum([len(rows) for rows in changes.values()]) - rows_in
            self.meter.epoch(epoch, committed_us, rows_in, rows_out, frozenset(fold(t) for t in tables))
        self._push(epoch, changes)

    def _writer(self) -> Durable:
        if not isinstance(self._store, Durable):
            raise read_only_error()
        return self._store

    def _settle(self, epoch: int, mode: str | None) -> None:
        """Wait until an epoch is on storage, where that was asked for. Without the lock: others go on."""
        if epoch and isinstance(self._store, Durable) and (mode or self._store.settings.commit) == "durable":
            self._store.wait(epoch)
        for sink in list(self._sinks) if epoch else ():
            sink.deliver()

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
        change_feed: str = AUTO,
    ) -> TickSummary:
        """Apply deltas to one table, or to several at once ({table: delta}), as one epoch.

        A delta is a pyarrow table or record batch, a pandas or polars frame, or a list of dicts. The
        column `_weight` says how often each row comes (positive) or goes (negative); without it each comes
        once. mode="upsert" replaces the rows that have the same primary key.

        A flow on storage returns when the epoch is there (commit="durable"), or at once ("visible": it is
        there within the commit interval). `offset` says how far the source has been read: a tick whose
        offset has been applied changes nothing, also after a crash; so does one whose `idempotency_key`
        was used before.

        A change feed is turned into weights: `change_feed` is "delta", "iceberg" or "debezium"; "auto" knows
        one in Arrow by its columns.
        """
        began = time.perf_counter()
        if mode not in (None, "insert", "upsert"):
            raise InvalidDelta(f'unknown mode "{mode}"', hint='Use "insert" or "upsert".')
        # Whether it is a text is asked first: whether it is a Mapping takes ten times as long.
        if isinstance(source, str) or not isinstance(source, Mapping):
            deltas: Mapping[str, Any] = {source: delta}
            if delta is None:
                raise InvalidDelta(f'tick("{source}") has no delta', hint="Give the rows: tick(table, rows).")
        else:
            deltas = source
        if change_feed != AUTO and mode == "upsert":
            raise InvalidDelta("a change feed says itself which rows go", hint='Leave mode="upsert" out.')
        if commit is not None:
            commit = commit_mode(commit)
        self.meter.statements["tick"] += 1
        try:
            with self.meter.accepting(fold_all(tuple(deltas))) as arrived_us, self._lock:
                self._check_open()
                if self._session.transaction is not None:
                    raise TransactionError("a tick is an epoch of its own", hint="COMMIT or ROLLBACK first.")
                if isinstance(self._store, Follower):
                    raise read_only_error()
                summary = self._tick(deltas, mode, offset, idempotency_key, change_feed, began, arrived_us)
        except PenstockError as error:
            self.meter.error(error)
            raise
        self._settle(summary.epoch, commit)
        return summary

    def _tick(
        self,
        deltas: Mapping[str, Any],
        mode: str | None,
        offset: Any,
        key: str | None,
        feed: str,
        began: float,
        arrived_us: int,
    ) -> TickSummary:
        core = self._core
        applied = Applied(self._once, offset, key) if offset is not None or key is not None else None
        if applied is not None:
            applied.check(deltas)
            if applied.epoch is not None:
                return TickSummary(applied.epoch, 0, _ms_since(began), {}, tuple(deltas))
        transaction = Transaction(core)
        note: dict[str, Any] = {}
        repeated: list[str] = []
        dropped: list[Table] = []
        frames: dict[str, Frame] = {}
        rows_in = 0
        for name, data in deltas.items():
            table = core.table(name)
            if applied is not None and applied.has(table):
                repeated.append(table.name)
                continue
            if core.executor is not None and self._engines.takes_frames and is_data_frame(data):
                frames[table.name] = self._frame(table, data, mode, feed)
                continue
            if mode != "upsert" and not (feed == AUTO and table.matching.knows(data)):
                data = from_change_feed(data, feed, table.schema.names)
            defaults = self._defaults(table) if table.has_volatile_defaults else table.defaults
            rows = to_zset(data, table.matching, defaults)
            count = len(rows)
            if not count:
                continue
            if table.dedup and self._once.repeats(table.id, self._given(table, data, rows), note):
                repeated.append(table.name)
                dropped.append(table)
                continue
            rows_in += count
            if mode == "upsert":
                rows = upsert(table, rows, transaction.pending(table))
            transaction.apply(table, rows)
        if applied is not None:
            applied.note(note)
        if frames:
            changed, read = self._commit_frames(transaction, list(frames.values()), arrived_us, note)
            rows_in += read
        else:
            changed = self._commit(transaction, arrived_us, note) if transaction.changes or note else {}
        for table in dropped:
            self._once.count(table.id)
        summary = TickSummary(core.epoch, rows_in, _ms_since(began), changed, tuple(repeated))
        summary.took(self._engines.take_figures())
        return summary

    def _frame(self, table: Table, data: Any, mode: str | None, feed: str) -> Frame:
        if table.dedup:
            raise InvalidDelta(
                f'table "{table.name}" compares each delta with the one before, and a DataFrame is never whole '
                "in one place",
                hint="Give offset= or idempotency_key= instead, or collect it: tick(table, df.toArrow()).",
            )
        rows = read_change_feed(data, feed, table.schema.names)
        source = FrameSource.of(table, self._defaults(table), mode == "upsert", rows.schema.names)
        return Frame(source, rows, table.piece()[1])

    def _commit_frames(
        self, transaction: Transaction, frames: Sequence[Frame], arrived_us: int, note: dict[str, Any]
    ) -> tuple[dict[str, Rows], int]:
        """Commit with DataFrames among the changes: those of the views, and the rows that were read."""
        given = {name: change for name, change in transaction.changes.items() if len(change[0])}
        epoch = self._core.propose_frames(given, frames)
        changes: dict[str, TableChange] = dict(given)
        for frame in frames:
            found = epoch.deltas.get(frame.source.node)
            if isinstance(found, Scattered):
                changes[frame.source.name] = (found, None)
        if not changes and not note:
            return {}, 0
        return self._commit_epoch(changes, lambda: epoch, arrived_us, note), epoch.rows_read

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
            with self._defining(), audited(self._core, self._session.actor, self._session.number):
                run.add_table(self._core, name, columns, places, required, options)

    def register_view(
        self,
        name: str,
        query: str,
        *,
        replace: bool = False,
        retain_history: float | str | timedelta | None = None,
        freshness: float | str | timedelta | None = None,
    ) -> None:
        """A materialized view: the same as CREATE [OR REPLACE] MATERIALIZED VIEW."""
        prefix = "CREATE OR REPLACE" if replace else "CREATE"
        given = {"retain_history": retain_history, "freshness": freshness}
        words = [f"{k} = {seconds(v, k)!r}" for k, v in given.items() if v is not None]
        options = f" WITH ({', '.join(words)})" if words else ""
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

    def snapshot(self, name: str, as_of: int | datetime | str | None = None, *, as_: str = "arrow") -> Any:
        """The rows of a table or view, one row for each multiplicity: now, or as of an epoch or a time.

        A pyarrow.Table, or with as_="spark" a DataFrame that tasks read from the flow's files; hold on to that
        DataFrame while you use what you made of it, for its files stay as long as it does."""
        in_spark = _in_spark(as_)
        with self._lock:
            self._check_open()
            relation = self._core.catalog.get(name)
            if in_spark and as_of is None and not isinstance(relation, View):
                return self._frames_out().snapshot(relation)
        if in_spark:
            return self._engines.session().createDataFrame(self.snapshot(name, as_of))
        with self._lock:
            self._check_open()
            if as_of is not None:
                past = self._past()
                epoch = past.epoch(as_of)
                if isinstance(relation, View):
                    return past.query(f"SELECT * FROM {quote(relation.name)}", epoch)
                return arrow_table(past.rows(relation, epoch), relation.schema)
            if isinstance(relation, View):
                return self._session.view().query(f"SELECT * FROM {quote(relation.name)}")
            return arrow_table(self._session.view().rows(relation), relation.schema)

    def changes(self, name: str, from_epoch: int, to_epoch: int | None = None, *, as_: str = "arrow") -> Any:
        """What changed in a table or view after `from_epoch` up to and including `to_epoch` (or now): an iterator
        over `Change`s, or with as_="spark" a DataFrame with the columns `_epoch` and `_weight`."""
        in_spark = _in_spark(as_)
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
            if in_spark:
                return self._frames_out().changes(relation, past.records(relation, from_epoch, last))
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
            return self._watch(relation)

    def _watch(self, relation: Table | MaterializedView) -> Watch:
        watch = Watch(relation.name, relation.schema, self._forget, relation.id, self._core.epoch)
        self._watches.setdefault(fold(relation.name), []).append(watch)
        return watch

    def subscribe(
        self, view: str, *, snapshot: bool = True, as_of: int | datetime | str | None = None
    ) -> Subscription:
        """A view (or table) as it is now, or as of an epoch or a time, and then every change of it: each epoch
        once, none left out. Without the snapshot only the changes after that epoch."""
        with self._lock:
            self._check_open()
            return subscribe(self, view, snapshot, as_of)

    @property
    def settled_epoch(self) -> int:
        """The last epoch that nothing can take back any more: it is on storage, or there is no storage."""
        store = self._store
        return store.journal.durable if isinstance(store, Durable) else self._core.epoch

    @property
    def has_stopped(self) -> bool:
        """Whether the flow answers nothing any more. What keeps a reader from following may pass."""
        failed = isinstance(self._store, Durable) and self._store.journal.failure is not None
        return self._closed or self._core.failure is not None or failed

    @property
    def id(self) -> str:
        """What tells this flow from others: the same for its writer and its readers, and after a restart."""
        return self._id

    def _forget(self, watch: Watch) -> None:
        with self._lock:
            watches = self._watches.get(fold(watch.view), [])
            if watch in watches:
                watches.remove(watch)
            if not watches:
                self._watches.pop(fold(watch.view), None)

    def _close_watches(self, names: Sequence[str], why: str) -> None:
        for name in names:
            for watch in list(self._watches.get(fold(name), ())):
                watch.close(why.format(name=watch.view))
            for sink in [s for s in self._sinks if fold(s.view) == fold(name)]:
                sink.end(why.format(name=sink.view))
        self.bell.ring(self._core.epoch)

    def explain(self, name: str, *, estimate: bool = False) -> str:
        """The text of EXPLAIN INCREMENTAL: operators, laws, keys, state; or what a change of one row of each table
        costs the view, which is found out by trying, with nothing changed."""
        with self._lock:
            self._check_open()
            relation = self._core.catalog.get(name)
            if not isinstance(relation, MaterializedView):
                raise WrongObjectType(f'"{relation.name}" is a {relation.kind}, not a materialized view')
            if not estimate:
                return explain_in(self._core, relation)
            if isinstance(self._store, Follower):
                raise ReadOnly(
                    "a reader has no operators to try a change on",
                    hint="Ask the writer, or run `penstock explain --storage URL --estimate`.",
                )
            return "\n".join(estimate_lines(self._core, relation))

    def _explain_query(self, sql: str) -> str:
        """What a view with this query would be: it is made, explained and dropped again."""
        name = "penstock explained query"
        view = self._core.create_materialized(name, sql, None, {})
        try:
            return explain_in(self._core, view).replace(f"materialized view {name}", "query")
        finally:
            self._core.drop(view, cascade=False)

    @property
    def is_on_storage(self) -> bool:
        return self._store is not None

    @property
    def is_paused(self) -> bool:
        return self._paused_us is not None

    def stopped_by(self) -> str | None:
        """Why the flow does nothing more, if it does not."""
        if self._core.failure is not None:
            return self._core.failure
        failure = self._store.journal.failure if isinstance(self._store, Durable) else None
        return None if failure is None else failure.message

    def freshness(self) -> list[Freshness]:
        """How fresh each materialized view is, and why it is not fresher. It waits for nobody."""
        return freshness(self._core.catalog, self.meter, self._blocked_us())

    def _blocked_us(self) -> int | None:
        """Since when nothing can become visible or durable any more, if that is so."""
        store = self._store
        stopped = self._core.failure is not None
        if isinstance(store, Durable):
            waiting_us = store.journal.writing_us
            if waiting_us is not None:
                late_us = self.meter.clock_us() - waiting_us
                return waiting_us if late_us > STORAGE_ASK_AFTER_SECONDS * 1_000_000 else None
            stopped = stopped or store.journal.failure is not None
        if isinstance(store, Follower) and store.failure is not None:
            return store.failed_us
        if not stopped:
            return None
        stops = [e.time_us for e in self._core.audit.entries() if e.event in ("stopped", "fenced")]
        return stops[-1] if stops else self.meter.clock_us()

    def _system_rows(self, relation: SystemRelation) -> pa.Table:
        """A relation of schema penstock as it is now."""
        return relation.table(self)

    # -- the end ---------------------------------------------------------------------------

    def close(self) -> None:
        """End the flow: streams and watches end, memory is freed. Closing twice is fine."""
        for streams in self._streams:
            streams.stop()
        self._streams.clear()
        with self._lock:
            if self._closed:
                return
            self._close_watches(list(self._watches), "the flow is closed")
            self._session.rollback()
            self._closed = True
            store = self._store
        self.bell.ring(self._core.epoch)
        try:  # a reader's thread needs the lock to end
            if isinstance(store, Follower):
                store.close()
            elif store is not None:
                with self._lock:
                    store.close()
        finally:
            self._engines.close()
            self._core.close()
            if self._database is not None:
                self._database.close()

    def __enter__(self) -> Flow:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def check_not_closed(self) -> None:
        if self._closed:
            raise FlowClosed("the flow is closed", hint="Make a new Flow().")

    def _check_open(self) -> None:
        if self._closed:
            self.check_not_closed()
        self._core.check()
        if self._store is None:
            return
        if isinstance(self._store, Follower):
            self._store.check()
        else:
            # What is in memory may be ahead of storage for ever: a flow that has stopped answers nothing.
            self._store.journal.check()


def _close_at_exit(flow: weakref.ref[Flow]) -> None:
    found = flow()
    if found is not None:
        found.close()


def _in_spark(as_: str) -> bool:
    if as_ not in ("arrow", "spark"):
        raise InvalidOption(f"unknown form {as_!r}", hint='Use as_="arrow" or as_="spark".')
    return as_ == "spark"


def commit_mode(mode: str) -> str:
    if mode not in ("durable", "visible"):
        raise InvalidOption(f'unknown commit mode "{mode}"', hint='Use "durable" or "visible".')
    return mode


def _ms_since(began: float) -> float:
    return (time.perf_counter() - began) * 1000
