"""A server in a thread of its own: for programs that have a flow open and let others look at it."""

from __future__ import annotations

import asyncio
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from penstock.engine.flow import Flow
from penstock.gateway.login import DATABASE, Access
from penstock.gateway.server import Server


@contextmanager
def serving(
    flow: Flow, host: str = "127.0.0.1", port: int = 0, access: Access | None = None,
    tls: ssl.SSLContext | None = None,
) -> Iterator[str]:  # fmt: skip
    """The URL at which the flow can be reached while the context lasts. The flow stays open after it."""
    started: threading.Event = threading.Event()
    found: list[tuple[str, int]] = []
    failed: list[BaseException] = []
    loop = asyncio.new_event_loop()
    ending = asyncio.Event()

    async def run() -> None:
        server = Server(flow, access, tls)
        try:
            found.append(await server.start(host, port))
        finally:
            started.set()
        await ending.wait()
        await server.stop()

    def work() -> None:
        try:
            loop.run_until_complete(run())
        except BaseException as error:
            failed.append(error)
        finally:
            loop.close()

    thread = threading.Thread(target=work, name="penstock-server", daemon=True)
    thread.start()
    started.wait()
    if not found:
        thread.join()
        raise failed[0]
    try:
        yield f"postgresql://penstock@{found[0][0]}:{found[0][1]}/{DATABASE}"
    finally:
        if thread.is_alive():
            loop.call_soon_threadsafe(ending.set)
        thread.join()
