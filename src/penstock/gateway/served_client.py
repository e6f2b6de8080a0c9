"""A client of the server: one connection, from its first byte to its last.

Its task in the event loop reads messages and gives them to the dialogue, in a thread where they may take long. What
they give is written in portions, each when the client has taken the one before it.
"""

from __future__ import annotations

import asyncio
import ipaddress
import logging
import secrets
import ssl
import time
from collections.abc import Iterator
from contextlib import suppress
from typing import TYPE_CHECKING

from penstock.base.errors import PenstockError
from penstock.base.limits import (
    LOGIN_SECONDS_MAX,
    NOTIFICATIONS_WAITING_MAX,
    READ_AHEAD_BYTES_MAX,
    SEND_BYTES,
)
from penstock.engine.session import Session
from penstock.gateway import backend as b
from penstock.gateway import messages as m
from penstock.gateway.catalog.query import CatalogDoor
from penstock.gateway.channels import Mailbox, Outbox
from penstock.gateway.errors import NotificationsLost, ProtocolError
from penstock.gateway.login import DATABASE, Login, options_of
from penstock.gateway.pause import Pause
from penstock.gateway.prompt_dialogue import PromptDialogue
from penstock.gateway.protocol import Connection, State
from penstock.gateway.reports import error_report, notice_report
from penstock.gateway.settings import VERSION, ClientSettings

if TYPE_CHECKING:
    from penstock.gateway.server import Server

LOG = logging.getLogger("penstock.gateway")
Portion = tuple[bytes, bool, Pause | None]


class ServedClient(asyncio.BufferedProtocol):
    """One connection."""

    def __init__(self, server: Server) -> None:
        self.server = server
        self.session: Session | None = None
        self.secret = secrets.randbits(31)
        self.task: asyncio.Task[None] | None = None
        self._number = 0
        self._connection = Connection()
        self._login = Login(self._connection, server.access)  # until we know where the client is
        self._dialogue: PromptDialogue | None = None
        self._transport: asyncio.Transport | None = None
        self._arrived = asyncio.Event()
        self._writable = asyncio.Event()
        self._writable.set()
        self._reading = True
        self._encrypted = False
        self._gone = False
        self._idle = False  # no thread works for the client
        self._held: m.Message | None = None  # has come, and needs a thread
        self._crash: Exception | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._busy = False  # statements run
        self._pause: Pause | None = None
        self._woken = asyncio.Event()
        self._mailbox: Mailbox | None = None

    @property
    def address(self) -> tuple[str | None, int | None]:
        """Where the client is: its host and port."""
        peer = None if self._transport is None else self._transport.get_extra_info("peername")
        return (str(peer[0]), int(peer[1])) if isinstance(peer, tuple) and len(peer) >= 2 else (None, None)

    # -- asyncio's calls ---------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        is_local = _is_this_machine(transport.get_extra_info("peername"))
        self._login = Login(self._connection, self.server.access, self.server.flow.access, is_local)
        loop = asyncio.get_running_loop()
        self.server.meet(self)
        self._timer = loop.call_later(LOGIN_SECONDS_MAX, self._late)
        self.task = loop.create_task(self._live())

    def get_buffer(self, sizehint: int) -> memoryview:
        return self.server.came

    def buffer_updated(self, nbytes: int) -> None:
        self._connection.receive(bytes(self.server.came[:nbytes]))
        if self._idle and self._dialogue is not None and self._at_once(self._dialogue):
            return
        if self._reading and self._connection.waiting_bytes > READ_AHEAD_BYTES_MAX and self._transport:
            self._reading = False
            self._transport.pause_reading()
        self._idle = False
        self._arrived.set()

    def pause_writing(self) -> None:
        self._writable.clear()

    def resume_writing(self) -> None:
        self._writable.set()
        self._deliver()

    def connection_lost(self, error: Exception | None) -> None:
        self._gone = True
        self.server.forget(self)
        self._writable.set()
        self._arrived.set()
        if self.session is not None:
            self.session.cancel()

    def _late(self) -> None:
        if not self._login.done:
            self.turn_away()

    def turn_away(self) -> None:
        """Disconnect a client that has not said who it is, without a word."""
        if self._transport is not None:
            self._transport.abort()

    # -- from the first byte to the last -----------------------------------------------------

    async def _live(self) -> None:
        try:
            while not self._gone:
                self._arrived.clear()
                await (self._converse() if self._login.done else self._begin())
                if self._connection.state is State.CLOSED:
                    break
                if not self._reading and self._transport is not None and not self._gone:
                    self._reading = True
                    self._transport.resume_reading()
                self._idle = not self._arrived.is_set()
                await self._arrived.wait()
                self._idle = False
                if self._crash is not None:
                    raise self._crash
        except PenstockError as error:
            self._write(error_report(error, severity="FATAL"))
        except Exception:
            LOG.exception("a connection has ended with an error of penstock's own")
            self._write(
                error_report(PenstockError("internal error: the server's log says more"), severity="FATAL")
            )
        finally:
            await self._close()

    async def _close(self) -> None:
        self.server.clients.pop(self._number, None)
        self.server.forget(self)
        if self._timer is not None:
            self._timer.cancel()
        if self._transport is not None:
            self._transport.close()
        if self.session is not None:
            closing = self.session.close if self._dialogue is None else self._dialogue.close
            await asyncio.get_running_loop().run_in_executor(self.server.pool, closing)
        self.server.everyone.discard(self)

    def end(self, error: PenstockError) -> None:
        """The server ends the connection, in the middle of whatever it is."""
        if self._transport is not None and not self._gone:
            if self._writable.is_set():
                self._write(error_report(error, severity="FATAL"))
                self._transport.close()
            else:  # it takes nothing, so it would never be sent
                self._transport.abort()
        self._gone = True
        self._arrived.set()
        self._writable.set()
        if self.session is not None:
            self.session.cancel()

    # -- pauses and notifications --------------------------------------------------------------

    def look(self) -> None:
        """The flow has something new: go on, if it is what the statement waits for."""
        if self._pause is not None and self._pause.ready():
            self.wake()

    def wake(self) -> None:
        """Go on after a pause."""
        self._woken.set()

    async def _rest(self, pause: Pause) -> None:
        """Wait as a statement asks for; no thread waits with it."""
        self._woken.clear()
        self._pause = pause
        self.server.resting.add(self)
        try:
            self.look()  # what has come before this client was among the resting
            if self.session is not None and self.session.is_cancelled:
                return
            left = None if pause.until is None else max(pause.until - time.monotonic(), 0)
            with suppress(TimeoutError):
                await asyncio.wait_for(self._woken.wait(), left)
        finally:
            self.server.resting.discard(self)
            self._pause = None

    def _deliver(self) -> None:
        """Send notifications, if the client does nothing just now and has room for them."""
        if self._gone or self._mailbox is None or self._dialogue is None:
            return
        if self._mailbox.overflowed:
            self.end(
                NotificationsLost(
                    f"more than {NOTIFICATIONS_WAITING_MAX:,} notifications wait for this client "
                    "(NOTIFICATIONS_WAITING_MAX)",
                    hint="Read them, and keep transactions short while you LISTEN.",
                )
            )
        elif not self._busy and self._writable.is_set():
            self._write(self._dialogue.mail())

    def _write(self, data: bytes) -> None:
        if self._transport is not None and not self._gone and data:
            self._transport.write(data)

    # -- before it is let in -----------------------------------------------------------------

    async def _begin(self) -> None:
        """Packets until the client is let in."""
        while not self._login.done and not self._gone:
            message = self._connection.next_message()
            if message is None:
                return
            if isinstance(message, m.SslRequest):
                await self._encrypt()
            elif isinstance(message, m.GssRequest):
                self._write(b"N")
            elif isinstance(message, m.CancelRequest):
                self.server.cancel(message)
                return
            elif isinstance(message, m.Startup):
                self._write(b"".join(self._login.start(message, self._encrypted)))
            elif isinstance(message, m.Password):
                self._write(b"".join(self._login.answer(message)))
        if self._login.done and not self._gone:
            await self._welcome()
            await self._converse()

    async def _encrypt(self) -> None:
        if self.server.tls is None or self._encrypted:
            self._write(b"N")
            return
        transport = self._transport
        assert transport is not None
        # The client answers at once: its first bytes belong to TLS, so nothing may be read until that listens.
        transport.pause_reading()
        self._connection.to_be_encrypted()
        transport.write(b"S")
        loop = asyncio.get_running_loop()
        try:
            changed = await loop.start_tls(transport, self, self.server.tls, server_side=True)
        except (OSError, ssl.SSLError):
            self._gone = True
            return
        self._transport = changed
        self._encrypted = True

    async def _welcome(self) -> None:
        """A session for the client, and what it is told about it."""
        self._number = self.server.admit(self)
        user = self._login.user
        constants = {
            "version": f"PostgreSQL {VERSION}",
            "current_database": DATABASE,
            "current_catalog": DATABASE,
            "current_schema": "public",
            "current_user": user,
            "session_user": user,
            "pg_advisory_unlock_all": "",  # what asyncpg's pool asks when a connection comes back
        }
        loop = asyncio.get_running_loop()
        self.session = await loop.run_in_executor(
            self.server.pool,
            lambda: self.server.flow.session(define_at_once=True, constants=constants, role=user),
        )
        self.session.on_cancel = lambda: self.server.soon(self.wake)
        self.session.application = dict(options_of(self._login.parameters)).get("application_name")
        settings = ClientSettings(self.session, user)
        given = [settings.at_start(name, value) for name, value in options_of(self._login.parameters)]
        warnings = [notice_report(text) for text in given if text is not None]
        server = self.server
        catalog = CatalogDoor(server.private, server.flow, self.session, user, self._number, server.activity)
        self._mailbox = Mailbox(self._number, lambda: self.server.soon(self._deliver), self.session.may_read)
        outbox = Outbox(self.server.channels, self._mailbox)
        self._dialogue = PromptDialogue(self._connection, self.session, settings, constants, catalog, outbox)
        parts = [b.parameter_status(name, value) for name, value in settings.reported()]
        parts += [*warnings, b.backend_key(self._number, self.secret), self._dialogue.ready()]
        self._write(b"".join(parts))
        if self._timer is not None:
            self._timer.cancel()

    # -- statements --------------------------------------------------------------------------

    def _at_once(self, dialogue: PromptDialogue) -> bool:
        """Answer what has come here and now, as far as that keeps nobody waiting; False if something is left.

        To hand a statement to a thread and its answer back takes longer than most small statements do.
        """
        out: list[bytes] = []
        try:
            while (message := self._connection.next_message()) is not None:
                if not dialogue.at_once(message, out):
                    self._held = message
                    break
        except ProtocolError as error:
            out.append(error_report(error, severity="FATAL"))
        except Exception as error:
            self._crash = error
        self._write(b"".join(out))
        return self._held is None and self._crash is None and self._connection.state is not State.CLOSED

    async def _converse(self) -> None:
        """Answer all messages that are there, in a thread, and write what they give as the client takes it."""
        loop = asyncio.get_running_loop()
        portions = self._portions()
        self._busy = True
        while not self._gone:
            data, more, pause = await loop.run_in_executor(self.server.pool, _next, portions)
            self._write(data)
            if not more:
                break
            await self._writable.wait()
            if pause is not None and not self._gone:
                await self._rest(pause)
        self._busy = False
        self._deliver()

    def _portions(self) -> Iterator[Portion]:
        """Bytes to write, whether there are more, and for what to wait before; in a thread of the pool."""
        assert self._dialogue is not None
        gathered: list[bytes] = []
        size = 0
        try:
            while not self._gone:
                message, self._held = self._held or self._connection.next_message(), None
                if message is None:
                    break
                for piece in self._dialogue.handle(message):
                    gathered.append(piece)
                    size += len(piece)
                    pause = piece if isinstance(piece, Pause) else None
                    if size >= SEND_BYTES or pause is not None:
                        yield b"".join(gathered), True, pause
                        gathered, size = [], 0
        except ProtocolError as error:
            self._connection.close()
            gathered.append(error_report(error, severity="FATAL"))
        yield b"".join(gathered), False, None


def _is_this_machine(peer: object) -> bool:
    """Whether a client's address is one of this machine's own; that of a socket in a folder is none."""
    if not isinstance(peer, tuple) or not peer:
        return True
    return ipaddress.ip_address(str(peer[0]).partition("%")[0]).is_loopback


def _next(portions: Iterator[Portion]) -> Portion:
    return next(portions)
