"""An HTTP proxy in front of an S3 server that injects the faults of a network and of a busy storage."""

from __future__ import annotations

import http.client
import random
import socket
import threading
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

_SLOW_DOWN = (
    b"<?xml version='1.0'?><Error><Code>SlowDown</Code><Message>Reduce your request rate.</Message></Error>"
)
_DENIED = b"<?xml version='1.0'?><Error><Code>AccessDenied</Code><Message>Access Denied</Message></Error>"
_HOP = {"connection", "keep-alive", "transfer-encoding", "content-length", "date", "server"}


@dataclass(frozen=True)
class ProxyRates:
    """How often each fault happens, from 0 to 1 of the requests."""

    slow_down: float = 0.0  # 503, not forwarded
    closed_before: float = 0.0  # the connection is closed and nothing was forwarded
    closed_after: float = 0.0  # it was carried out, and the connection is closed without an answer
    delayed: float = 0.0
    denied: float = 0.0  # 403, not forwarded
    writes_only: bool = False
    faults_max: int = 1_000_000_000  # this many in all, then none


class FaultProxy:
    """A proxy on a free port; `injected` counts the faults by name."""

    def __init__(self, port: int, rng: random.Random, rates: ProxyRates, *, delay_s: float = 0.05) -> None:
        self.injected: Counter[str] = Counter()
        self.requests = 0
        self.rates = rates
        self.delay_s = delay_s
        self.behind = port
        self._rng = rng
        self._lock = threading.Lock()
        self._server = _Server(("127.0.0.1", 0), _Handler)
        self._server.proxy = self
        self.endpoint = f"http://127.0.0.1:{self._server.server_address[1]}"
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True)
        self._thread.start()

    def draw(self, method: str) -> str:
        """The fault that this request meets, or nothing."""
        with self._lock:
            self.requests += 1
            if self.rates.writes_only and method not in ("PUT", "POST", "DELETE"):
                return ""
            if self.injected.total() >= self.rates.faults_max:
                return ""
            for fault in ("slow_down", "closed_before", "closed_after", "delayed", "denied"):
                if self._rng.random() < getattr(self.rates, fault):
                    self.injected[fault] += 1
                    return fault
            return ""

    def close(self) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False  # clients keep connections open for longer than a test lasts
    request_queue_size = 128
    proxy: FaultProxy

    def handle_error(self, request: object, client_address: object) -> None:
        pass  # a client that hung up is no news here


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: _Server

    def _serve(self) -> None:
        proxy = self.server.proxy
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        fault = proxy.draw(self.command)
        if fault == "slow_down":
            self._answer(503, {"Content-Type": "application/xml"}, _SLOW_DOWN)
        elif fault == "denied":
            self._answer(403, {"Content-Type": "application/xml"}, _DENIED)
        elif fault == "closed_before":
            self._hang_up()
        else:
            if fault == "delayed":
                time.sleep(proxy.delay_s)
            status, headers, answer = self._forward(body)
            if fault == "closed_after":
                self._hang_up()
            else:
                self._answer(status, headers, answer)

    def __getattr__(self, name: str) -> Callable[[], None]:
        if name.startswith("do_"):  # do_GET, do_PUT, ...: all methods are served alike
            return self._serve
        raise AttributeError(name)

    def _forward(self, body: bytes) -> tuple[int, dict[str, str], bytes]:
        connection = http.client.HTTPConnection("127.0.0.1", self.server.proxy.behind, timeout=30)
        try:
            connection.putrequest(self.command, self.path, skip_host=True, skip_accept_encoding=True)
            for name, value in self.headers.items():
                if name.lower() not in ("connection", "content-length"):
                    connection.putheader(name, value)
            connection.putheader("Content-Length", str(len(body)))
            connection.endheaders(body)
            answer = connection.getresponse()
            headers = {name: value for name, value in answer.getheaders() if name.lower() not in _HOP}
            if self.command == "HEAD" and (length := answer.getheader("Content-Length")):
                headers["Content-Length"] = length
            return answer.status, headers, answer.read()
        finally:
            connection.close()

    def _answer(self, status: int, headers: dict[str, str], body: bytes) -> None:
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        if "Content-Length" not in headers:
            self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def _hang_up(self) -> None:
        self.close_connection = True
        self.connection.shutdown(socket.SHUT_RDWR)

    def log_message(self, format: str, *args: object) -> None:
        pass
