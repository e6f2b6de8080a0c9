"""The server: sockets and threads around dialogues.

Each client has a task in the event loop, which reads its messages; statements run in a pool of threads, one at a
time for each client, so that a slow one holds up nobody else. What they give is written in portions, each when the
client has taken the one before it.
"""

from __future__ import annotations

import asyncio
import hmac
import itertools
import logging
import secrets
import ssl
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

from penstock.base.errors import PenstockError
from penstock.base.limits import (
    CONNECTIONS_MAX,
    LOGIN_SECONDS_MAX,
    READ_AHEAD_BYTES_MAX,
    RUNNING_STATEMENTS_MAX,
    SEND_BYTES,
    STRANGERS_MAX,
)
from penstock.engine.flow import Flow
from penstock.engine.session import Session
from penstock.gateway import backend as b
from penstock.gateway import messages as m
from penstock.gateway.dialogue import Dialogue
from penstock.gateway.errors import ProtocolError, ServerStops, TooManyConnections
from penstock.gateway.login import DATABASE, Access, Login, options_of
from penstock.gateway.protocol import Connection, State
from penstock.gateway.reports import error_report, notice_report
from penstock.gateway.settings import VERSION, ClientSettings

LOG = logging.getLogger("penstock.gateway")


class Server:
    """A flow for many clients. `start` and `stop` belong to one event loop."""

    def __init__(self, flow: Flow, access: Access | None = None, tls: ssl.SSLContext | None = None) -> None:
        self.flow = flow
        self.access = access or Access()
        self.tls = tls
        self.pool = ThreadPoolExecutor(RUNNING_STATEMENTS_MAX, "penstock-statement")
        self.clients: dict[int, Client] = {}  # those that were let in, by process number
        self.everyone: set[Client] = set()
        self._strangers: dict[Client, None] = {}  # those that have not been let in yet, the oldest first
        self._numbers = itertools.count(1)
        self._listener: asyncio.Server | None = None

    async def start(self, host: str, port: int) -> tuple[str, int]:
        """Listen; the address, with the port that was taken if 0 was asked for."""
        loop = asyncio.get_running_loop()
        self._listener = await loop.create_server(lambda: Client(self), host, port)
        address = self._listener.sockets[0].getsockname()
        return str(address[0]), int(address[1])

    async def stop(self) -> None:
        """End all connections, and wait for the statements that cannot be stopped half-way."""
        if self._listener is not None:
            self._listener.close()
        for client in list(self.everyone):
            client.end(ServerStops("terminating connection due to administrator command"))
        tasks = [client.task for client in self.everyone if client.task is not None]
        if tasks:
            await asyncio.wait(tasks)
        self.pool.shutdown()

    def meet(self, client: Client) -> None:
        """Somebody has connected."""
        self.everyone.add(client)
        self._strangers[client] = None
        if len(self._strangers) > STRANGERS_MAX:
            oldest = next(iter(self._strangers))
            del self._strangers[oldest]
            oldest.turn_away()

    def forget(self, client: Client) -> None:
        """It has gone, or is no stranger any more."""
        self._strangers.pop(client, None)

    def admit(self, client: Client) -> int:
        """A process number for a client."""
        self.forget(client)
        if len(self.clients) >= CONNECTIONS_MAX:
            raise TooManyConnections("sorry, too many clients already")
        number = next(self._numbers)
        self.clients[number] = client
        return number

    def cancel(self, request: m.CancelRequest) -> None:
        """Stop what a client runs. Nobody is told whether there was one: the request proves nothing else."""
        client = self.clients.get(request.process)
        if client is not None and client.session is not None:
            given, wanted = str(request.secret).encode(), str(client.secret).encode()
            if hmac.compare_digest(given, wanted):
                client.session.cancel()


class Client(asyncio.Protocol):
    """One connection."""

    def __init__(self, server: Server) -> None:
        self.server = server
        self.session: Session | None = None
        self.secret = secrets.randbits(31)
        self.task: asyncio.Task[None] | None = None
        self._number = 0
        self._connection = Connection()
        self._login = Login(self._connection, server.access)
        self._dialogue: Dialogue | None = None
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

    # -- asyncio's calls ---------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        loop = asyncio.get_running_loop()
        self.server.meet(self)
        self._timer = loop.call_later(LOGIN_SECONDS_MAX, self._late)
        self.task = loop.create_task(self._live())

    def data_received(self, data: bytes) -> None:
        self._connection.receive(data)
        if self._reading and self._connection.waiting_bytes > READ_AHEAD_BYTES_MAX and self._transport:
            self._reading = False
            self._transport.pause_reading()
        if not self._idle or self._dialogue is None or not self._at_once(self._dialogue):
            self._idle = False
            self._arrived.set()

    def pause_writing(self) -> None:
        self._writable.clear()

    def resume_writing(self) -> None:
        self._writable.set()

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
            await asyncio.get_running_loop().run_in_executor(self.server.pool, self.session.close)
        self.server.everyone.discard(self)

    def end(self, error: PenstockError) -> None:
        """The server ends the connection, in the middle of whatever it is."""
        if self._transport is not None and not self._gone:
            self._write(error_report(error, severity="FATAL"))
            self._transport.close()
        self._gone = True
        self._arrived.set()
        self._writable.set()
        if self.session is not None:
            self.session.cancel()

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
            self.server.pool, lambda: self.server.flow.session(define_at_once=True, constants=constants)
        )
        settings = ClientSettings(self.session, user)
        given = [settings.at_start(name, value) for name, value in options_of(self._login.parameters)]
        warnings = [notice_report(text) for text in given if text is not None]
        self._dialogue = Dialogue(self._connection, self.session, settings, constants)
        parts = [b.parameter_status(name, value) for name, value in settings.reported()]
        parts += [*warnings, b.backend_key(self._number, self.secret), self._dialogue.ready()]
        self._write(b"".join(parts))
        if self._timer is not None:
            self._timer.cancel()

    # -- statements --------------------------------------------------------------------------

    def _at_once(self, dialogue: Dialogue) -> bool:
        """Answer what has come here and now, as far as that keeps nobody waiting; False if something is left.

        To hand a statement to a thread and its answer back takes longer than most small statements do.
        """
        out: list[bytes] = []
        try:
            while (message := self._connection.next_message()) is not None:
                if not dialogue.is_quick(message):
                    self._held = message
                    break
                out.extend(dialogue.handle(message))
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
        while not self._gone:
            data, more = await loop.run_in_executor(self.server.pool, _next, portions)
            self._write(data)
            if not more:
                return
            await self._writable.wait()

    def _portions(self) -> Iterator[tuple[bytes, bool]]:
        """Bytes to write, and whether there are more; in a thread of the pool."""
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
                    if size >= SEND_BYTES:
                        yield b"".join(gathered), True
                        gathered, size = [], 0
        except ProtocolError as error:
            self._connection.close()
            gathered.append(error_report(error, severity="FATAL"))
        yield b"".join(gathered), False


def _next(portions: Iterator[tuple[bytes, bool]]) -> tuple[bytes, bool]:
    return next(portions)
