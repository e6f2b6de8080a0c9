"""One client's dialogue: messages in, bytes out. It knows neither sockets nor threads.

`handle` gives the bytes in portions; whoever sends them takes the next one when the client has room for it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from typing import Any

from penstock.base.errors import PenstockError, QueryCanceled
from penstock.base.limits import (
    ENCODE_ROWS_MAX,
    PREPARED_MAX,
)
from penstock.engine.session import Session
from penstock.gateway import backend as b
from penstock.gateway import messages as m
from penstock.gateway.alarm import alarm
from penstock.gateway.catalog.query import CatalogDoor, CatalogQuery, RawValues
from penstock.gateway.channels import Outbox
from penstock.gateway.copy_command import Copy, CopyOptions
from penstock.gateway.copy_in import CopyIn
from penstock.gateway.copy_out import CopyOut
from penstock.gateway.decode import decoder
from penstock.gateway.errors import (
    DuplicateCursor,
    DuplicateStatement,
    NotSupported,
    PortalHasRun,
    ProtocolError,
    WrongNumber,
)
from penstock.gateway.notify_command import Listen, Notify, Unlisten
from penstock.gateway.portals import Portal, Prepared, Values
from penstock.gateway.prepare_command import Execute
from penstock.gateway.protocol import Connection
from penstock.gateway.reports import Notice, error_report, notice_report
from penstock.gateway.result import Result, fields, spread
from penstock.gateway.settings import ClientSettings
from penstock.gateway.stream import Stream
from penstock.gateway.types import TEXT, ColumnType
from penstock.gateway.waiting import waits
from penstock.gateway.work import Work
from penstock.sql import statements as st
from penstock.sql.parse import split

CHANGES = (st.Insert, st.Update, st.Delete, st.Truncate)


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
        """ReadyForQuery, after settings that have changed, the token of a commit and what others have sent by NOTIFY."""
        work = self._work
        status = work.status
        if not work.has_more_to_say:
            return b.ready_for_query(status)
        mail = work.outbox.mailbox.take() if status == "I" else b""
        told = work.commit_notice()
        reports, work.reports = work.reports, []
        return b"".join([*reports, told, mail, b.ready_for_query(status)])

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

    def _handle(self, message: m.Message) -> Iterable[bytes]:
        answer = _ANSWERS.get(type(message))
        return () if answer is None else answer(self, message)

    def _close(self, message: m.Close) -> Iterable[bytes]:
        if message.kind == "S":
            self._work.statements.pop(message.name, None)
        else:
            self._work.drop_portal(message.name)
        return (b.CLOSE_COMPLETE,)

    def _sync(self, message: m.Sync) -> Iterable[bytes]:
        self._work.end_implicit()
        self._work.forget_portals()
        return (self.ready(),)

    def _copy_data(self, message: m.CopyData) -> Iterable[bytes]:
        assert self._copy is not None
        self._copy.feed(message.data)
        return ()

    def _copy_fail(self, message: m.CopyFail) -> Iterable[bytes]:
        raise QueryCanceled(f"COPY was ended by the client: {message.reason}")

    def _function_call(self, message: m.FunctionCall) -> Iterable[bytes]:
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

    def _query(self, message: m.Query) -> Iterator[bytes]:
        work, sql = self._work, message.sql
        pieces = split(sql)
        work.drop_portal("")
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
            try:
                yield from self._run(portal, None, described=False)
            finally:
                if portal.result is not None:
                    portal.result.close()
        work.end_implicit()
        work.offset = 0
        work.forget_portals()
        yield self.ready()

    def _send(self, portal: Portal, rows_max: int | None) -> Iterator[bytes]:
        """The rows that are left, or some of them, and how the statement ended."""
        for text in portal.notices:
            notice = text if isinstance(text, Notice) else Notice(text)
            if self._work.settings.tells(notice.severity.lower()):
                yield notice_report(notice)
        self._work.reports += portal.reports  # sent before the server is ready again
        yield self._work.commit_notice()
        portal.notices, portal.reports = [], []
        if portal.stream is not None:
            yield from self._stream(portal, portal.stream, rows_max)
            return
        result = portal.result
        if isinstance(portal.prepared.command, Copy) and isinstance(result, Result):
            before = result.at
            yield from self._copy_out(result, portal.prepared.command.options)
            portal.tag = f"COPY {result.at - before}"
        elif result is not None:
            before = result.at
            yield from result.fetch(rows_max)
            if rows_max is not None and result.at - before == rows_max:  # also where these were the last
                yield b.PORTAL_SUSPENDED
                return
            # A tag counts what this call gave, so that the counts of several add up.
            if portal.tag.split()[0] in ("SELECT", "FETCH"):
                portal.tag = f"{portal.tag.split()[0]} {result.at - before}"
        portal.done = True
        yield b.command_complete(portal.tag)

    def _stream(self, portal: Portal, stream: Stream, rows_max: int | None) -> Iterator[bytes]:
        """Rows as they come. With a limit, a portal is suspended when nothing more has come: what is there is
        worth more to a client than what may come."""
        command = portal.prepared.command
        copy = CopyOut(command.options) if isinstance(command, Copy) else None
        if copy is not None:
            rows_max = None  # a COPY is never suspended
            yield from copy.begin(stream.empty())
        sent = 0
        while rows_max is None or sent < rows_max:
            self._work.session.check_not_cancelled()
            left = ENCODE_ROWS_MAX if rows_max is None else min(rows_max - sent, ENCODE_ROWS_MAX)
            result = stream.take(left)
            if result is not None:
                sent += result.table.num_rows
                yield from result.fetch(None) if copy is None else copy.rows(result)
            elif rows_max is not None and sent:
                break
            else:
                yield stream.pause()
        yield b.PORTAL_SUSPENDED

    # -- extended queries ------------------------------------------------------------------

    def _parse(self, message: m.Parse) -> Iterable[bytes]:
        statements = self._work.statements
        if message.name and message.name in statements:
            raise DuplicateStatement(f'prepared statement "{message.name}" already exists')
        if len(statements) >= PREPARED_MAX:
            raise NotSupported(f"more than {PREPARED_MAX} prepared statements", hint="DEALLOCATE some.")
        statements.pop(message.name, None)
        prepared = self._work.prepare(message.sql, message.oids)
        if prepared.statement is not None or prepared.command is not None:
            self._work.check_not_failed(prepared.statement)
        statements[message.name] = prepared
        return (b.PARSE_COMPLETE,)

    def _bind(self, message: m.Bind) -> Iterable[bytes]:
        work = self._work
        prepared = work.statement(message.statement)
        if message.portal and message.portal in work.portals:
            raise DuplicateCursor(f'cursor "{message.portal}" already exists')
        if len(work.portals) >= PREPARED_MAX:
            raise NotSupported(f"more than {PREPARED_MAX} portals", hint="Close some.")
        work.check_not_failed(prepared.statement)
        portal = Portal(prepared, self._values(message, prepared), message.result_formats)
        if isinstance(work.with_parameters(prepared).command, CatalogQuery):
            portal.raw = RawValues(message.values, spread(message.formats, len(message.values)))
        work.drop_portal(message.portal)
        work.portals[message.portal] = portal
        return (b.BIND_COMPLETE,)

    def _values(self, message: m.Bind, prepared: Prepared) -> Values:
        """The values that have come for a statement; none for a catalog query, which is given them as they came."""
        if prepared.parameters is None or prepared.command is not None:
            self._work.work_out(prepared, columns=False)
        types = prepared.parameters or ()
        if len(message.values) != len(types):
            raise WrongNumber(
                f"bind message supplies {len(message.values)} parameters, but prepared statement "
                f'"{message.statement}" requires {len(types)}'
            )
        if isinstance(self._work.with_parameters(prepared).command, CatalogQuery):
            return []
        decoders = prepared.decoders.get(message.formats)
        if decoders is None:
            each = zip(spread(message.formats, len(types)), types, prepared.ducks, strict=True)
            decoders = prepared.decoders[message.formats] = [decoder(*item) for item in each]
        return [decode(value) for decode, value in zip(decoders, message.values, strict=True)]

    def _describe(self, message: m.Describe) -> Iterator[bytes]:
        if message.kind == "S":
            prepared = self._work.statement(message.name)
            self._work.work_out(prepared, columns=True)
            yield b.parameter_description([(t or ColumnType(TEXT)).oid for t in prepared.parameters or ()])
            yield _columns(prepared, ())
            return
        portal = self._work.portal(message.name)
        portal.described = True
        if isinstance(portal.prepared.statement, st.Query) and not portal.prepared.notifies:
            with self._timed():  # it changes nothing, so it may as well run now: describing it costs as much
                yield from waits(self._work, portal)
                self._work.run(portal)
        if portal.description is not None:
            portal.prepared.told = [t for _, t in portal.columns or ()]
            yield portal.description
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
            raise PortalHasRun(f'portal "{message.portal}" cannot be run')
        if _changes(portal.prepared) and not self.connection.sync_follows():
            self._work.begin_implicit()  # what comes before the next Sync is one transaction
        yield from self._run(portal, message.rows_max or None, described=True)

    def _run(self, portal: Portal, rows_max: int | None, described: bool) -> Iterator[bytes]:
        """Run a statement and send its rows, after their columns unless those have been described."""
        command = portal.prepared.command
        with self._timed():
            yield from waits(self._work, portal)
            self._work.run(portal)
            if portal.description is not None and not described and not isinstance(command, Copy):
                yield portal.description
            if portal.stream is None:
                yield from self._send(portal, rows_max)
        if portal.stream is not None:  # it has no end that could be late
            yield from self._send(portal, rows_max)

    def _timed(self) -> AbstractContextManager[None]:
        session = self._work.session
        session.not_cancelled()
        return alarm(self._work.settings.statement_timeout_ms, session.cancel)

    # -- COPY ------------------------------------------------------------------------------

    def _copy_begin(self, command: Copy, extended: bool) -> bytes:
        self._work.check_not_failed(None)
        self._copy = CopyIn(self._work.session, command, extended)
        self.connection.copying_in()
        return b.copy_response(b"G", len(self._copy.types), self._copy.format)

    def _copy_done(self, message: m.CopyDone) -> Iterator[bytes]:
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
        copy = CopyOut(options)
        yield from copy.begin(result)
        yield from copy.rows(result)
        yield from copy.end()


def _changes(prepared: Prepared) -> bool:
    """Whether a statement may do something that others see when it is committed."""
    if isinstance(prepared.command, (Listen, Unlisten, Notify, Execute)) or prepared.notifies:
        return True
    return isinstance(prepared.statement, CHANGES)


_ANSWERS: dict[type[m.Message], Callable[[Dialogue, Any], Iterable[bytes]]] = {
    m.Query: Dialogue._query,
    m.Parse: Dialogue._parse,
    m.Bind: Dialogue._bind,
    m.Describe: Dialogue._describe,
    m.Execute: Dialogue._execute,
    m.Close: Dialogue._close,
    m.Sync: Dialogue._sync,
    m.CopyData: Dialogue._copy_data,
    m.CopyDone: Dialogue._copy_done,
    m.CopyFail: Dialogue._copy_fail,
    m.FunctionCall: Dialogue._function_call,
}


def _columns(prepared: Prepared, formats: Sequence[int]) -> bytes:
    """RowDescription, or NoData."""
    if prepared.columns is None:
        return b.NO_DATA
    return b.row_description(fields(prepared.columns, formats))
