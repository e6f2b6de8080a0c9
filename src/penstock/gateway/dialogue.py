"""One client's dialogue: messages in, bytes out. It knows neither sockets nor threads.

`handle` gives the bytes in portions; whoever sends them takes the next one when the client has room for it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field

import pyarrow as pa

from penstock.base.errors import (
    PenstockError,
    QueryCanceled,
    SqlSyntaxError,
    TransactionError,
    TransactionFailed,
)
from penstock.base.limits import COPY_ROWS_MAX, ENCODE_ROWS_MAX, PREPARED_MAX
from penstock.engine.session import Answer, Session
from penstock.gateway import backend as b
from penstock.gateway import commands as c
from penstock.gateway import messages as m
from penstock.gateway.copying import LineReader, Row, header, lines
from penstock.gateway.decode import bytea, decoded
from penstock.gateway.encode import encoded_columns
from penstock.gateway.errors import (
    DuplicateCursor,
    DuplicateStatement,
    NotSupported,
    ProtocolError,
    UndefinedCursor,
    UndefinedStatement,
)
from penstock.gateway.protocol import Connection
from penstock.gateway.reports import error_report, notice_report
from penstock.gateway.result import Result, fields, spread
from penstock.gateway.rewrite import without_catalog
from penstock.gateway.settings import ClientSettings
from penstock.gateway.types import TEXT, ColumnType, column_type, parameter_type
from penstock.sql import statements as st
from penstock.sql.binding import Typed, blob_text
from penstock.sql.parse import parse, split
from penstock.zset.types import SqlType

_ENDS = (st.Commit, st.Rollback, st.RollbackTo)
_DEFINITIONS = (st.CreateTable, st.CreateTableAs, st.CreateView, st.CreateMaterializedView, st.Drop)
Values = list[Typed | str | None]


@dataclass
class Prepared:
    """A prepared statement; `columns` is what was announced for it, () before that."""

    sql: str
    command: c.Command | None
    statement: st.Statement | None  # None: a command, or nothing at all
    oids: tuple[int, ...]
    parameters: tuple[ColumnType | None, ...] | None = None  # None: not worked out yet
    ducks: tuple[str | None, ...] = ()
    columns: list[tuple[str, ColumnType]] | None = None
    described: bool = False


@dataclass
class Portal:
    """A statement with its values, and its rows once it has run. Cursors are portals."""

    prepared: Prepared
    values: Values
    formats: tuple[int, ...]
    result: Result | None = None
    tag: str = ""
    done: bool = False
    hold: bool = False
    notices: list[str] = field(default_factory=list)
    reports: list[bytes] = field(default_factory=list)  # settings that have changed


@dataclass
class CopyIn:
    """A COPY FROM STDIN that is going on."""

    command: c.Copy
    types: list[SqlType]
    reader: LineReader
    alone: bool  # it is a transaction of its own
    extended: bool
    rows: list[Row] = field(default_factory=list)
    count: int = 0


class Dialogue:
    """From the first statement to the last."""

    def __init__(
        self,
        connection: Connection,
        session: Session,
        settings: ClientSettings,
        functions: Collection[str] = (),
    ) -> None:
        """`functions` are the session's own, which may be called as pg_catalog's."""
        self.connection = connection
        self.session = session
        self.settings = settings
        self._functions = functions
        self._statements: dict[str, Prepared] = {}
        self._portals: dict[str, Portal] = {}
        self._failed = False  # a statement of the open transaction has failed
        self._implicit = False  # the transaction is that of one Query message with several statements
        self._copy: CopyIn | None = None
        self._offset = 0  # where the statement that runs begins in the text that the client sent

    @property
    def status(self) -> str:
        if self.session.transaction is None or self._implicit:
            return "I"
        return "E" if self._failed else "T"

    def ready(self) -> bytes:
        return b.ready_for_query(self.status)

    def handle(self, message: m.Message) -> Iterator[bytes]:
        """What to send in answer to a message."""
        try:
            yield from self._handle(message)
        except ProtocolError:
            raise
        except PenstockError as error:
            yield from self._fail(error)

    def _handle(self, message: m.Message) -> Iterator[bytes]:
        if isinstance(message, m.Query):
            yield from self._query(message.sql)
        elif isinstance(message, m.Parse):
            yield self._parse(message)
        elif isinstance(message, m.Bind):
            yield self._bind(message)
        elif isinstance(message, m.Describe):
            yield from self._describe(message)
        elif isinstance(message, m.Execute):
            yield from self._execute_portal(message)
        elif isinstance(message, m.Close):
            (self._statements if message.kind == "S" else self._portals).pop(message.name, None)
            yield b.CLOSE_COMPLETE
        elif isinstance(message, m.Sync):
            self._forget_portals()
            yield self.ready()
        elif isinstance(message, m.CopyData):
            self._copy_data(message.data)
        elif isinstance(message, m.CopyDone):
            yield from self._copy_done()
        elif isinstance(message, m.CopyFail):
            raise QueryCanceled(f"COPY was ended by the client: {message.reason}")
        elif isinstance(message, m.FunctionCall):
            raise NotSupported("function calls of the protocol", hint="Use SELECT.")

    def _fail(self, error: PenstockError) -> Iterator[bytes]:
        if self._copy is not None:
            if self._copy.alone:
                self.session.rollback()
            self._copy = None
        if self._implicit:
            self.session.rollback()
            self._implicit = False
        self._failed = self.session.transaction is not None
        if not self._failed:
            self._forget_portals()
        yield error_report(error, self._offset)
        self._offset = 0
        if self.connection.failed():
            yield self.ready()

    def _forget_portals(self) -> None:
        """Portals end with their transaction; cursors that hold their rows do not."""
        if self.session.transaction is None:
            self._portals = {name: p for name, p in self._portals.items() if p.hold}

    # -- simple queries --------------------------------------------------------------------

    def _query(self, sql: str) -> Iterator[bytes]:
        pieces = split(sql)
        self._portals.pop("", None)
        if not pieces:
            yield b.EMPTY_QUERY
        for place, piece in enumerate(pieces):
            self._offset = piece.offset
            if len(pieces) > 1 and self.session.transaction is None:
                self.session.begin()
                self._implicit, self._failed = True, False
            portal = Portal(self._prepare(piece.text, ()), [], ())
            if portal.prepared.command is None and portal.prepared.statement is None:
                continue
            if isinstance(portal.prepared.command, c.Copy) and portal.prepared.command.from_client:
                if place + 1 < len(pieces):
                    raise NotSupported("COPY FROM STDIN before other statements in one text")
                self._end_implicit()
                yield self._copy_begin(portal.prepared.command, extended=False)
                return
            self._run(portal)
            if portal.result is not None and not isinstance(portal.prepared.command, c.Copy):
                yield b.row_description(fields(portal.result.columns, ()))
            yield from self._send(portal, None)
        self._end_implicit()
        self._offset = 0
        self._forget_portals()
        yield self.ready()

    def _end_implicit(self) -> None:
        if self._implicit:
            self._implicit = False
            self.session.execute("COMMIT")

    # -- running ---------------------------------------------------------------------------

    def _prepare(self, sql: str, oids: tuple[int, ...]) -> Prepared:
        sql = without_catalog(sql, self._functions)
        command = c.read_command(sql)
        if command is not None:
            return Prepared(sql, command, None, oids)
        statements = parse(sql) if split(sql) else []
        if len(statements) > 1:
            raise SqlSyntaxError("cannot insert multiple commands into a prepared statement")
        return Prepared(sql, None, statements[0] if statements else None, oids)

    def _run(self, portal: Portal) -> None:
        """Run a portal's statement, unless it has run: its rows are fetched afterwards."""
        if portal.tag:
            return
        prepared = portal.prepared
        statement = prepared.statement
        if self._failed and self.session.transaction is None:
            self._failed = False
        if self._failed and not isinstance(statement, _ENDS):
            raise _aborted()
        if prepared.command is not None:
            self._run_command(prepared.command, portal)
        elif isinstance(statement, (st.Begin, *_ENDS, st.Savepoint, st.Release)):
            self._transact(statement, portal)
        else:
            self._run_statement(portal)

    def _run_statement(self, portal: Portal) -> None:
        prepared = portal.prepared
        defines = self._implicit and isinstance(prepared.statement, _DEFINITIONS)
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

    def _keep(self, portal: Portal, answer: Answer) -> None:
        if answer.has_rows:
            announced = portal.prepared.columns if portal.prepared.described else None
            types = None if announced is None else [t for _, t in announced]
            portal.result = Result.of(answer.table, portal.formats, types)
        portal.tag = answer.tag
        if answer.warning:
            portal.notices.append(answer.warning)

    def _transact(self, s: st.Statement, portal: Portal) -> None:
        session = self.session
        is_open = session.transaction is not None and not self._implicit
        if isinstance(s, st.Begin):
            if is_open:
                portal.notices.append("there is already a transaction in progress")
            elif self._implicit and session.transaction is not None and session.transaction.changes:
                if s.modes:
                    raise TransactionError("a transaction's modes stand before its first change")
                self._implicit = False  # what came before it in the same text belongs to it
            else:
                self._implicit = False
                session.rollback()
                session.execute(portal.prepared.sql)
            portal.tag = "BEGIN"
            return
        if isinstance(s, (st.Commit, st.Rollback)):
            portal.tag = "COMMIT" if isinstance(s, st.Commit) and not self._failed else "ROLLBACK"
            failed, self._failed, self._implicit = self._failed, False, False
            if not is_open:
                portal.notices.append("there is no transaction in progress")
            if session.transaction is None:
                return
            if failed:
                session.rollback()
            else:
                session.execute(portal.prepared.sql)
            return
        if not is_open:
            raise TransactionError(
                f"{portal.prepared.sql.split()[0].upper()} can only be used in transaction blocks"
            )
        portal.tag = session.execute(portal.prepared.sql)[-1].tag
        if isinstance(s, st.RollbackTo):
            self._failed = False

    def _send(self, portal: Portal, rows_max: int | None) -> Iterator[bytes]:
        """The rows that are left, or some of them, and how the statement ended."""
        for text in portal.notices:
            yield notice_report(text)
        portal.notices.clear()
        yield from portal.reports
        portal.reports.clear()
        result = portal.result
        if isinstance(portal.prepared.command, c.Copy):
            yield from self._copy_out(portal, portal.prepared.command)
        elif result is not None:
            # A tag counts what this call gave, so that the counts of several add up.
            before = result.at
            yield from result.fetch(rows_max)
            if result.left:
                yield b.PORTAL_SUSPENDED
                return
            if portal.tag.startswith(("SELECT ", "FETCH ")):
                portal.tag = f"{portal.tag.split()[0]} {result.at - before}"
        portal.done = True
        if portal.tag == "":
            yield b.EMPTY_QUERY
        else:
            yield b.command_complete(portal.tag)

    # -- extended queries ------------------------------------------------------------------

    def _parse(self, message: m.Parse) -> bytes:
        if message.name and message.name in self._statements:
            raise DuplicateStatement(f'prepared statement "{message.name}" already exists')
        if len(self._statements) >= PREPARED_MAX:
            raise NotSupported(f"more than {PREPARED_MAX} prepared statements", hint="DEALLOCATE some.")
        self._statements.pop(message.name, None)
        self._statements[message.name] = self._prepare(message.sql, message.oids)
        return b.PARSE_COMPLETE

    def _statement(self, name: str) -> Prepared:
        if name not in self._statements:
            raise UndefinedStatement(f'prepared statement "{name}" does not exist')
        return self._statements[name]

    def _portal(self, name: str) -> Portal:
        if name not in self._portals:
            raise UndefinedCursor(f'portal "{name}" does not exist')
        return self._portals[name]

    def _work_out(self, prepared: Prepared, columns: bool) -> None:
        """The types of the parameters and, if asked for, the columns."""
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
            if found.columns is not None:
                prepared.columns = [(name, column_type(t)) for name, t in found.columns]
        told = [None if t is None else column_type(t) for t in ducks]
        prepared.parameters = tuple(known.get(i, t) for i, t in enumerate(told, start=1))
        prepared.ducks = ducks
        if columns:
            if prepared.command is not None:
                prepared.columns = self._command_columns(prepared.command)
            prepared.described = True

    def _bind(self, message: m.Bind) -> bytes:
        prepared = self._statement(message.statement)
        if message.portal and message.portal in self._portals:
            raise DuplicateCursor(f'cursor "{message.portal}" already exists')
        if len(self._portals) >= PREPARED_MAX:
            raise NotSupported(f"more than {PREPARED_MAX} portals", hint="Close some.")
        if (
            self._failed
            and self.session.transaction is not None
            and not isinstance(prepared.statement, _ENDS)
        ):
            raise _aborted()
        self._work_out(prepared, columns=False)
        types = prepared.parameters or ()
        if len(message.values) != len(types):
            raise ProtocolError(
                f"bind message supplies {len(message.values)} parameters, but prepared statement "
                f'"{message.statement}" requires {len(types)}'
            )
        formats = spread(message.formats, len(types))
        values: Values = [
            decoded(*item) for item in zip(message.values, formats, types, prepared.ducks, strict=True)
        ]
        self._portals[message.portal] = Portal(prepared, values, message.result_formats)
        return b.BIND_COMPLETE

    def _describe(self, message: m.Describe) -> Iterator[bytes]:
        if message.kind == "S":
            prepared = self._statement(message.name)
            self._work_out(prepared, columns=True)
            yield b.parameter_description([(t or ColumnType(TEXT)).oid for t in prepared.parameters or ()])
            formats: Sequence[int] = ()
        else:
            portal = self._portal(message.name)
            prepared, formats = portal.prepared, portal.formats
            if isinstance(prepared.statement, st.Query):
                self._run(
                    portal
                )  # it changes nothing, so it may as well run now: describing it costs as much
            if portal.result is not None:
                yield b.row_description(fields(portal.result.columns, formats))
                return
            self._work_out(prepared, columns=True)
        if prepared.columns is None:
            yield b.NO_DATA
        else:
            yield b.row_description(fields(prepared.columns, formats))

    def _execute_portal(self, message: m.Execute) -> Iterator[bytes]:
        portal = self._portal(message.portal)
        prepared = portal.prepared
        if prepared.command is None and prepared.statement is None:
            yield b.EMPTY_QUERY
            return
        if isinstance(prepared.command, c.Copy) and prepared.command.from_client:
            yield self._copy_begin(prepared.command, extended=True)
            return
        if portal.done and portal.result is None:
            raise UndefinedCursor(f'portal "{message.portal}" cannot be run anymore')
        self._run(portal)
        yield from self._send(portal, message.rows_max or None)

    # -- the server's own statements ---------------------------------------------------------

    def _command_columns(self, command: c.Command) -> list[tuple[str, ColumnType]] | None:
        if isinstance(command, c.ShowSetting):
            names = ["name", "setting"] if command.name is None else [command.name]
            return [(name, ColumnType(TEXT)) for name in names]
        if isinstance(command, c.Fetch) and not command.moves:
            found = self._portal(command.name).result
            assert found is not None
            return found.columns
        return None

    def _run_command(self, command: c.Command, portal: Portal) -> None:
        if isinstance(command, c.SetSetting):
            self._report(self.settings.set(command.name, command.value), portal)
            portal.tag = command.tag
        elif isinstance(command, c.SetTransaction):
            if self.session.transaction is None or self._implicit:
                portal.notices.append("SET TRANSACTION can only be used in transaction blocks")
            else:
                self.session.isolate(command.isolation)
            portal.tag = "SET"
        elif isinstance(command, c.ShowSetting):
            self._show(command, portal)
        elif isinstance(command, c.ResetAll):
            self._reset_all(portal)
            portal.tag = "RESET"
        elif isinstance(command, c.Discard):
            self._discard(command, portal)
        elif isinstance(command, c.Deallocate):
            self._deallocate(command, portal)
        elif isinstance(command, c.Declare):
            self._declare(command)
            portal.tag = "DECLARE CURSOR"
        elif isinstance(command, c.Fetch):
            self._fetch(command, portal)
        elif isinstance(command, c.CloseCursor):
            if command.name is None:
                self._portals.clear()
            elif self._portals.pop(command.name, None) is None:
                raise UndefinedCursor(f'cursor "{command.name}" does not exist')
            portal.tag = "CLOSE CURSOR" + (" ALL" if command.name is None else "")
        elif isinstance(command, c.Unlisten):
            portal.tag = "UNLISTEN"
        elif isinstance(command, c.Copy):
            assert command.query is not None
            self._offset += command.query_offset if command.table is None else 0
            answer = self.session.execute(command.query)[-1]
            portal.result = Result.of(answer.table, ())
            portal.tag = f"COPY {answer.table.num_rows}"

    def _report(self, report: tuple[str, str] | None, portal: Portal) -> None:
        if report is not None:
            portal.reports.append(b.parameter_status(*report))

    def _show(self, command: c.ShowSetting, portal: Portal) -> None:
        if command.name is None:
            names, values = zip(*self.settings.all(), strict=True)
            table = pa.table({"name": pa.array(names, pa.string()), "setting": pa.array(values, pa.string())})
        else:
            table = pa.table({command.name: pa.array([self.settings.show(command.name)], pa.string())})
        portal.result = Result.of(table, portal.formats)
        portal.tag = "SHOW"

    def _reset_all(self, portal: Portal) -> None:
        for report in self.settings.reset_all():
            self._report(report, portal)

    def _discard(self, command: c.Discard, portal: Portal) -> None:
        if command.what == "ALL":
            if self.session.transaction is not None and not self._implicit:
                raise TransactionError("DISCARD ALL cannot run inside a transaction block")
            self._statements.clear()
            self._portals.clear()
            self._reset_all(portal)
        elif command.what == "PLANS":
            for prepared in self._statements.values():
                prepared.described = False
        portal.tag = f"DISCARD {command.what}"

    def _deallocate(self, command: c.Deallocate, portal: Portal) -> None:
        if command.name is None:
            self._statements.clear()
        elif self._statements.pop(command.name, None) is None:
            raise UndefinedStatement(f'prepared statement "{command.name}" does not exist')
        portal.tag = "DEALLOCATE" + (" ALL" if command.name is None else "")

    def _declare(self, command: c.Declare) -> None:
        if command.name in self._portals:
            raise DuplicateCursor(f'cursor "{command.name}" already exists')
        if not command.hold and (self.session.transaction is None or self._implicit):
            raise TransactionError(
                "DECLARE CURSOR can only be used in transaction blocks", hint="BEGIN, or add WITH HOLD."
            )
        self._offset += command.query.offset
        formats = (1,) if command.binary else ()
        cursor = Portal(self._prepare(command.query.text, ()), [], formats, hold=command.hold)
        self._run(cursor)
        self._portals[command.name] = cursor

    def _fetch(self, command: c.Fetch, portal: Portal) -> None:
        cursor = self._portals.get(command.name)
        if cursor is None or cursor.result is None:
            raise UndefinedCursor(f'cursor "{command.name}" does not exist')
        source = cursor.result
        start = source.at
        count = source.skip(command.count)
        if command.moves:
            portal.tag = f"MOVE {count}"
            return
        formats = source.formats if cursor.formats else spread(portal.formats, len(source.types))
        portal.result = Result(source.table.slice(start, count), source.types, formats)
        portal.tag = f"FETCH {count}"

    # -- COPY ------------------------------------------------------------------------------

    def _copy_begin(self, command: c.Copy, extended: bool) -> bytes:
        if self._failed and self.session.transaction is not None:
            raise _aborted()
        assert command.table is not None
        types = self.session.columns_to_copy(command.table, command.columns)
        for type in types:
            if type.children:
                raise NotSupported(f"COPY FROM into a column of the type {type}", hint="INSERT such rows.")
        alone = self.session.transaction is None
        if alone:
            self.session.begin()
        self._copy = CopyIn(command, types, LineReader(command.options, len(types)), alone, extended)
        self.connection.copying_in()
        return b.copy_response(b"G", len(types))

    def _copy_data(self, data: bytes) -> None:
        copy = self._copy
        assert copy is not None
        for row in copy.reader.feed(data):
            copy.rows.append(row)
            if len(copy.rows) >= COPY_ROWS_MAX:
                self._copy_rows(copy)

    def _copy_rows(self, copy: CopyIn) -> None:
        if not copy.rows:
            return
        assert copy.command.table is not None
        columns = []
        for type, values in zip(copy.types, zip(*copy.rows, strict=True), strict=True):
            if type.id == "BLOB":
                values = tuple(None if v is None else blob_text(bytea(v)) for v in values)
            columns.append(pa.array(values, pa.string()))
        texts = pa.table(columns, names=[f"c{i}" for i in range(len(columns))])
        copy.count += self.session.copy_in(copy.command.table, copy.command.columns, texts)
        copy.rows = []

    def _copy_done(self) -> Iterator[bytes]:
        copy = self._copy
        assert copy is not None
        copy.rows += copy.reader.finish()
        self._copy_rows(copy)
        if copy.alone:
            self.session.execute("COMMIT")
        self._copy = None
        self.connection.copied()
        yield b.command_complete(f"COPY {copy.count}")
        self._offset = 0
        if not copy.extended:
            yield self.ready()

    def _copy_out(self, portal: Portal, command: c.Copy) -> Iterator[bytes]:
        result = portal.result
        assert result is not None
        yield b.copy_response(b"H", len(result.types))
        if command.options.header:
            yield b.copy_data(header(result.table.column_names, command.options))
        while result.left:
            rows = result.table.slice(result.at, min(result.left, ENCODE_ROWS_MAX))
            result.skip(rows.num_rows)
            columns = encoded_columns(rows, result.types, result.formats)
            yield b"".join(b.copy_data(line) for line in lines(columns, rows.num_rows, command.options))
        yield b.COPY_DONE


def _aborted() -> TransactionFailed:
    return TransactionFailed(
        "current transaction is aborted, commands ignored until end of transaction block", hint="ROLLBACK."
    )
