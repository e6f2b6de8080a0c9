"""/metrics, /health and /ready over HTTP: for Prometheus, and for whoever starts and stops servers.

It runs in a thread of its own and begins before the flow is opened, so that it can say that it is being opened.
"""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from penstock.base.limits import HTTP_CLIENTS_MAX, HTTP_HEAD_BYTES_MAX, HTTP_SECONDS_MAX
from penstock.engine.flow import Flow
from penstock.engine.metrics import CONTENT_TYPE, metrics

_STATUS = {
    200: "OK",
    400: "Bad Request",
    404: "Not Found",
    405: "Method Not Allowed",
    503: "Service Unavailable",
}
Answer = tuple[int, str, str]  # status, content type, body


class Observer:
    """What the outside is told. `flow` is None until it is open, and after it has been closed."""

    def __init__(self) -> None:
        self.flow: Flow | None = None
        self.state = "RECOVERING"  # while there is no flow
        self._clients = 0

    def answer(self, method: str, path: str) -> Answer:
        """The answer to one request."""
        path = path.partition("?")[0]
        if path not in ("/metrics", "/health", "/ready"):
            return 404, "text/plain", "There is /metrics, /health and /ready.\n"
        if method not in ("GET", "HEAD"):
            return 405, "text/plain", "Only GET.\n"
        flow = self.flow
        if path == "/metrics":
            if flow is None:
                return 503, "text/plain", f"# the flow is not open: {self.state}\n"
            return 200, CONTENT_TYPE, metrics(flow)
        return self._condition(flow, path)

    def _condition(self, flow: Flow | None, path: str) -> Answer:
        """/health: is the process good for something? /ready: can it be given work now?"""
        why = None if flow is None else flow.stopped_by()
        state = self.state if flow is None else "STOPPED" if why else "PAUSED" if flow.is_paused else "READY"
        fine = state in ("READY", "PAUSED") if path == "/ready" else why is None
        body: dict[str, object] = {"state": state}
        if why:
            body["error"] = why
        if flow is not None:
            body["epoch"] = flow.epoch
        return (200 if fine else 503), "application/json", json.dumps(body) + "\n"

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One connection: one request, one answer."""
        self._clients += 1
        try:
            if self._clients <= HTTP_CLIENTS_MAX:
                async with asyncio.timeout(HTTP_SECONDS_MAX):
                    await self._one(reader, writer)
        except (TimeoutError, OSError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            pass  # a client that is slow, gone or talks nonsense
        finally:
            self._clients -= 1
            writer.close()

    async def _one(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        words = head.split(b"\r\n", 1)[0].decode("latin-1").split(" ")
        is_http = len(words) == 3 and words[2].startswith("HTTP/1.")
        status, kind, body = self.answer(*words[:2]) if is_http else (400, "text/plain", "This is HTTP.\n")
        data = body.encode()
        lines = (
            f"HTTP/1.1 {status} {_STATUS[status]}",
            f"Content-Type: {kind}",
            f"Content-Length: {len(data)}",
            "Connection: close",
        )
        writer.write("\r\n".join((*lines, "", "")).encode() + (b"" if words[0] == "HEAD" else data))
        await writer.drain()


@contextmanager
def observing(host: str, port: int) -> Iterator[tuple[Observer, str, int]]:
    """An observer that answers while the context lasts, and where."""
    observer = Observer()
    loop = asyncio.new_event_loop()
    started = threading.Event()
    ending = asyncio.Event()
    found: list[tuple[str, int]] = []
    failed: list[OSError] = []

    async def run() -> None:
        try:
            server = await asyncio.start_server(observer.serve, host, port, limit=HTTP_HEAD_BYTES_MAX)
            address = server.sockets[0].getsockname()
            found.append((str(address[0]), int(address[1])))
        except OSError as error:
            failed.append(error)
            return
        finally:
            started.set()
        await ending.wait()
        server.close()
        left = asyncio.all_tasks() - {asyncio.current_task()}
        for task in left:  # clients that are being answered
            task.cancel()
        await asyncio.gather(*left, return_exceptions=True)

    def work() -> None:
        try:
            loop.run_until_complete(run())
        finally:
            loop.close()

    thread = threading.Thread(target=work, name="penstock-observer", daemon=True)
    thread.start()
    started.wait()
    if failed:
        thread.join()
        raise failed[0]
    try:
        yield observer, *found[0]
    finally:
        loop.call_soon_threadsafe(ending.set)
        thread.join()
