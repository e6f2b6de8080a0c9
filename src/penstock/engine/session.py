"""A session: one client's statements, with a transaction of its own.

What a transaction sees, and when it is refused:

- A statement outside BEGIN ... COMMIT is an epoch of its own.
- Inside, every statement sees the newest committed epoch and the transaction's own changes, in tables and views
  alike. One statement always sees one epoch.
- Nobody else sees its changes before COMMIT, which makes them one epoch.
- What INSERT, UPDATE and DELETE read (the rows under the keys that a WHERE names, or else whole tables and views)
  must not have changed by others before COMMIT, and their changes must still fit: no key that exists now, no row
  that is gone. Else the transaction is refused with SerializationFailure (40001), at its next statement or at
  COMMIT; run again it may well succeed. So no update is ever lost.
- With ISOLATION LEVEL REPEATABLE READ or SERIALIZABLE this goes for what SELECT read as well (whole tables and
  views): such transactions are serialisable, as if each had happened at its COMMIT. READ COMMITTED is the default.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from penstock.base.errors import (
    InsufficientPrivilege,
    InvalidOption,
    PenstockError,
    QueryCanceled,
    SqlSyntaxError,
    TransactionError,
    UnboundParameter,
    UndefinedSavepoint,
    WrongObjectType,
)
from penstock.base.limits import INTERRUPT_AGAIN_SECONDS, STREAMS_MAX
from penstock.duck.connect import DuckError, translate
from penstock.engine import statements as run
from penstock.engine.access import Access
from penstock.engine.at_once import AtOnce, Found, found_rows
from penstock.engine.copy_in import copy_in, targets
from penstock.engine.describe import Description, describe
from penstock.engine.error_places import is_plausible, positions_in, positions_unknown
from penstock.engine.past_relations import past_relations
from penstock.engine.read import RowsOf
from penstock.engine.readers import Readers
from penstock.engine.rights import Rights, require
from penstock.engine.session_reader import SessionReader
from penstock.engine.stream import Stream
from penstock.engine.subscription import Subscription, subscribe
from penstock.engine.system.shown import may_mention
from penstock.engine.token import Token
from penstock.engine.transaction import Mark, Transaction
from penstock.sql import statements as st
from penstock.sql.access_statements import ACCESS_STATEMENTS
from penstock.sql.binding import Parameters, bind
from penstock.sql.parse import parse
from penstock.sql.tokens import fold
from penstock.zset.types import SqlType

if TYPE_CHECKING:
    from penstock.engine.flow import Flow

ISOLATION_LEVELS = ("read uncommitted", "read committed", "repeatable read", "serializable")
_SERIALISABLE = ISOLATION_LEVELS[2:]
_DEFINITIONS = (
    st.CreateTable,
    st.CreateTableAs,
    st.CreateView,
    st.CreateMaterializedView,
    st.Drop,
    st.AlterMaterializedView,
    *ACCESS_STATEMENTS,
)
_CHANGES = (st.Insert, st.Update, st.Delete, st.Truncate, st.Commit, st.CreateTableAs)
USER_REQUEST = "canceling statement due to user request"
_TRANSACTION_STATEMENTS = (st.Begin, st.Commit, st.Rollback, st.Savepoint, st.Release, st.RollbackTo)


@dataclass(frozen=True)
class Answer:
    """What one statement gave: Postgres's tag for it, and the rows if it has any."""

    tag: str  # "INSERT 0 5", "CREATE TABLE"
    table: pa.Table  # the rows; else the count or the status
    has_rows: bool
    warning: str | None = None
    stream: Stream | None = None  # the rows, where they are not worked out yet: `table` has the columns then


class Session:
    """Statements of one client. Use it from one thread at a time; `cancel` may come from another.

    >>> from penstock import Flow
    >>> flow = Flow()
    >>> ann, bob = flow.session(), flow.session()
    >>> _ = ann.sql("CREATE TABLE t (id BIGINT PRIMARY KEY, v TEXT)")
    >>> _ = ann.sql("BEGIN; INSERT INTO t VALUES ($1, $2)", [1, "it's"])
    >>> bob.sql("SELECT * FROM t").num_rows, ann.sql("SELECT v FROM t").to_pylist()
    (0, [{'v': "it's"}])
    >>> _ = ann.sql("COMMIT")
    >>> bob.sql("SELECT * FROM t").num_rows
    1
    >>> flow.close()
    """

    def __init__(
        self,
        flow: Flow,
        new_reader: Callable[[], SessionReader] | None = None,
        define_at_once: bool = False,
        role: str | None = None,
        functions: Collection[str] = (),
    ) -> None:
        self._flow = flow
        self.role = role  # None: the program that has the flow open, which may do everything
        self._rights = Rights()
        # None: the flow's own, under its lock
        self._readers = None if new_reader is None else Readers(new_reader)
        self._at_once = AtOnce(functions, role)
        self._define_at_once = define_at_once
        self.number: int | None = None  # None: the flow's own
        self.application: str | None = None  # what the client calls itself
        self.began_us = flow.meter.clock_us()
        self.statements = 0
        self.running: str | None = None  # the kind of statement that runs, and since when
        self.running_since_us: int | None = None
        self._arrived_us = 0  # when the change came that is being made
        self.isolation = "read committed"  # of transactions that do not say
        self.transaction: Transaction | None = None
        self.last_commit = 0  # the epoch of its newest commit
        self._level = self.isolation  # of the transaction that is open
        self._savepoints: list[tuple[str, Mark]] = []
        self._cancel_lock = threading.Lock()
        self._cancelled: str | None = None  # why, if it is
        self._interrupt: Callable[[], None] | None = None  # of the connection that works for us just now
        self._interrupt_again = True  # whether it may be called twice
        self.on_cancel: Callable[[], None] = lambda: None  # wakes whoever waits for us

    @property
    def actor(self) -> str | None:
        """Who is answerable for what it does, in the audit log."""
        return self.role

    @property
    def state(self) -> str:
        """What the session is about, in Postgres's words."""
        if self.running is not None:
            return "active"
        return "idle" if self.transaction is None else "idle in transaction"

    # -- statements ------------------------------------------------------------------------

    def sql(self, sql: str, parameters: Parameters | None = None, commit: str | None = None) -> pa.Table:
        """Run one or several statements; the answer of the last one as a pyarrow.Table.

        Queries give their rows, INSERT/UPDATE/DELETE the count of rows (or what RETURNING asks for), the
        others a status. `parameters` are the values of $1, $2, ... or ? (a list) or of $name (a dict).
        `commit` says when changes are answered, as for `Flow.tick`; None: as the flow says.
        """
        return self.execute(sql, parameters, commit)[-1].table.replace_schema_metadata(None)

    def execute(
        self, sql: str, parameters: Parameters | None = None, commit: str | None = None
    ) -> list[Answer]:
        """The same, with the answers of all statements."""
        if not isinstance(sql, str):
            raise SqlSyntaxError(f"SQL is text, not {type(sql).__name__}")
        self.not_cancelled()
        return self._execute(sql, parameters, commit)

    def _execute(
        self, sql: str, parameters: Parameters | None = None, commit: str | None = None
    ) -> list[Answer]:
        if parameters is None:
            return self.run_parsed(parse(sql), commit)
        if sql.lstrip()[:6].upper() == "SELECT":
            statements = parse(sql)
            found = self.at_once(statements[0], parameters) if len(statements) == 1 else None
            if found is not None:
                return [_found_answer(statements[0], found)]
        bound = bind(sql, parameters)
        try:
            return self.run_parsed(parse(bound.text), commit)
        except PenstockError as error:
            if error.position is not None:
                error.position = bound.origin(error.position)
            if error.statement is not None:
                error.statement = bound.origin(error.statement)
            raise

    def run_parsed(self, statements: Sequence[st.Statement], commit: str | None = None) -> list[Answer]:
        """The same for statements that have been parsed already."""
        self._check_bound(statements)
        flow = self._flow
        answers: list[Answer] = []
        epoch = 0
        try:
            if self._readers is not None:
                for s in statements:
                    answer, made = self._one(s)
                    answers.append(answer)
                    epoch = made or epoch
            else:
                with flow._lock:  # several statements of the flow's own session are not parted
                    for s in statements:
                        answer, made = self._one(s)
                        answers.append(answer)
                        epoch = made or epoch
        finally:
            flow._settle(epoch, commit)
            self.last_commit = epoch or self.last_commit
        return answers

    def _check_bound(self, statements: Sequence[st.Statement]) -> None:
        for s in statements:
            if s.parameters:
                raise UnboundParameter(
                    f"the placeholder {s.parameters[0].text} has no value",
                    hint="Give the values: sql(text, [value, ...]).",
                    position=s.parameters[0].offset,
                )

    def _one(self, s: st.Statement) -> tuple[Answer, int]:
        """Run a statement: its answer, and the epoch that it made or 0."""
        with self._running(self._count(s)):
            try:
                if not isinstance(s, _CHANGES):
                    return self._carry_out(s)
                with self._flow.meter.accepting(self._changed_by(s)) as self._arrived_us:
                    return self._carry_out(s)
            except PenstockError as error:
                from_view = error.node is not None and isinstance(s, _CHANGES)  # a place in the view's text
                if from_view or not (s.as_of or is_plausible(error, s.text)):
                    error.position = None
                error.statement = s.text.offset
                raise

    def _count(self, s: st.Statement) -> str:
        """A statement has come: its kind."""
        kind = st.kind_of(s)
        self.statements += 1
        self._flow.meter.statement(kind)
        return kind

    @contextmanager
    def _running(self, kind: str) -> Iterator[None]:
        """The session is at work for such a statement. Errors are counted."""
        before = self.running, self.running_since_us
        self.running, self.running_since_us = kind, self._flow.meter.clock_us()
        try:
            yield
        except PenstockError as error:
            self._flow.meter.error(error)
            raise
        finally:
            self.running, self.running_since_us = before

    def _changed_by(self, s: st.Statement) -> frozenset[str] | None:
        """The tables that a statement changes, as far as its text says."""
        if isinstance(s, st.Commit):
            return frozenset(fold(t) for t in self.transaction.changes) if self.transaction else frozenset()
        if self.transaction is not None:
            return frozenset()  # nobody waits for it before COMMIT
        if isinstance(s, (st.Insert, st.Update, st.Delete)):
            return frozenset((fold(s.table),))
        return frozenset(fold(t) for t in s.tables) if isinstance(s, st.Truncate) else None

    def _carry_out(self, s: st.Statement) -> tuple[Answer, int]:
        flow = self._flow
        if isinstance(s, st.Query) and not s.as_of and self._readers is not None:
            stream = self._open_system(s)
            if stream is not None:
                return _answer(s, stream.whole()), 0
        found = self._find(s)
        if found is not None:
            return _found_answer(s, found), 0
        if isinstance(s, st.Query) and not s.as_of and self._readers is not None:
            return _answer(s, self._open(s).whole()), 0
        with flow._lock:
            self._begin_statement(s, ends=isinstance(s, (st.Commit, st.Rollback, st.RollbackTo)))
            before = flow._core.epoch
            # Between two steps of a definition nothing must be stopped that was not asked to just now.
            with self._working(flow._core.reader.interrupt, again=not isinstance(s, _DEFINITIONS)):
                if s.as_of:
                    with past_relations(flow._core, s.as_of, flow._past):
                        answer = _answer(s, self._run(s))
                elif self._defines_alone(s):
                    answer = self._define_alone(s)
                else:
                    answer = _answer(s, self._run(s))
            epoch = flow._core.epoch
            return answer, epoch if epoch > before else 0

    def at_once(self, s: st.Statement, values: Parameters = (), wait: bool = True) -> Found | pa.Table | None:
        """The rows that answer to a query, if they can be given without DuckDB; else None. With `wait` False also
        where the flow is at work."""
        found = self._find(s, values, wait)
        if found is not None:
            self.statements += 1
            self._flow.meter.statement("query")
        return found

    def _find(self, s: st.Statement, values: Parameters = (), wait: bool = True) -> Found | pa.Table | None:
        if not isinstance(s, st.Query) or s.as_of or len(values) != s.parameter_count:
            return None
        flow, text = self._flow, s.text.text
        if not isinstance(values, (list, tuple)) or not flow._lock.acquire(blocking=wait):
            return None
        try:
            self._begin_statement(None)
            known = self._at_once.constant(text)
            transaction = self.transaction
            if known is not None or (transaction is not None and (transaction.changes or self._serialisable)):
                return known
            read = self._at_once.look(flow._core, text)
            return None if read is None else found_rows(read, values, flow._index_rows_max())
        finally:
            flow._lock.release()

    def start(self, sql: str, s: st.Statement, values: Sequence[Any] = ()) -> Answer:
        """Run one statement, `s` of `sql`. The rows of a query may come as a stream. Whoever calls has said when it
        began, with `not_cancelled`: a cancel request that has come since then holds."""
        if not isinstance(s, st.Query) or s.as_of or self._readers is None:
            return (self._execute(sql, values) if values else self.run_parsed([s]))[-1]
        found = None if may_mention(s.text.text) else self.at_once(s, values)
        if found is not None:
            return _found_answer(s, found)
        with self._running(self._count(s)):
            if not values:
                self._check_bound([s])
                return self._started(s)
            bound = bind(sql, values)
            try:
                (whole,) = parse(bound.text)
                assert isinstance(whole, st.Query)
                return self._started(whole)
            except PenstockError as error:
                if error.position is not None:
                    error.position = bound.origin(error.position)
                raise

    def _started(self, s: st.Query) -> Answer:
        assert self._readers is not None
        whole = self._readers.taken >= STREAMS_MAX
        stream = self._open_system(s) or self._open(s)
        if stream.ended or whole:
            return _answer(s, stream.whole())
        return Answer("SELECT", stream.empty, True, None, stream)

    def _open(self, s: st.Query) -> Stream:
        """Begin a query over the rows of this moment."""
        assert self._readers is not None
        flow, text = self._flow, s.text.text
        reader = self._readers.take()
        try:
            with flow._lock:
                self._begin_statement(s)
                reader.prepare(flow._core, text, self._rows_of())
        except BaseException:
            self._readers.give_back(reader)
            raise
        stream = Stream(reader, s, self._streaming, self._readers.give_back)
        if stream.ended and stream.small is not None:
            self._at_once.keep(text, stream.small)
        return stream

    def _open_system(self, s: st.Query) -> Stream | None:
        """Begin a query over nothing but how the flow is: one that is busy, or has stopped, can still be asked."""
        assert self._readers is not None
        flow, text = self._flow, s.text.text
        if not may_mention(text) or not self.is_superuser:
            return None
        flow.check_not_closed()
        reader = self._readers.take()
        try:
            system = reader.at_any_time(text)
            if system is not None:
                reader.show_system(system, flow._system_rows)
        except BaseException:
            self._readers.give_back(reader)
            raise
        if system is None:
            self._readers.give_back(reader)
            return None
        return Stream(reader, s, self._streaming, self._readers.give_back)

    @contextmanager
    def _streaming(self, interrupt: Callable[[], None]) -> Iterator[None]:
        """Around each portion of a query's rows, also those that a client takes later."""
        with self._running("query"), self._working(interrupt):
            yield

    def _begin_statement(self, s: st.Statement | None, ends: bool = False) -> None:
        """Before anything is read or done for a statement: may it be run at all? None: whoever calls has asked, or only
        wants to know what it would give."""
        self._flow._check_open()
        if s is not None:
            self._rights.check(self._flow._core, self.role, s)
        if self.transaction is not None and not ends:
            self.transaction.refresh(self._flow._core)

    def _run(self, s: st.Statement) -> pa.Table:
        flow, core = self._flow, self._flow._core
        if isinstance(s, (st.Insert, st.Update, st.Delete, st.Truncate)):
            return self.change(lambda t: run.change(t, s))
        if isinstance(s, st.Query):
            with positions_in(s.text):
                return core.reader.query(s.text.text, self._rows_of())
        if isinstance(s, _TRANSACTION_STATEMENTS):
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
                text = flow.explain(s.name, estimate=s.estimate)
            else:
                assert s.query is not None
                with flow._defining():
                    text = flow._explain_query(s.query.text)
            return pa.table({"explain": text.splitlines()})
        if isinstance(s, st.AlterSystem):
            return flow._alter_system(s, self)
        if isinstance(s, st.Subscribe):
            raise WrongObjectType(
                "SUBSCRIBE has no answer that is complete: it goes on until somebody ends it",
                hint=f"In Python, iterate over flow.subscribe({s.name!r}) or flow.watch({s.name!r}).",
            )
        self.check_may_define()
        with flow._defining():
            return flow._define(s, self)

    def _rows_of(self) -> RowsOf:
        """The rows that a query sees."""
        transaction = self.transaction
        if transaction is None:
            return lambda _: None
        return transaction.read if self._serialisable else transaction.look

    def view(self) -> Transaction:
        """How the flow looks to this session."""
        return self.transaction if self.transaction is not None else Transaction(self._flow._core)

    def change(self, work: Callable[[Transaction], pa.Table]) -> pa.Table:
        """Run what changes rows: in the open transaction, or as an epoch of its own."""
        if self.transaction is not None:
            return work(self.transaction)
        transaction = Transaction(self._flow._core)
        answer = work(transaction)
        self._flow._commit(transaction, self._arrived_us)
        return answer

    def subscribe(self, s: st.Subscribe) -> Subscription:
        """SUBSCRIBE. Every way to it, and every look at a view's changes, goes through here."""
        flow = self._flow
        with flow._lock:
            self._begin_statement(s)
            if self.transaction is not None and self.transaction.changes:
                raise TransactionError(
                    "SUBSCRIBE shows what is committed, and this transaction has changes of its own",
                    hint="COMMIT first.",
                )
            try:
                found = subscribe(flow, s.name, s.snapshot, s.since)
            except PenstockError as error:
                error.position = s.name_offset if error.position is None else error.position
                raise
            found.guard = lambda: self._rights.check(flow._core, self.role, s)
            return found

    def may_read(self, name: str) -> bool:
        """Whether this session's role may know what a relation holds; True where there is none of that name."""
        catalog = self._flow._core.catalog
        relation = catalog.find(name)
        try:
            if relation is not None:
                require(catalog.access, self.role, "select", relation)
        except InsufficientPrivilege:
            return False
        return True

    @property
    def flow_id(self) -> str:
        return self._flow.id

    @property
    def token(self) -> Token:
        """Names its newest commit; before the first one, what it would read now."""
        return Token(self._flow.id, self.last_commit or self._flow.epoch)

    @property
    def visible_epoch(self) -> int:
        """The epoch that a read sees now."""
        return self._flow.epoch

    @property
    def is_cancelled(self) -> bool:
        return self._cancelled is not None

    def check_not_cancelled(self) -> None:
        """Raise if somebody has cancelled what this session does."""
        if self._cancelled is not None:
            raise QueryCanceled(self._cancelled)

    def columns_to_copy(self, name: str, columns: Sequence[str] | None) -> list[SqlType]:
        """The types of the columns that COPY FROM gives values for."""
        with self._flow._lock:
            self._begin_statement(None)
            self.check("insert", name)
            table = self._flow._core.table(name)
            return [table.schema.types[i] for i in targets(table, columns)]

    def copy_in(self, name: str, columns: Sequence[str] | None, texts: pa.Table) -> int:
        """Add rows of text (columns c0, c1, ...) to the open transaction; how many."""
        assert self.transaction is not None
        flow = self._flow
        with flow._lock:
            self._begin_statement(None)
            table = flow._core.table(name)
            with self._working(flow._core.reader.interrupt), positions_unknown():
                return copy_in(self.transaction, table, targets(table, columns), texts)

    def access(self) -> Access:
        """Roles, owners and grants, as they are now."""
        return self._flow.access()

    @property
    def is_superuser(self) -> bool:
        return self.role is None or self.access().is_superuser(self.role)

    def check(self, action: str, name: str) -> None:
        """Raise InsufficientPrivilege unless this session's role may do something ("select", "insert", ...) with
        a relation: for those who do it in another way than by a statement."""
        with self._flow._lock:
            catalog = self._flow._core.catalog
            relation = catalog.find(name)
            if relation is not None:
                require(catalog.access, self.role, action, relation)

    # -- definitions -----------------------------------------------------------------------

    def check_may_define(self) -> None:
        if self.transaction is not None:
            raise TransactionError(
                "tables and views cannot be created or dropped inside a transaction", hint="COMMIT first."
            )

    def _defines_alone(self, s: st.Statement) -> bool:
        transaction = self.transaction
        if transaction is None or not self._define_at_once or not isinstance(s, _DEFINITIONS):
            return False
        return not (transaction.changes or transaction.read_only or self._savepoints)

    def _define_alone(self, s: st.Statement) -> Answer:
        """In a session that defines at once: a definition in a transaction that has changed nothing yet.

        Many clients begin a transaction before every statement. The definition is committed by itself, and the
        transaction begins anew after it.
        """
        flow = self._flow
        self.transaction = None
        try:
            with flow._defining():
                table = flow._define(s, self)
        finally:
            self.transaction = Transaction(flow._core, several=True)
        return _answer(s, table, "definitions take effect at once: ROLLBACK does not undo this one")

    # -- transactions ----------------------------------------------------------------------

    def begin(self, read_only: bool = False, isolation: str | None = None) -> None:
        """BEGIN."""
        if self.transaction is not None:
            raise TransactionError("a transaction is open already", hint="COMMIT or ROLLBACK first.")
        self.transaction = Transaction(self._flow._core, read_only, several=True)
        self._level = isolation or self.isolation
        self._savepoints.clear()

    @property
    def _serialisable(self) -> bool:
        return self._level in _SERIALISABLE

    @property
    def isolation_now(self) -> str:
        """Of the transaction that is open, or of the next one."""
        return self.isolation if self.transaction is None else self._level

    def has_relation(self, name: str) -> bool:
        return self._flow._core.catalog.find(name) is not None

    def isolate(self, level: str) -> None:
        """SET TRANSACTION ISOLATION LEVEL: for what the open transaction reads from now on."""
        _check_isolation(level)
        self._level = level

    def rollback(self) -> None:
        """Forget the open transaction, if there is one."""
        self.transaction = None
        self._savepoints.clear()

    def _transact(self, s: st.Statement) -> pa.Table:
        if isinstance(s, st.Begin):
            self.begin(s.read_only, s.isolation)
            return run.status("BEGIN")
        transaction = self.transaction
        if transaction is None:
            raise TransactionError("there is no transaction to end", hint="BEGIN one first.")
        if isinstance(s, (st.Savepoint, st.Release, st.RollbackTo)):
            return self._savepoint(s, transaction)
        self.rollback()
        if isinstance(s, st.Rollback):
            return run.status("ROLLBACK")
        transaction.refresh(self._flow._core)
        self._flow._commit(transaction, self._arrived_us)
        return run.status("COMMIT")

    def _savepoint(self, s: st.Savepoint | st.Release | st.RollbackTo, transaction: Transaction) -> pa.Table:
        if isinstance(s, st.Savepoint):
            self._savepoints.append((s.name, transaction.mark()))
            return run.status("SAVEPOINT")
        places = [i for i, (name, _) in enumerate(self._savepoints) if name == s.name]
        if not places:
            raise UndefinedSavepoint(f'savepoint "{s.name}" does not exist')
        if isinstance(s, st.Release):
            del self._savepoints[places[-1] :]
            return run.status("RELEASE")
        transaction.go_back(self._savepoints[places[-1]][1])
        del self._savepoints[places[-1] + 1 :]
        return run.status("ROLLBACK")

    def set_isolation(self, level: str) -> None:
        """For transactions that begin from now on and do not say."""
        _check_isolation(level)
        self.isolation = level

    # -- before running ----------------------------------------------------------------------

    def describe(self, sql: str, types: Mapping[int, str]) -> Description:
        """The parameters of one statement, of which the types of some are given, and its columns."""
        with self._flow._lock:
            self._begin_statement(None, ends=True)
            return describe(self._flow._core, sql, types, self._columns, self._flow._past)

    def catalog_state(self) -> tuple[object, int]:
        """Differs from before if a description may differ."""
        core = self._flow._core
        return core, core.catalog.changes

    def _columns(self, sql: str) -> list[tuple[str, str]]:
        """Names and types of a query's columns, as this session's connection gives them."""
        core = self._flow._core
        if self._readers is None:
            return core.reader.columns(sql)
        reader = self._readers.take()
        try:
            reader.prepare(core, sql, lambda _: None)
            return reader.columns(sql)
        finally:
            self._readers.give_back(reader)

    # -- cancelling ------------------------------------------------------------------------

    @contextmanager
    def _working(self, interrupt: Callable[[], None], again: bool = True) -> Iterator[None]:
        """What is done in the context can be stopped by `interrupt`; `again`: if it does not stop, more than once."""
        with self._cancel_lock:
            if self._cancelled is not None:
                raise QueryCanceled(self._cancelled)
            self._interrupt, self._interrupt_again = interrupt, again
        try:
            yield
        except QueryCanceled:
            if self._cancelled is not None:
                raise QueryCanceled(self._cancelled) from None
            raise
        except DuckError as error:  # it was stopped in the middle of what we do around a query
            if self._cancelled is not None and isinstance(translate(error, ""), QueryCanceled):
                raise QueryCanceled(self._cancelled) from None
            raise
        finally:
            with self._cancel_lock:
                self._interrupt = None

    @contextmanager
    def working(self, interrupt: Callable[[], None]) -> Iterator[None]:
        """Around what somebody else does for a statement of this session: `interrupt` stops it."""
        with self._working(interrupt):
            yield

    def not_cancelled(self) -> None:
        """A new piece of work begins: what was cancelled was the one before it."""
        with self._cancel_lock:
            self._cancelled = None

    def cancel(self, why: str = USER_REQUEST) -> None:
        """Stop the statement that runs, from another thread: it raises QueryCanceled if DuckDB works for it or
        it waits for others; applying an epoch is never stopped half-way."""
        with self._cancel_lock:
            self._cancelled = why
        self._stop()
        self.on_cancel()

    def _stop(self, after_s: float = INTERRUPT_AGAIN_SECONDS) -> None:
        """Interrupt what works for a statement that is cancelled, again and again: DuckDB forgets an interrupt that
        comes just before a query begins."""
        with self._cancel_lock:
            if self._cancelled is None or self._interrupt is None:
                return
            self._interrupt()
            if not self._interrupt_again:
                return
        timer = threading.Timer(after_s, self._stop, [after_s * 2])
        timer.daemon = True
        timer.start()

    def count(self, error: PenstockError) -> None:
        """A client was told of this error, wherever it came from."""
        self._flow.meter.error(error)

    def close(self) -> None:
        """End the session: an open transaction is forgotten."""
        self.rollback()
        self._flow._ended(self)
        if self._readers is not None:
            self._readers.close()

    def __enter__(self) -> Session:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _check_isolation(level: str) -> None:
    if level not in ISOLATION_LEVELS:
        raise InvalidOption(
            f'there is no isolation level "{level}"', hint=f"They are {', '.join(ISOLATION_LEVELS)}."
        )


def _found_answer(s: st.Statement, found: Found | pa.Table) -> Answer:
    return _answer(s, found.table if isinstance(found, Found) else found)


def _answer(s: st.Statement, table: pa.Table, warning: str | None = None) -> Answer:
    """An answer with Postgres's tag."""
    returning: Any = getattr(s, "returning", None)
    if isinstance(s, (st.Insert, st.Update, st.Delete)):
        count = table.num_rows if returning is not None else table.column(0)[0].as_py()
        verb = {st.Insert: "INSERT 0", st.Update: "UPDATE", st.Delete: "DELETE"}[type(s)]
        return Answer(f"{verb} {count}", table, returning is not None, warning)
    if isinstance(s, st.Truncate):
        return Answer("TRUNCATE TABLE", table, False, warning)
    if isinstance(s, st.Query):
        return Answer(f"SELECT {table.num_rows}", table, True, warning)
    if isinstance(s, (st.Show, st.Describe)):
        return Answer("SHOW", table, True, warning)
    if isinstance(s, (st.Explain, st.ExplainIncremental)):
        return Answer("EXPLAIN", table, True, warning)
    return Answer(str(table.column(0)[0].as_py()), table, False, warning)
