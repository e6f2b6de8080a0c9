"""What one client has going on: its session, the state of its transaction, its statements and portals."""

from __future__ import annotations

from collections.abc import Collection

import pyarrow as pa

from penstock.base.errors import ActiveTransaction, PenstockError, SqlSyntaxError, TransactionError
from penstock.base.limits import ENCODE_ROWS_MAX
from penstock.engine.access import SUPERUSER
from penstock.engine.at_once import Found
from penstock.engine.session import Session
from penstock.engine.session_answer import Answer
from penstock.gateway import backend as b
from penstock.gateway import commands as c
from penstock.gateway.catalog.query import CatalogDoor, CatalogQuery
from penstock.gateway.channels import Channels, Letter, Mailbox, Outbox
from penstock.gateway.command import Command
from penstock.gateway.copy_command import Copy
from penstock.gateway.errors import (
    NoTransaction,
    NotSupported,
    UndefinedCursor,
    UndefinedStatement,
)
from penstock.gateway.found import AtOnceResult, shape_of
from penstock.gateway.notify_command import pg_notify_call, run_pg_notify
from penstock.gateway.own import command_columns, run_command
from penstock.gateway.portals import Portal, Prepared, Values
from penstock.gateway.prepare_command import Execute
from penstock.gateway.remember import Remembered
from penstock.gateway.reports import Notice, notice_report
from penstock.gateway.result import Result
from penstock.gateway.rewrite import with_plain_bytes, without_catalog, without_public
from penstock.gateway.settings import ClientSettings
from penstock.gateway.stream import open_stream
from penstock.gateway.types import TEXT, ColumnType, column_type, parameter_type
from penstock.sql import statements as st
from penstock.sql.access_statements import ACCESS_STATEMENTS, AlterRole, CreateRole
from penstock.sql.parse import parse, split

_ENDS = (st.Commit, st.Rollback, st.RollbackTo)
_DEFINITIONS = (
    st.CreateTable,
    st.CreateTableAs,
    st.CreateView,
    st.CreateMaterializedView,
    st.Drop,
    st.AlterMaterializedView,
    *ACCESS_STATEMENTS,
)


class Work:
    """Runs portals: the engine's statements, and with `own.py` the server's.

    `functions` are the session's own, which may be called as pg_catalog's; `catalog` answers what is asked of the
    others there.
    """

    def __init__(
        self,
        session: Session,
        settings: ClientSettings,
        functions: Collection[str] = (),
        catalog: CatalogDoor | None = None,
        outbox: Outbox | None = None,
    ) -> None:
        self.session = session
        self.settings = settings
        self.functions = functions
        self.catalog = catalog
        self.outbox = outbox or Outbox(Channels(), Mailbox())
        self.streams: list[Portal] = []  # those that have a subscription
        self._told = session.last_commit  # the commit of which the client knows the token
        self.statements: dict[str, Prepared] = {}
        self.portals: dict[str, Portal] = {}
        self.implicit = False  # the transaction is that of one Query message with several statements
        self._prepared: Remembered[tuple[str, tuple[int, ...]], Prepared] = Remembered()
        self._prepared_for: tuple[object, int] | None = None  # the state of the catalog
        self.reports: list[bytes] = []  # settings that have changed with the end of a transaction
        self.offset = 0  # where the statement that runs begins in the text that the client sent

    @property
    def failed(self) -> bool:
        """A statement of the open transaction has failed."""
        return self.session.aborted

    @property
    def status(self) -> str:
        """As ReadyForQuery says it."""
        if self.session.transaction is None or self.implicit:
            return "I"
        return "E" if self.failed else "T"

    # -- transactions ----------------------------------------------------------------------

    def begin_implicit(self) -> None:
        """Several statements in one text are one transaction."""
        if self.session.transaction is None:
            self.session.begin()
            self.implicit = True

    def end_implicit(self) -> None:
        if self.implicit:
            self.implicit = False
            self.session.execute("COMMIT")
            self._ended(committed=True)

    def _ended(self, committed: bool) -> None:
        """The transaction has ended: its letters are sent or forgotten, and what was set for it alone is as it was
        before."""
        if committed:
            self.outbox.send()
        else:
            self.outbox.forget()
        changed = self.settings.end_transaction(committed)
        self.reports += [b.parameter_status(name, value) for name, value in changed]

    def send(self, letter: Letter) -> None:
        """LISTEN, UNLISTEN and NOTIFY take effect with the commit."""
        self.outbox.add(letter)
        if self.session.transaction is None:
            self.outbox.send()

    @property
    def has_more_to_say(self) -> bool:
        """Whether there is something for the client before it is told that the server is ready."""
        return (
            bool(self.reports) or self.session.last_commit != self._told or not self.outbox.mailbox.is_empty
        )

    def commit_notice(self) -> bytes:
        """The token of a commit that the client has not been told of, if it wants to be."""
        if self.session.last_commit == self._told:
            return b""
        self._told = self.session.last_commit
        if not self.settings.tells("log"):
            return b""
        return notice_report(Notice(f"freshness token {self.session.token}", "00000", "LOG"))

    def fail(self) -> None:
        """A statement has failed: so has its transaction."""
        if self.implicit:
            self.session.rollback()
            self.implicit = False
        self.session.abort()
        if not self.failed:
            self._ended(committed=False)
            self.forget_portals()

    def check_not_failed(self, statement: st.Statement | None) -> None:
        """In a failed transaction only its end is accepted."""
        if not isinstance(statement, _ENDS):
            self.session.check_not_aborted()

    def _transact(self, s: st.Statement, portal: Portal) -> None:
        session = self.session
        is_open = session.transaction is not None and not self.implicit
        if isinstance(s, st.Begin):
            if is_open:
                portal.notices.append(
                    Notice("there is already a transaction in progress", ActiveTransaction.sqlstate)
                )
            elif self.implicit and session.transaction is not None and session.transaction.changes:
                if s.modes:
                    raise TransactionError("a transaction's modes stand before its first change")
                self.implicit = False  # what came before it in the same text belongs to it
            else:
                self.implicit = False
                session.rollback()
                session.execute(portal.prepared.sql)
            portal.tag = (
                "START TRANSACTION" if portal.prepared.sql.lstrip()[:5].upper() == "START" else "BEGIN"
            )
            return
        if isinstance(s, (st.Commit, st.Rollback)):
            self.implicit = False
            portal.tag = "COMMIT" if isinstance(s, st.Commit) else "ROLLBACK"
            if not is_open:
                portal.notices.append(Notice("there is no transaction in progress", NoTransaction.sqlstate))
            if session.transaction is None:
                return
            portal.tag = session.execute(portal.prepared.sql)[-1].tag
            self._ended(committed=portal.tag == "COMMIT")
            return
        if not is_open:
            raise NoTransaction(
                f"{portal.prepared.sql.split()[0].upper()} can only be used in transaction blocks"
            )
        portal.tag = session.execute(portal.prepared.sql)[-1].tag
        if isinstance(s, st.Savepoint):
            self.outbox.mark(s.name)
        if isinstance(s, st.RollbackTo):
            self.outbox.go_back(s.name)

    # -- statements ------------------------------------------------------------------------

    def prepare(self, sql: str, oids: tuple[int, ...]) -> Prepared:
        """The statement in a text. While the catalog is the same, so is what is known about it."""
        state = self.session.catalog_state()
        if state != self._prepared_for:
            self._prepared, self._prepared_for = Remembered(), state
        return self._prepared.get((sql, oids), self._read)

    def _read(self, text: tuple[str, tuple[int, ...]]) -> Prepared:
        sql, oids = text
        call = pg_notify_call(sql)
        if call is not None:
            return Prepared(call, None, parse(call)[0], oids, notifies=True)
        query = self.catalog.read(sql, self.functions) if self.catalog is not None else None
        if query is not None:
            return Prepared(sql, query, None, oids)
        sql = with_plain_bytes(without_public(without_catalog(sql, self.functions)))
        command = c.read_command(sql)
        if command is not None:
            self._check_copy(command)
            return Prepared(sql, command, None, oids)
        statements = parse(sql) if split(sql) else []
        if len(statements) > 1:
            raise SqlSyntaxError("cannot insert multiple commands into a prepared statement")
        return Prepared(sql, None, statements[0] if statements else None, oids)

    def _check_copy(self, command: Command) -> None:
        """COPY is the engine's, which does not know the catalog as clients do."""
        if not isinstance(command, Copy) or command.query is None or self.catalog is None:
            return
        if self.catalog.read(command.query, self.functions) is not None:
            raise NotSupported("COPY of a catalog query", hint="SELECT gives the same rows.")

    def statement(self, name: str) -> Prepared:
        if name not in self.statements:
            raise UndefinedStatement(f'prepared statement "{name}" does not exist')
        return self.statements[name]

    def portal(self, name: str) -> Portal:
        if name not in self.portals:
            raise UndefinedCursor(f'portal "{name}" does not exist')
        return self.portals[name]

    def forget_portals(self) -> None:
        """Portals end with their transaction; cursors that hold their rows do not."""
        if self.portals and self.session.transaction is None:
            for name in [name for name, portal in self.portals.items() if not portal.hold]:
                self.drop_portal(name)

    def drop_portal(self, name: str) -> bool:
        """Forget a portal with the rows that are left of it; whether there was one."""
        portal = self.portals.pop(name, None)
        if portal is not None and portal.result is not None:
            portal.result.close()
        return portal is not None

    def drop_portals(self) -> None:
        for name in list(self.portals):
            self.drop_portal(name)

    def sweep(self) -> None:
        """End the subscriptions of portals that are no more."""
        if not self.streams:
            return
        kept = {id(portal) for portal in self.portals.values()}
        for portal in self.streams:
            if id(portal) not in kept and portal.stream is not None:
                portal.stream.close()
        self.streams = [portal for portal in self.streams if id(portal) in kept]

    def close(self) -> None:
        """The client has gone."""
        self.drop_portals()
        self.sweep()
        self.outbox.close()
        self.session.close()

    def work_out(self, prepared: Prepared, columns: bool) -> None:
        """The types of the parameters and, if asked for, the columns."""
        if prepared.command is not None:
            self._work_out_command(prepared, prepared.command, columns)
            return
        if prepared.parameters is not None and (not columns or prepared.described):
            return
        statement = prepared.statement
        count = 0 if statement is None else statement.parameter_count
        given = {i: parameter_type(oid) for i, oid in enumerate(prepared.oids[:count], start=1)}
        known = {i: t for i, t in given.items() if t is not None}
        needs = columns or any(i not in known for i in range(1, count + 1))
        ducks: tuple[str | None, ...] = (None,) * count
        if statement is not None and needs:
            words = {i: t.pg.duck + "[]" * t.depth for i, t in known.items() if t.pg.duck != "DECIMAL"}
            words |= {i: "DECIMAL(38,9)" + "[]" * t.depth for i, t in known.items() if t.pg.duck == "DECIMAL"}
            found = self.session.describe(prepared.sql, words)
            ducks = tuple(None if i in known else t for i, t in enumerate(found.parameters, start=1))
            if prepared.notifies:
                prepared.columns = [("pg_notify", ColumnType(TEXT))]
            elif found.columns is not None:
                prepared.columns = [(name, column_type(t)) for name, t in found.columns]
        told = [None if t is None else column_type(t) for t in ducks]
        prepared.parameters = tuple(known.get(i, t) for i, t in enumerate(told, start=1))
        prepared.ducks = ducks
        prepared.described = prepared.described or columns

    def _work_out_command(self, prepared: Prepared, command: Command, columns: bool) -> None:
        if isinstance(command, CatalogQuery):
            if prepared.parameters is None:
                assert self.catalog is not None
                prepared.parameters, prepared.columns = self.catalog.describe(command, prepared.oids)
                prepared.described = True
            return
        if isinstance(command, c.Declare):
            self._work_out_cursor(prepared, command)
        else:
            prepared.parameters = ()
        if columns:
            prepared.columns = command_columns(self, command)
            # A cursor or statement of the same name may be another one the next time.
            prepared.described = not isinstance(command, (c.Fetch, Execute))

    def with_parameters(self, prepared: Prepared) -> Prepared:
        """The statement whose parameters it has: of DECLARE CURSOR, the cursor's own."""
        command = prepared.command
        return self.prepare(command.query.text, prepared.oids) if isinstance(command, c.Declare) else prepared

    def _work_out_cursor(self, prepared: Prepared, command: c.Declare) -> None:
        if prepared.parameters is not None:
            return
        own = self.with_parameters(prepared)
        try:
            self.work_out(own, columns=False)
        except PenstockError as error:
            if error.position is not None:
                error.position += command.query.offset
            raise
        prepared.parameters, prepared.ducks = own.parameters, own.ducks

    # -- running ---------------------------------------------------------------------------

    def run(self, portal: Portal) -> None:
        """Run a portal's statement, unless it has run: its rows are fetched afterwards."""
        if portal.tag:
            return
        prepared = portal.prepared
        statement = prepared.statement
        self.check_not_failed(statement)
        if prepared.command is not None:
            run_command(self, prepared.command, portal)
        elif isinstance(statement, (st.Begin, *_ENDS, st.Savepoint, st.Release)):
            self._transact(statement, portal)
        elif isinstance(statement, st.Subscribe):
            open_stream(self, portal, statement)
        else:
            self._run_statement(portal)

    def run_at_once(self, portal: Portal) -> bool:
        """Run a portal's statement if nobody has to be waited for, neither DuckDB nor the flow nor freshness; whether
        it has run and its rows are there."""
        if portal.stream is not None:
            return False  # its rows are waited for
        if not portal.tag:
            prepared = portal.prepared
            try:
                if isinstance(prepared.command, (c.SetSetting, c.ShowSetting)):
                    self.run(portal)
                else:
                    found = self.find_at_once(prepared, portal.values)
                    if found is None:
                        return False
                    portal.result = AtOnceResult(
                        shape_of(prepared, portal.formats, found, portal.described), found
                    )
                    portal.tag = "SELECT"
            except PenstockError:  # the usual way comes to the same, and tells the client
                return False
        return portal.result is None or portal.result.at_hand <= ENCODE_ROWS_MAX

    def find_at_once(self, prepared: Prepared, values: Values) -> Found | pa.Table | None:
        """The rows that a statement asks for, if it need not wait for them."""
        statement = prepared.statement
        if statement is None or prepared.notifies or self.failed or not self.settings.freshness.holds():
            return None
        return self.session.at_once(statement, values, wait=False)

    def types_known(self, prepared: Prepared) -> bool:
        """Whether the types of the parameters can be told without asking the engine."""
        if prepared.parameters is not None:
            return True
        if prepared.statement is None:
            return not isinstance(prepared.command, (CatalogQuery, c.Declare))
        count = prepared.statement.parameter_count
        return all(parameter_type(oid) for oid in prepared.oids[:count]) and len(prepared.oids) >= count

    def _run_statement(self, portal: Portal) -> None:
        prepared = portal.prepared
        defines = self.implicit and isinstance(prepared.statement, _DEFINITIONS)
        if defines:  # what came before it in the text is committed first: definitions stand alone
            self.session.execute("COMMIT")
            self.outbox.send()
        assert prepared.statement is not None
        if isinstance(prepared.statement, st.Drop) and prepared.statement.if_exists:
            for name in prepared.statement.names:
                if not self.session.has_relation(name):
                    text = f'{prepared.statement.kind} "{name}" does not exist, skipping'
                    portal.notices.append(Notice(text, "00000", "NOTICE"))
        answer = self.session.start(prepared.sql, prepared.statement, portal.values)
        if defines:
            self.session.begin()
        self._keep(portal, answer)
        self._warn_of_open_door(portal)

    def _warn_of_open_door(self, portal: Portal) -> None:
        """Somebody gets a password: it is of little use while everybody here can be the superuser without one."""
        statement = portal.prepared.statement
        if isinstance(statement, (CreateRole, AlterRole)) and statement.options.password is not None:
            owner = self.session.access().roles[SUPERUSER]
            if owner.login and owner.verifier is None:
                portal.notices.append(
                    f'the superuser "{SUPERUSER}" has no password: from this machine anybody can connect as it'
                )

    def _keep(self, portal: Portal, answer: Answer) -> None:
        if portal.prepared.notifies:
            run_pg_notify(self, answer.table, portal)
            return
        if answer.has_rows:
            portal.result = Result.of(answer.table, portal.formats, portal.announced, answer.stream)
        portal.tag = answer.tag
        if answer.warning:
            portal.notices.append(answer.warning)
