"""A dialogue that answers at once what keeps nobody waiting: it may do so where the bytes arrive, without a thread.

Small statements are many, and to hand one to a thread and its answer back takes longer than most of them do. So what is
here is short: few steps, few objects, nothing worked out that was known before. Whatever is not of the usual form is
left to `Dialogue.handle`, which gives the same bytes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from penstock.base.errors import PenstockError
from penstock.base.limits import DECODED_AT_ONCE_BYTES_MAX, REMEMBERED_TEXT_MAX
from penstock.gateway import backend as b
from penstock.gateway import messages as m
from penstock.gateway.dialogue import Dialogue
from penstock.gateway.errors import ProtocolError
from penstock.gateway.found import AtOnceResult, shape_of
from penstock.gateway.portals import Portal, Prepared

# What drivers send after Bind of the unnamed portal, and whether Describe is there: libpq has it, JDBC and asyncpg not.
_DESCRIBE, _EXECUTE_AND_SYNC = b"D\0\0\0\6P\0", b"E\0\0\0\x09\0\0\0\0\0S\0\0\0\4"
_REST_OF_QUERY = {_DESCRIBE + _EXECUTE_AND_SYNC: True, _EXECUTE_AND_SYNC: False}
_REST_BYTES_MAX = len(_DESCRIBE + _EXECUTE_AND_SYNC)


class PromptDialogue(Dialogue):
    """A dialogue with `at_once`."""

    def at_once(self, message: m.Message, out: list[bytes]) -> bool:
        """Answer a message if that waits for nobody, neither DuckDB nor the flow; False: `handle` has to. A statement
        may have run then, and `handle` goes on with it."""
        answer = _AT_ONCE.get(type(message))
        try:
            done = answer is not None and answer(self, message, out)
        except ProtocolError:
            raise
        except PenstockError as error:
            out.extend(self._fail(error))
            done = True
        if self._work.streams and done:
            self._work.sweep()
        return done

    def _parse_at_once(self, message: m.Parse, out: list[bytes]) -> bool:
        if len(message.sql) > REMEMBERED_TEXT_MAX:
            return False
        out += self._parse(message)
        return True

    def _bind_at_once(self, message: m.Bind, out: list[bytes]) -> bool:
        prepared = self._work.statements.get(message.statement)
        if prepared is not None:
            if prepared.parameters is None and not self._work.types_known(prepared):
                return False
            if message.size > DECODED_AT_ONCE_BYTES_MAX:
                return False
            described = _REST_OF_QUERY.get(self.connection.rest(_REST_BYTES_MAX))
            if described is not None and self._whole_at_once(message, prepared, described, out):
                return True
        out += self._bind(message)
        return True

    def _whole_at_once(self, message: m.Bind, prepared: Prepared, described: bool, out: list[bytes]) -> bool:
        """With a Bind has come all that drivers send after it. If there is one row, and it is at hand, nothing has to be
        kept from one of these messages to the next."""
        work = self._work
        if message.portal or prepared.command is not None or work.implicit or work.streams:
            return False
        try:
            values = self._values(message, prepared)
            found = work.find_at_once(prepared, values)
            if found is None:
                return False
            shape = shape_of(prepared, message.result_formats, found, described)
        except PenstockError:  # message by message it comes to the same, and the client is told
            return False
        if work.portals:
            work.drop_portal("")
        out.append(b.BIND_COMPLETE)
        one = shape.one(found)
        if one is None or work.session.transaction is not None:
            result = AtOnceResult(shape, found)
            work.portals[""] = Portal(prepared, values, message.result_formats, result, tag="SELECT")
            return True
        if described:
            prepared.told = shape.types
            out.append(shape.description)
        out += (one, b.SELECTED_ONE)
        self.connection.rest_is_read()
        work.forget_portals()
        out.append(self.ready())
        return True

    def _describe_at_once(self, message: m.Describe, out: list[bytes]) -> bool:
        work = self._work
        if message.kind == "S":
            prepared = work.statements.get(message.name)
            if prepared is not None and not prepared.described:
                return False
        else:
            portal = work.portals.get(message.name)
            if portal is not None:
                portal.described = True
                if not work.run_at_once(portal):
                    return False
                if type(portal.result) is AtOnceResult:
                    portal.prepared.told = portal.result.types
                    out.append(portal.result.description)
                    return True
        out.extend(self._describe(message))
        return True

    def _execute_at_once(self, message: m.Execute, out: list[bytes]) -> bool:
        portal = self._work.portals.get(message.portal)
        if portal is not None:
            if not self._work.run_at_once(portal):
                return False
            if not message.rows_max and _give_all(portal, out):
                return True
        out.extend(self._execute(message))
        return True

    def _query_at_once(self, message: m.Query, out: list[bytes]) -> bool:
        work, sql = self._work, message.sql
        if len(sql) > REMEMBERED_TEXT_MAX or ";" in sql[:-1]:
            return False
        try:
            portal = Portal(work.prepare(sql.removesuffix(";"), ()), [], ())
        except PenstockError:
            return False
        if not work.run_at_once(portal):
            return False
        work.drop_portal("")
        if portal.result is not None:
            out.append(portal.result.description)
        if not _give_all(portal, out):
            out.extend(self._send(portal, None))
        work.forget_portals()
        out.append(self.ready())
        return True

    def _sync_at_once(self, message: m.Sync, out: list[bytes]) -> bool:
        if self._may_wait():
            return False
        self._work.forget_portals()
        out.append(self.ready())
        return True

    def _close_at_once(self, message: m.Close, out: list[bytes]) -> bool:
        if self._may_wait():
            return False
        out += self._close(message)
        return True

    def _nothing_at_once(self, message: m.Flush | m.Terminate, out: list[bytes]) -> bool:
        return not self._may_wait()

    def _may_wait(self) -> bool:
        """For a commit, or for the end of a subscription."""
        return self._work.implicit or bool(self._work.streams)


def _give_all(portal: Portal, out: list[bytes]) -> bool:
    """The rows of a query that ran at once and how it ended, if nothing else is to be said and none are gone yet."""
    result = portal.result
    if type(result) is not AtOnceResult or portal.notices or portal.reports:
        return False
    rows = result.all_rows()
    if rows is None:
        return False
    out += (rows, b.SELECTED_ONE if result.at == 1 else b.command_complete(f"SELECT {result.at}"))
    portal.tag, portal.done = f"SELECT {result.at}", True
    return True


_AT_ONCE: dict[type[m.Message], Callable[[PromptDialogue, Any, list[bytes]], bool]] = {
    m.Query: PromptDialogue._query_at_once,
    m.Parse: PromptDialogue._parse_at_once,
    m.Bind: PromptDialogue._bind_at_once,
    m.Describe: PromptDialogue._describe_at_once,
    m.Execute: PromptDialogue._execute_at_once,
    m.Sync: PromptDialogue._sync_at_once,
    m.Close: PromptDialogue._close_at_once,
    m.Flush: PromptDialogue._nothing_at_once,
    m.Terminate: PromptDialogue._nothing_at_once,
}
