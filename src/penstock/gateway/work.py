"""What one client has going on: its session, the state of its transaction, its statements and portals."""

from __future__ import annotations

from collections.abc import Collection

from penstock.base.errors import SqlSyntaxError, TransactionError, TransactionFailed
from penstock.engine.access import SUPERUSER
from penstock.engine.session import Answer, Session
from penstock.gateway import commands as c
from penstock.gateway.catalog.query import CatalogDoor, CatalogQuery
from penstock.gateway.channels import Channels, Letter, Mailbox, Outbox
from penstock.gateway.command import Command
from penstock.gateway.copy_command import Copy
from penstock.gateway.errors import NotSupported, UndefinedCursor, UndefinedStatement
from penstock.gateway.notify_command import pg_notify_call, run_pg_notify
from penstock.gateway.own import command_columns, run_command
from penstock.gateway.portals import Portal, Prepared
from penstock.gateway.reports import notice_report
from penstock.gateway.result import Result
from penstock.gateway.rewrite import without_catalog, without_public
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
        self.failed = False  # a statement of the open transaction has failed
        self.implicit = False  # the transaction is that of one Query message with several statements
        self.offset = 0  # where the statement that runs begins in the text that the client sent

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
            self.implicit, self.failed = True, False

    def end_implicit(self) -> None:
        if self.implicit:
            self.implicit = False
            self.session.execute("COMMIT")
            self.outbox.send()

    def send(self, letter: Letter) -> None:
        """LISTEN, UNLISTEN and NOTIFY take effect with the commit."""
        self.outbox.add(letter)
        if self.session.transaction is None:
            self.outbox.send()

    def commit_notice(self) -> bytes:
        """The token of a commit that the client has not been told of, if it wants to be."""
        if self.session.last_commit == self._told:
            return b""
        self._told = self.session.last_commit
        if not self.settings.tells("log"):
            return b""
        return notice_report(f"freshness token {self.session.token}", "LOG", "00000")

    def fail(self) -> None:
        """A statement has failed: so has its transaction."""
        if self.implicit:
            self.session.rollback()
            self.implicit = False
        self.failed = self.session.transaction is not None
        if not self.failed:
            self.outbox.forget()
            self.forget_portals()

    def check_not_failed(self, statement: st.Statement | None) -> None:
        """In a failed transaction only its end is accepted."""
        if self.session.transaction is None:
            self.failed = False
        if self.failed and not isinstance(statement, _ENDS):
            raise TransactionFailed(
                "current transaction is aborted, commands ignored until end of transaction block",
                hint="ROLLBACK.",
            )

    def _transact(self, s: st.Statement, portal: Portal) -> None:
        session = self.session
        is_open = session.transaction is not None and not self.implicit
        if isinstance(s, st.Begin):
            if is_open:
                portal.notices.append("there is already a transaction in progress")
            elif self.implicit and session.transaction is not None and session.transaction.changes:
                if s.modes:
                    raise TransactionError("a transaction's modes stand before its first change")
                self.implicit = False  # what came before it in the same text belongs to it
            else:
                self.implicit = False
                session.rollback()
                session.execute(portal.prepared.sql)
            portal.tag = "BEGIN"
            return
        if isinstance(s, (st.Commit, st.Rollback)):
            portal.tag = "COMMIT" if isinstance(s, st.Commit) and not self.failed else "ROLLBACK"
            failed, self.failed, self.implicit = self.failed, False, False
            if not is_open:
                portal.notices.append("there is no transaction in progress")
            if session.transaction is None:
                return
            if failed:
                session.rollback()
            else:
                session.execute(portal.prepared.sql)
            if portal.tag == "COMMIT":
                self.outbox.send()
            else:
                self.outbox.forget()
            return
        if not is_open:
            raise TransactionError(
                f"{portal.prepared.sql.split()[0].upper()} can only be used in transaction blocks"
            )
        portal.tag = session.execute(portal.prepared.sql)[-1].tag
        if isinstance(s, st.Savepoint):
            self.outbox.mark(s.name)
        if isinstance(s, st.RollbackTo):
            self.failed = False
            self.outbox.go_back(s.name)

    # -- statements ------------------------------------------------------------------------

    def prepare(self, sql: str, oids: tuple[int, ...]) -> Prepared:
        call = pg_notify_call(sql)
        if call is not None:
            return Prepared(call, None, parse(call)[0], oids, notifies=True)
        query = self.catalog.read(sql, self.functions) if self.catalog is not None else None
        if query is not None:
            return Prepared(sql, query, None, oids)
        sql = without_public(without_catalog(sql, self.functions))
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
        if self.session.transaction is None:
            self.portals = {name: p for name, p in self.portals.items() if p.hold}

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
        self.portals.clear()
        self.sweep()
        self.outbox.close()
        self.session.close()

    def work_out(self, prepared: Prepared, columns: bool) -> None:
        """The types of the parameters and, if asked for, the columns."""
        if isinstance(prepared.command, CatalogQuery):
            if prepared.parameters is None:
                assert self.catalog is not None
                prepared.parameters, prepared.columns = self.catalog.describe(prepared.command, prepared.oids)
            return
        statement = prepared.statement
        count = 0 if statement is None else statement.parameter_count
        given = {i: parameter_type(oid) for i, oid in enumerate(prepared.oids[:count], start=1)}
        known = {i: t for i, t in given.items() if t is not None}
        needs = columns or any(i not in known for i in range(1, count + 1))
        if prepared.parameters is not None and (not columns or prepared.described):
            return
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
        if columns:
            if prepared.command is not None:
                prepared.columns = command_columns(self, prepared.command)
            prepared.described = True

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

    def _run_statement(self, portal: Portal) -> None:
        prepared = portal.prepared
        defines = self.implicit and isinstance(prepared.statement, _DEFINITIONS)
        if defines:  # what came before it in the text is committed first: definitions stand alone
            self.session.execute("COMMIT")
        if portal.values:
            answer = self.session.execute(prepared.sql, portal.values)[-1]
        else:
            assert prepared.statement is not None
            answer = self.session.run_parsed([prepared.statement])[-1]
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
            announced = portal.prepared.columns if portal.prepared.described else None
            types = None if announced is None else [t for _, t in announced]
            portal.result = Result.of(answer.table, portal.formats, types)
        portal.tag = answer.tag
        if answer.warning:
            portal.notices.append(answer.warning)
