"""The server: a flow, those who listen for clients, and all clients by number.

Each client has a task in the event loop, which reads its messages (`served_client.py`); statements run in a pool of
threads, one at a time for each client, so that a slow one holds up nobody else.
"""

from __future__ import annotations

import asyncio
import hmac
import itertools
import ssl
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

from penstock.base.limits import (
    CONNECTIONS_MAX,
    RECEIVE_BYTES,
    RUNNING_STATEMENTS_MAX,
    STRANGERS_MAX,
)
from penstock.engine.flow import Flow
from penstock.engine.outline import extra_relations
from penstock.engine.system import RELATIONS, SCHEMA
from penstock.gateway import messages as m
from penstock.gateway.catalog.query import private_postgres
from penstock.gateway.channels import Channels
from penstock.gateway.errors import ServerStops, TooManyConnections
from penstock.gateway.login import Access
from penstock.gateway.served_client import ServedClient
from penstock.gateway.socket_file import SocketFile
from penstock.sql.tokens import quote
from penstock.state.scattered import Rows


class Server:
    """A flow for many clients. `start` and `stop` belong to one event loop."""

    def __init__(self, flow: Flow, access: Access | None = None, tls: ssl.SSLContext | None = None) -> None:
        self.flow = flow
        self.access = access or Access()
        _make_roles(flow, self.access)
        self.tls = tls
        system = extra_relations(SCHEMA, [(r.name, r.columns) for r in RELATIONS])
        self.private = private_postgres(flow, system)
        self.pool = ThreadPoolExecutor(RUNNING_STATEMENTS_MAX, "penstock-statement")
        self.clients: dict[int, ServedClient] = {}  # those that were let in, by process number
        self.everyone: set[ServedClient] = set()
        self.channels = Channels()
        # All clients' bytes come through here: asyncio fills it and calls `buffer_updated` before anybody else's turn.
        # A plain asyncio.Protocol is given bytes of a 256 KB block that is mapped and unmapped each time.
        self.came = memoryview(bytearray(RECEIVE_BYTES))
        self.resting: set[ServedClient] = set()  # those whose statement pauses
        self._strangers: dict[
            ServedClient, None
        ] = {}  # those that have not been let in yet, the oldest first
        self._numbers = itertools.count(1)
        self._listeners: list[asyncio.Server] = []
        self._file: SocketFile | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._silence: Callable[[], None] = lambda: None
        self._heard = False  # the bell has rung, and the loop has not looked yet

    async def start(self, host: str, port: int, folder: Path | None = None) -> tuple[str, int]:
        """Listen, also on a socket in a folder if one is given; the address, with the port that was taken if 0 was
        asked for."""
        loop = self._loop = asyncio.get_running_loop()
        listener = await loop.create_server(lambda: ServedClient(self), host, port)
        self._listeners.append(listener)
        address = listener.sockets[0].getsockname()
        if folder is not None:
            try:
                self._file = SocketFile(folder, int(address[1]))
            except OSError:
                listener.close()
                raise
            self._listeners.append(
                await loop.create_unix_server(lambda: ServedClient(self), sock=self._file.socket)
            )
        self._silence = self.flow.bell.listen(self._ring)
        return str(address[0]), int(address[1])

    async def stop(self) -> None:
        """End all connections, and wait for the statements that cannot be stopped half-way."""
        for listener in self._listeners:
            listener.close()
        if self._file is not None:
            self._file.remove()
        self._silence()
        for client in list(self.everyone):
            client.end(ServerStops("terminating connection due to administrator command"))
        tasks = [client.task for client in self.everyone if client.task is not None]
        if tasks:
            await asyncio.wait(tasks)
        await asyncio.get_running_loop().run_in_executor(self.pool, self.private.close)
        self.pool.shutdown()

    def _ring(self, epoch: int, changes: Mapping[str, Rows]) -> None:
        """The flow has something new; in any thread, perhaps under its lock."""
        self.channels.note(epoch, changes)
        if not self._heard:
            self._heard = True
            self.soon(self._look)

    def soon(self, function: Callable[[], None]) -> None:
        """Call a function in the event loop, from any thread."""
        assert self._loop is not None
        with suppress(RuntimeError):  # the loop has ended, and all clients with it
            self._loop.call_soon_threadsafe(function)

    def _look(self) -> None:
        self._heard = False
        self.channels.tell(self.flow.settled_epoch)
        for client in list(self.resting):
            client.look()

    def meet(self, client: ServedClient) -> None:
        """Somebody has connected."""
        self.everyone.add(client)
        self._strangers[client] = None
        if len(self._strangers) > STRANGERS_MAX:
            oldest = next(iter(self._strangers))
            del self._strangers[oldest]
            oldest.turn_away()

    def forget(self, client: ServedClient) -> None:
        """It has gone, or is no stranger any more."""
        self._strangers.pop(client, None)

    def admit(self, client: ServedClient) -> int:
        """A process number for a client."""
        self.forget(client)
        if len(self.clients) >= CONNECTIONS_MAX:
            raise TooManyConnections("sorry, too many clients already")
        number = next(self._numbers)
        self.clients[number] = client
        return number

    def activity(self) -> list[dict[str, object]]:
        """The clients, as pg_stat_activity shows them: of what they do, the kind of statement."""
        found: list[dict[str, object]] = []
        for number, client in list(self.clients.items()):
            session = client.session
            if session is None:
                continue
            address, port = client.address
            since = session.running_since_us
            found.append(
                {
                    "pid": number, "role": session.role, "application": session.application or "",
                    "address": address, "port": port, "began": session.began_us / 1e6,
                    "since": None if since is None else since / 1e6,
                    "state": "idle" if session.running is None else "active", "query": session.running or "",
                }
            )  # fmt: skip
        return found

    def cancel(self, request: m.CancelRequest) -> None:
        """Stop what a client runs. Nobody is told whether there was one: the request proves nothing else."""
        client = self.clients.get(request.process)
        if client is not None and client.session is not None:
            given, wanted = str(request.secret).encode(), str(client.secret).encode()
            if hmac.compare_digest(given, wanted):
                client.session.cancel()


def _make_roles(flow: Flow, access: Access) -> None:
    """The roles of a file that the flow does not know are made: superusers, as all were before there were rights."""
    for name in access.roles:
        if name not in flow.access().roles:
            flow.sql(f"CREATE ROLE {quote(name)} LOGIN SUPERUSER")
