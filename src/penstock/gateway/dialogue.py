"""One client's dialogue: messages in, bytes out. It knows neither sockets nor threads.

`handle` gives the bytes in portions; whoever sends them takes the next one when the client has room for it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

from penstock.base.errors import PenstockError, QueryCanceled
from penstock.base.limits import ENCODE_ROWS_MAX, PREPARED_MAX
from penstock.engine.session import Session
from penstock.gateway import backend as b
from penstock.gateway import messages as m
from penstock.gateway.catalog.query import CatalogDoor, CatalogQuery, RawValues
from penstock.gateway.channels import Outbox
from penstock.gateway.copy_command import Copy, CopyOptions
from penstock.gateway.copy_in import CopyIn
from penstock.gateway.copying import header, lines
from penstock.gateway.decode import decoded
from penstock.gateway.encode import encoded_columns
from penstock.gateway.errors import (
    DuplicateCursor,
    DuplicateStatement,
    NotSupported,
    ProtocolError,
    UndefinedCursor,
    WrongNumber,
)
from penstock.gateway.portals import Portal, Prepared, Values
from penstock.gateway.protocol import Connection
from penstock.gateway.reports import error_report, notice_report
from penstock.gateway.result import Result, fields, spread
from penstock.gateway.settings import ClientSettings
from penstock.gateway.stream import Stream
from penstock.gateway.types import TEXT, ColumnType
from penstock.gateway.waiting import waits
from penstock.gateway.work import Work
from penstock.sql import statements as st
from penstock.sql.parse import split


class Dialogue:
    """From the first statement to the last."""

    def __init__(
        self,
        connection: Connection,
        session: Session,
        settings: ClientSettings,
        functions: Collection[str] = (),
        catalog: CatalogDoor | None = None,
        outbox: Outbox | None = None,
    ) -> None:
        self.connection = connection
        self._work = Work(session, settings, functions, catalog, outbox)
        self._copy: CopyIn | None = None

    def ready(self) -> bytes:
        """ReadyForQuery, after the token of a commit and what others have sent by NOTIFY."""
        status = self._work.status
        mail = self._work.outbox.mailbox.take() if status == "I" else b""
        return self._work.commit_notice() + mail + b.ready_for_query(status)

    def mail(self) -> bytes:
        """What can be sent to a client that does nothing just now: notifications, outside of a transaction."""
        if self._work.status != "I" or not self.connection.is_idle:
            return b""
        return self._work.outbox.mailbox.take()

    def close(self) -> None:
        """The client has gone: its subscriptions, its transaction and its session end."""
        self._work.close()

    def handle(self, message: m.Message) -> Iterator[bytes]:
        """What to send in answer to a message."""
        try:
            yield from self._handle(message)
        except ProtocolError:
            raise
        except PenstockError as error:
            yield from self._fail(error)
        self._work.sweep()

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
            yield from self._execute(message)
        elif isinstance(message, m.Close):
            (self._work.statements if message.kind == "S" else self._work.portals).pop(message.name, None)
            yield b.CLOSE_COMPLETE
        elif isinstance(message, m.Sync):
            self._work.forget_portals()
            yield self.ready()
        elif isinstance(message, m.CopyData):
            assert self._copy is not None
            self._copy.feed(message.data)
        elif isinstance(message, m.CopyDone):
            yield from self._copy_done()
        elif isinstance(message, m.CopyFail):
            raise QueryCanceled(f"COPY was ended by the client: {message.reason}")
        elif isinstance(message, m.FunctionCall):
            raise NotSupported("function calls of the protocol", hint="Use SELECT.")

    def _fail(self, error: PenstockError) -> Iterator[bytes]:
        if self._copy is not None:
            self._copy.give_up()
            self._copy = None
        self._work.fail()
        self._work.session.count(error)
        yield error_report(error, self._work.offset)
        self._work.offset = 0
        if self.connection.failed():
            yield self.ready()

    # -- simple queries --------------------------------------------------------------------

    def _query(self, sql: str) -> Iterator[bytes]:
        work = self._work
        pieces = split(sql)
        work.portals.pop("", None)
        if not pieces:
            yield b.EMPTY_QUERY
        for place, piece in enumerate(pieces):
            work.offset = piece.offset
            if len(pieces) > 1:
                work.begin_implicit()
            portal = Portal(work.prepare(piece.text, ()), [], ())
            command = portal.prepared.command
            if isinstance(command, Copy) and command.from_client:
                if place + 1 < len(pieces):
                    raise NotSupported("COPY FROM STDIN before other statements in one text")
                work.end_implicit()
                yield self._copy_begin(command, extended=False)
                return
            yield from waits(work, portal)
            work.run(portal)
            if portal.columns is not None and not isinstance(command, Copy):
                yield b.row_description(fields(portal.columns, ()))
            yield from self._send(portal, None)
        work.end_implicit()
        work.offset = 0
        work.forget_portals()
        yield self.ready()

    def _send(self, portal: Portal, rows_max: int | None) -> Iterator[bytes]:
        """The rows that are left, or some of them, and how the statement ended."""
        for text in portal.notices:
            if self._work.settings.tells("warning"):
                yield notice_report(text)
        yield from portal.reports
        yield self._work.commit_notice()
        portal.notices, portal.reports = [], []
        if portal.stream is not None:
            yield from self._stream(portal, portal.stream, rows_max)
            return
        result = portal.result
        if isinstance(portal.prepared.command, Copy) and isinstance(result, Result):
            yield from self._copy_out(result, portal.prepared.command.options)
        elif result is not None:
            before = result.at
            yield from result.fetch(rows_max)
            if result.left:
                yield b.PORTAL_SUSPENDED
                return
            # A tag counts what this call gave, so that the counts of several add up.
            if portal.tag.startswith(("SELECT ", "FETCH ")):
                portal.tag = f"{portal.tag.split()[0]} {result.at - before}"
        portal.done = True
        yield b.command_complete(portal.tag)

    def _stream(self, portal: Portal, stream: Stream, rows_max: int | None) -> Iterator[bytes]:
        """Rows as they come. With a limit, a portal is suspended when nothing more has come: what is there is
        worth more to a client than what may come."""
        command = portal.prepared.command
        copy = command.options if isinstance(command, Copy) else None
        if stream.suspended:  # a cancel request that came in between was for nothing
            self._work.session.begin_waiting()
        if copy is not None:
            rows_max = None  # a COPY is never suspended
            yield from self._copy_head(stream.empty(), copy)
        sent = 0
        while rows_max is None or sent < rows_max:
            self._work.session.check_not_cancelled()
            left = ENCODE_ROWS_MAX if rows_max is None else min(rows_max - sent, ENCODE_ROWS_MAX)
            result = stream.take(left)
            if result is not None:
                sent += result.left
                yield from result.fetch(None) if copy is None else self._copy_rows(result, copy)
            elif rows_max is not None and sent:
                break
            else:
                yield stream.pause()
        stream.suspended = True
        yield b.PORTAL_SUSPENDED

    # -- extended queries ------------------------------------------------------------------

    def _parse(self, message: m.Parse) -> bytes:
        statements = self._work.statements
        if message.name and message.name in statements:
            raise DuplicateStatement(f'prepared statement "{message.name}" already exists')
        if len(statements) >= PREPARED_MAX:
            raise NotSupported(f"more than {PREPARED_MAX} prepared statements", hint="DEALLOCATE some.")
        statements.pop(message.name, None)
        statements[message.name] = self._work.prepare(message.sql, message.oids)
        return b.PARSE_COMPLETE

    def _bind(self, message: m.Bind) -> bytes:
        work = self._work
        prepared = work.statement(message.statement)
        if message.portal and message.portal in work.portals:
            raise DuplicateCursor(f'cursor "{message.portal}" already exists')
        if len(work.portals) >= PREPARED_MAX:
            raise NotSupported(f"more than {PREPARED_MAX} portals", hint="Close some.")
        work.check_not_failed(prepared.statement)
        work.work_out(prepared, columns=False)
        types = prepared.parameters or ()
        if len(message.values) != len(types):
            raise WrongNumber(
                f"bind message supplies {len(message.values)} parameters, but prepared statement "
                f'"{message.statement}" requires {len(types)}'
            )
        formats = spread(message.formats, len(types))
        if isinstance(prepared.command, CatalogQuery):
            raw = RawValues(message.values, formats)
            work.portals[message.portal] = Portal(prepared, [], message.result_formats, raw=raw)
            return b.BIND_COMPLETE
        items = zip(message.values, formats, types, prepared.ducks, strict=True)
        values: Values = [decoded(*item) for item in items]
        work.portals[message.portal] = Portal(prepared, values, message.result_formats)
        return b.BIND_COMPLETE

    def _describe(self, message: m.Describe) -> Iterator[bytes]:
        if message.kind == "S":
            prepared = self._work.statement(message.name)
            self._work.work_out(prepared, columns=True)
            yield b.parameter_description([(t or ColumnType(TEXT)).oid for t in prepared.parameters or ()])
            yield _columns(prepared, ())
            return
        portal = self._work.portal(message.name)
        if isinstance(portal.prepared.statement, st.Query) and not portal.prepared.notifies:
            yield from waits(self._work, portal)
            self._work.run(
                portal
            )  # it changes nothing, so it may as well run now: describing it costs as much
        if portal.columns is not None:
            yield b.row_description(fields(portal.columns, portal.formats))
            return
        self._work.work_out(portal.prepared, columns=True)
        yield _columns(portal.prepared, portal.formats)

    def _execute(self, message: m.Execute) -> Iterator[bytes]:
        portal = self._work.portal(message.portal)
        command = portal.prepared.command
        if command is None and portal.prepared.statement is None:
            yield b.EMPTY_QUERY
            return
        if isinstance(command, Copy) and command.from_client:
            yield self._copy_begin(command, extended=True)
            return
        if portal.done and portal.result is None:
            raise UndefinedCursor(f'portal "{message.portal}" cannot be run anymore')
        yield from waits(self._work, portal)
        self._work.run(portal)
        yield from self._send(portal, message.rows_max or None)

    # -- COPY ------------------------------------------------------------------------------

    def _copy_begin(self, command: Copy, extended: bool) -> bytes:
        self._work.check_not_failed(None)
        self._copy = CopyIn(self._work.session, command, extended)
        self.connection.copying_in()
        return b.copy_response(b"G", len(self._copy.types))

    def _copy_done(self) -> Iterator[bytes]:
        copy = self._copy
        assert copy is not None
        count = copy.finish()
        self._copy = None
        self.connection.copied()
        self._work.offset = 0
        yield b.command_complete(f"COPY {count}")
        if not copy.extended:
            yield self.ready()

    def _copy_out(self, result: Result, options: CopyOptions) -> Iterator[bytes]:
        yield from self._copy_head(result, options)
        yield from self._copy_rows(result, options)
        yield b.COPY_DONE

    def _copy_head(self, result: Result, options: CopyOptions) -> Iterator[bytes]:
        yield b.copy_response(b"H", len(result.types))
        if options.header:
            yield b.copy_data(header(result.table.column_names, options))

    def _copy_rows(self, result: Result, options: CopyOptions) -> Iterator[bytes]:
        while result.left:
            rows = result.table.slice(result.at, min(result.left, ENCODE_ROWS_MAX))
            result.skip(rows.num_rows)
            columns = encoded_columns(rows, result.types, result.formats)
            yield b"".join(b.copy_data(line) for line in lines(columns, rows.num_rows, options))


def _columns(prepared: Prepared, formats: Sequence[int]) -> bytes:
    """RowDescription, or NoData."""
    if prepared.columns is None:
        return b.NO_DATA
    return b.row_description(fields(prepared.columns, formats))
