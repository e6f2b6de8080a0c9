"""The server's own statements, carried out: one function for each."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from penstock.base.errors import ActiveTransaction, InvalidOption, PenstockError
from penstock.gateway import backend as b
from penstock.gateway import commands as c
from penstock.gateway.catalog.query import CatalogQuery
from penstock.gateway.channels import Letter
from penstock.gateway.command import Command
from penstock.gateway.copy_command import Copy
from penstock.gateway.errors import (
    DuplicateCursor,
    NoTransaction,
    UndefinedCursor,
    UndefinedStatement,
)
from penstock.gateway.notify_command import Listen, Notify, Unlisten, run_listen, run_notify, run_unlisten
from penstock.gateway.portals import Portal
from penstock.gateway.prepare_command import Execute, Prepare, prepared_of, run_execute, run_prepare
from penstock.gateway.reports import Notice
from penstock.gateway.result import Result, spread
from penstock.gateway.stream import Stream, open_stream
from penstock.gateway.types import TEXT, ColumnType
from penstock.sql import statements as st
from penstock.sql.parse import parse

if TYPE_CHECKING:
    from penstock.gateway.work import Work


def run_command(work: Work, command: Command, portal: Portal) -> None:
    """Carry a statement out: its tag, and its rows if it has any, are the portal's afterwards."""
    for kind, function in COMMANDS:
        if isinstance(command, kind):
            function(work, command, portal)
            return
    raise TypeError(type(command).__name__)


def command_columns(work: Work, command: Command) -> list[tuple[str, ColumnType]] | None:
    """The columns that a statement will have; None if it has none."""
    if isinstance(command, c.ShowSetting):
        names = ["name", "setting"] if command.name is None else [command.name]
        return [(name, ColumnType(TEXT)) for name in names]
    if isinstance(command, c.Fetch) and not command.moves:
        return _cursor(work, command.name).columns
    if isinstance(command, Execute):
        return prepared_of(work, command).columns
    return None


# -- settings --------------------------------------------------------------------------------------


def _set(work: Work, command: c.SetSetting, portal: Portal) -> None:
    inside = work.session.transaction is not None and not work.implicit
    if command.local and not inside:
        portal.notices.append(
            Notice("SET LOCAL can only be used in transaction blocks", NoTransaction.sqlstate)
        )
        portal.tag = command.tag
        return
    if work.session.transaction is not None:
        work.settings.remember(command.name, command.local)
    report = work.settings.set(command.name, command.value)
    if report is not None:
        portal.reports.append(b.parameter_status(*report))
    portal.tag = command.tag


def _set_transaction(work: Work, command: c.SetTransaction, portal: Portal) -> None:
    if work.session.transaction is None or work.implicit:
        portal.notices.append(
            Notice("SET TRANSACTION can only be used in transaction blocks", NoTransaction.sqlstate)
        )
    else:
        work.session.isolate(command.isolation)
    portal.tag = "SET"


def _show(work: Work, command: c.ShowSetting, portal: Portal) -> None:
    if command.name is None:
        names, values = zip(*work.settings.all(), strict=True)
        table = pa.table({"name": pa.array(names, pa.string()), "setting": pa.array(values, pa.string())})
    else:
        table = pa.table({command.name: pa.array([work.settings.show(command.name)], pa.string())})
    portal.result = Result.of(table, portal.formats)
    portal.tag = "SHOW"


def _reset_all(work: Work, command: c.ResetAll, portal: Portal) -> None:
    portal.reports += [b.parameter_status(*report) for report in work.settings.reset_all()]
    portal.tag = "RESET"


# -- what the client has named ---------------------------------------------------------------------


def _discard(work: Work, command: c.Discard, portal: Portal) -> None:
    if command.what == "ALL":
        if work.session.transaction is not None and not work.implicit:
            raise ActiveTransaction("DISCARD ALL cannot run inside a transaction block")
        work.statements.clear()
        work.drop_portals()
        work.send(Letter(None, ends=True))
        _reset_all(work, c.ResetAll(), portal)
    elif command.what == "PLANS":
        for prepared in work.statements.values():
            prepared.described = False
    portal.tag = f"DISCARD {command.what}"


def _deallocate(work: Work, command: c.Deallocate, portal: Portal) -> None:
    if command.name is None:
        work.statements.clear()
    elif work.statements.pop(command.name, None) is None:
        raise UndefinedStatement(f'prepared statement "{command.name}" does not exist')
    portal.tag = "DEALLOCATE" + (" ALL" if command.name is None else "")


def _declare(work: Work, command: c.Declare, portal: Portal) -> None:
    if command.name in work.portals:
        raise DuplicateCursor(f'cursor "{command.name}" already exists')
    if not command.hold and (work.session.transaction is None or work.implicit):
        raise NoTransaction(
            "DECLARE CURSOR can only be used in transaction blocks", hint="BEGIN, or add WITH HOLD."
        )
    work.offset += command.query.offset
    formats = (1,) if command.binary else ()
    cursor = Portal(
        work.with_parameters(portal.prepared), portal.values, formats, hold=command.hold, raw=portal.raw
    )
    work.run(cursor)
    work.portals[command.name] = cursor
    portal.tag = "DECLARE CURSOR"


def _cursor(work: Work, name: str) -> Portal:
    cursor = work.portals.get(name)
    if cursor is not None and isinstance(cursor.prepared.statement, (st.Query, st.Subscribe)):
        work.run(cursor)  # a portal may be moved before anything was fetched: asyncpg does
    if cursor is None or cursor.columns is None:
        raise UndefinedCursor(f'cursor "{name}" does not exist')
    return cursor


def _fetch(work: Work, command: c.Fetch, portal: Portal) -> None:
    cursor = _cursor(work, command.name)
    if cursor.stream is not None:
        _fetch_stream(cursor, cursor.stream, command, portal)
        return
    if command.timeout_s is not None:
        raise InvalidOption(
            f'TIMEOUT is for cursors over SUBSCRIBE: "{command.name}" has all its rows already'
        )
    source = cursor.result
    assert source is not None
    if command.moves:
        portal.tag = f"MOVE {source.skip(command.count)}"
        return
    own = cursor.formats  # those of a BINARY cursor, or of a portal that was bound
    formats = source.formats if own else spread(portal.formats, len(source.types))
    portal.result = source.window(command.count, formats)
    portal.tag = "FETCH"


def _fetch_stream(cursor: Portal, stream: Stream, command: c.Fetch, portal: Portal) -> None:
    """The rows that have come, as far as they are wanted."""
    formats = stream.formats if cursor.formats else spread(portal.formats, len(stream.columns))
    result = stream.take(command.count, formats)
    count = 0 if result is None else result.table.num_rows
    if not command.moves:
        portal.result = result or stream.empty(formats)
    portal.tag = f"{'MOVE' if command.moves else 'FETCH'} {count}"


def _close(work: Work, command: c.CloseCursor, portal: Portal) -> None:
    if command.name is None:
        work.drop_portals()
    elif not work.drop_portal(command.name):
        raise UndefinedCursor(f'cursor "{command.name}" does not exist')
    portal.tag = "CLOSE CURSOR" + (" ALL" if command.name is None else "")


def _catalog(work: Work, command: CatalogQuery, portal: Portal) -> None:
    assert work.catalog is not None
    for name, value in command.sets:
        _set(work, c.SetSetting(name, value), portal)
    portal.result = work.catalog.run(command, portal.prepared.oids, portal.raw, portal.formats)
    portal.tag = f"SELECT {portal.result.left}"


def _copy_out(work: Work, command: Copy, portal: Portal) -> None:
    """COPY TO STDOUT: the rows, which are sent as lines."""
    assert command.query is not None
    if command.table is None:
        work.offset += command.query_offset
    if command.subscribes:
        statement = work.prepare(command.query, ()).statement
        assert isinstance(statement, st.Subscribe)
        open_stream(work, portal, statement)
        return
    (statement,) = parse(command.query)
    try:
        answer = work.session.start(command.query, statement)
    except PenstockError as error:
        if command.table is not None:  # the text is ours
            error.position = None
        raise
    portal.result = Result.of(answer.table, (), more=answer.stream)
    portal.tag = "COPY"


COMMANDS: tuple[tuple[type[Command], Callable[[Work, Any, Portal], None]], ...] = (
    (c.SetSetting, _set),
    (c.SetTransaction, _set_transaction),
    (c.ShowSetting, _show),
    (c.ResetAll, _reset_all),
    (c.Discard, _discard),
    (c.Deallocate, _deallocate),
    (c.Declare, _declare),
    (c.Fetch, _fetch),
    (c.CloseCursor, _close),
    (Listen, run_listen),
    (Unlisten, run_unlisten),
    (Notify, run_notify),
    (Prepare, run_prepare),
    (Execute, run_execute),
    (Copy, _copy_out),
    (CatalogQuery, _catalog),
)
