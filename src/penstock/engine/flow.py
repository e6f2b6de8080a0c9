"""Flow: tables and views that are kept fresh. The Python API."""

from __future__ import annotations

import atexit
import itertools
import os
import threading
import uuid
import weakref
from collections.abc import Callable, Mapping
from datetime import timedelta

import pyarrow as pa

from penstock.base.errors import FlowClosed, InvalidOption
from penstock.base.limits import (
    CACHE_BYTES_MAX,
    INDEX_MEMORY_SHARE_MAX,
    INDEX_ROW_BYTES,
    INDEX_ROWS_MAX,
)
from penstock.base.quantities import seconds, size_bytes
from penstock.commit.history import now_us
from penstock.commit.once import Once
from penstock.duck.connect import DuckConnection, connect
from penstock.engine.access import Access
from penstock.engine.bell import Bell
from penstock.engine.catalog import Table
from penstock.engine.core import Core
from penstock.engine.durable import Durable
from penstock.engine.engines import Engines
from penstock.engine.flow_commits import commit_mode
from penstock.engine.flow_definitions import DefinitionSide
from penstock.engine.flow_parts import read_only_error
from penstock.engine.flow_reading import ReadingSide
from penstock.engine.flow_spark import SparkSide
from penstock.engine.flow_ticks import TickSide
from penstock.engine.flow_upkeep import UpkeepSide
from penstock.engine.follow import Follower
from penstock.engine.meter import Meter
from penstock.engine.opening import Settings, flow_id
from penstock.engine.session import Session
from penstock.engine.session_reader import SessionReader
from penstock.engine.subscription import catch_up
from penstock.engine.system import SystemRelation
from penstock.run.spark.session import Spark
from penstock.sql.binding import Parameters
from penstock.sql.tokens import fold
from penstock.store.location import Location
from penstock.zset.zset import ZSet


class Flow(DefinitionSide, TickSide, ReadingSide, SparkSide, UpkeepSide):
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
        self._paused_us = None
        self._session = Session(self)
        self._database: DuckConnection | None = None  # in which sessions read; made with the first of them
        self._watches = {}
        self._sinks = []
        self._streams = []
        self.bell = Bell()
        self._id = uuid.uuid4().hex[:12]  # replaced by what storage knows
        self._closed = False
        self._once = Once()  # replaced by what storage knows
        self._pending = None
        self._store = None
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

    def _system_rows(self, relation: SystemRelation) -> pa.Table:
        """A relation of schema penstock as it is now."""
        return relation.table(self)

    def _index_rows_max(self) -> int:
        """The largest piece of state that gets an index for point reads."""
        limit = self._store.settings.memory_limit if isinstance(self._store, Durable) else None
        return INDEX_ROWS_MAX if limit is None else int(limit * INDEX_MEMORY_SHARE_MAX) // INDEX_ROW_BYTES

    # -- storage ---------------------------------------------------------------------------

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
