"""A session: one client's statements, with a transaction of its own."""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from penstock.base.errors import (
    PenstockError,
    SqlSyntaxError,
    TransactionError,
    UnboundParameter,
    WrongObjectType,
)
from penstock.engine import statements as run
from penstock.engine.at_once import AtOnce
from penstock.engine.copy_in import copy_in, targets
from penstock.engine.error_places import is_plausible, positions_in, positions_unknown
from penstock.engine.past_relations import past_relations
from penstock.engine.readers import Readers
from penstock.engine.rights import Rights
from penstock.engine.session_answer import Answer, answer_of, found_answer
from penstock.engine.session_cancel import CancelSide
from penstock.engine.session_queries import QuerySide
from penstock.engine.session_reader import SessionReader
from penstock.engine.session_rights import RightsSide
from penstock.engine.session_transactions import TransactionSide
from penstock.engine.similar_names import suggesting
from penstock.engine.system.shown import may_mention
from penstock.engine.token import Token
from penstock.engine.transaction import Transaction
from penstock.sql import statements as st
from penstock.sql.access_statements import ACCESS_STATEMENTS
from penstock.sql.binding import Parameters, bind
from penstock.sql.parse import parse
from penstock.sql.tokens import fold
from penstock.zset.types import SqlType

if TYPE_CHECKING:
    from penstock.engine.flow import Flow

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
_TRANSACTION_STATEMENTS = (st.Begin, st.Commit, st.Rollback, st.Savepoint, st.Release, st.RollbackTo)


class Session(QuerySide, TransactionSide, RightsSide, CancelSide):
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
        self.role = role
        self._rights = Rights()
        self._readers = None if new_reader is None else Readers(new_reader)
        self._at_once = AtOnce(functions, role)
        self._define_at_once = define_at_once
        self.number: int | None = None  # None: the flow's own
        self.application: str | None = None  # what the client calls itself
        self.began_us = flow.meter.clock_us()
        self.statements = 0
        self.running: str | None = None  # the kind of statement that runs, and since when
        self.running_since_us: int | None = None
        self._arrived_us = 0
        self.isolation = "read committed"
        self.transaction = None
        self.aborted = False
        self.last_commit = 0  # the epoch of its newest commit
        self._level = self.isolation
        self._savepoints = []
        self._cancel_lock = threading.Lock()
        self._cancelled = None
        self._interrupt = None
        self._interrupt_again = True
        self.on_cancel = lambda: None

    @property
    def actor(self) -> str | None:
        """Who is answerable for what it does, in the audit log."""
        return self.role

    @property
    def state(self) -> str:
        """What the session is about, in Postgres's words."""
        if self.running is not None:
            return "active"
        if self.transaction is None:
            return "idle"
        return "idle in transaction (aborted)" if self.aborted else "idle in transaction"

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
        with self._aborting():
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
                return [found_answer(statements[0], found)]
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
            with suggesting(self._flow._core.catalog):
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
                return answer_of(s, stream.whole()), 0
        found = self._find(s)
        if found is not None:
            return found_answer(s, found), 0
        if isinstance(s, st.Query) and not s.as_of and self._readers is not None:
            return answer_of(s, self._open(s).whole()), 0
        with flow._lock:
            self._begin_statement(s, ends=isinstance(s, (st.Commit, st.Rollback, st.RollbackTo)))
            before = flow._core.epoch
            # Between two steps of a definition nothing must be stopped that was not asked to just now.
            with self._working(flow._core.reader.interrupt, again=not isinstance(s, _DEFINITIONS)):
                if s.as_of:
                    with past_relations(flow._core, s.as_of, flow._past):
                        answer = answer_of(s, self._run(s))
                elif self._defines_alone(s):
                    answer = self._define_alone(s)
                else:
                    answer = answer_of(s, self._run(s))
            epoch = flow._core.epoch
            return answer, epoch if epoch > before else 0

    def start(self, sql: str, s: st.Statement, values: Sequence[Any] = ()) -> Answer:
        """Run one statement, `s` of `sql`. The rows of a query may come as a stream. Whoever calls has said when it
        began, with `not_cancelled`: a cancel request that has come since then holds."""
        with self._aborting():
            return self._start(sql, s, values)

    def _start(self, sql: str, s: st.Statement, values: Sequence[Any]) -> Answer:
        if not isinstance(s, st.Query) or s.as_of or self._readers is None:
            return (self._execute(sql, values) if values else self.run_parsed([s]))[-1]
        found = None if may_mention(s.text.text) else self.at_once(s, values)
        if found is not None:
            return found_answer(s, found)
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

    def _begin_statement(self, s: st.Statement | None, ends: bool = False) -> None:
        """Before anything is read or done for a statement: may it be run at all? None: whoever calls has asked, or only
        wants to know what it would give."""
        self._flow._check_open()
        if not ends:
            self.check_not_aborted()
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

    # -- COPY FROM -------------------------------------------------------------------------

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

    # -- about the flow --------------------------------------------------------------------

    def has_relation(self, name: str) -> bool:
        return self._flow._core.catalog.find(name) is not None

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

    def count(self, error: PenstockError) -> None:
        """A client was told of this error, wherever it came from."""
        self._flow.meter.error(error)

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
        return answer_of(s, table, "definitions take effect at once: ROLLBACK does not undo this one")

    # -- the end ---------------------------------------------------------------------------

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
