"""A small client: simple queries, answers as text. It is what `penstock sql` needs, and no driver."""

from __future__ import annotations

import base64
import hashlib
import hmac
import secrets
import select
import socket
import ssl
import struct
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from urllib.parse import parse_qs, unquote, urlsplit

from penstock.base.errors import InvalidOption, PenstockError, QueryCanceled
from penstock.gateway import backend as b
from penstock.gateway.errors import AuthenticationFailed, NotSupported, ProtocolError
from penstock.gateway.messages import CANCEL_REQUEST, SSL_REQUEST
from penstock.gateway.scram import MECHANISM

DEFAULT_URL = "postgresql://penstock@127.0.0.1:6875/penstock"


@dataclass(frozen=True)
class Target:
    """Where to connect and as whom."""

    host: str
    port: int
    user: str
    password: str | None
    database: str
    sslmode: str


def target(url: str) -> Target:
    """
    >>> target("postgresql://ann:pw@db:5000/x?sslmode=require")
    Target(host='db', port=5000, user='ann', password='pw', database='x', sslmode='require')
    """
    parts = urlsplit(url)
    if parts.scheme not in ("postgresql", "postgres") or not parts.hostname:
        raise InvalidOption(f"{url!r} is not the URL of a server", hint=f"It looks like {DEFAULT_URL}")
    options = {name: values[-1] for name, values in parse_qs(parts.query).items()}
    sslmode = options.pop("sslmode", "disable")
    if options or sslmode not in ("disable", "require", "verify-full"):
        raise InvalidOption("a URL has the option sslmode=disable, require or verify-full, and no other")
    try:
        port = parts.port or 6875
    except ValueError:
        raise InvalidOption(f"{url!r} has no port that could be one") from None
    user = unquote(parts.username or "penstock")
    password = None if parts.password is None else unquote(parts.password)
    return Target(parts.hostname, port, user, password, parts.path.lstrip("/") or "penstock", sslmode)


class ServerError(PenstockError):
    """What the server answered: its message, with its SQLSTATE and hint."""

    def __init__(self, fields: dict[str, str]) -> None:
        position = fields.get("P", "")
        super().__init__(
            fields.get("M", "the server failed"),
            hint=fields.get("H"),
            position=int(position) - 1 if position.isdecimal() else None,
        )
        self.sqlstate = fields.get("C", "XX000")


@dataclass
class Reply:
    """The answer to one statement: its tag, and its rows if it has any."""

    names: list[str] | None = None
    rows: list[list[str | None]] = field(default_factory=list)
    tag: str = ""
    warnings: list[str] = field(default_factory=list)


class Client:
    """A connection. `password` is asked when the server wants one and the URL has none."""

    def __init__(self, where: Target, password: Callable[[], str]) -> None:
        self._where = where
        self._password = password
        self._key = b""  # who we are to the server, for cancelling
        try:
            self._socket = socket.create_connection((where.host, where.port), timeout=10)
        except OSError as error:
            raise PenstockError(
                f"cannot connect to {where.host}:{where.port}: {error.strerror or error}",
                hint="Is it started?",
            ) from None
        try:
            self._begin()
        except BaseException:
            self._socket.close()
            raise
        self._socket.settimeout(None)

    def close(self) -> None:
        with suppress(OSError):  # the server may be gone already
            self._socket.sendall(b.message(b"X"))
        self._socket.close()

    def query(self, sql: str) -> Iterator[Reply]:
        """Run statements: a reply for each. Raises ServerError where one fails; the connection stays usable."""
        self._send(b.message(b"Q", b.text(sql)))
        reply = Reply()
        failure: ServerError | None = None
        while True:
            kind, body = self._receive()
            if kind == b"T":
                reply.names = _names(body)
            elif kind == b"D":
                reply.rows.append(_row(body))
            elif kind == b"N":
                reply.warnings.append(_fields(body).get("M", ""))
            elif kind in (b"C", b"I"):
                reply.tag = body.rstrip(b"\0").decode()
                yield reply
                reply = Reply()
            elif kind == b"E":
                failure = ServerError(_fields(body))
            elif kind == b"Z":
                break
            elif kind == b"G":
                self._send(b.message(b"f", b.text("COPY FROM STDIN is not for this shell")))
            elif kind == b"d":
                reply.rows.append([body.decode(errors="replace").rstrip("\n")])
        if failure is not None:
            raise failure

    def follow(self, sql: str) -> Iterator[list[str | None]]:
        """The rows of one statement as they come, after the names of its columns: for SUBSCRIBE, which has no end
        of its own. Ctrl-C cancels the statement, and the connection stays usable."""
        self._send(b.message(b"Q", b.text(sql)))
        failure: ServerError | None = None
        cancelled = False
        while True:
            try:
                # Ctrl-C comes while nothing does: a message that has begun is read to its end.
                if not (isinstance(self._socket, ssl.SSLSocket) and self._socket.pending()):
                    select.select([self._socket], [], [])
            except KeyboardInterrupt:
                cancelled = True
                self._cancel()
                continue
            kind, body = self._receive()
            if kind == b"T":
                yield list(_names(body))
            elif kind in (b"D", b"d"):
                yield _row(body) if kind == b"D" else [body.decode(errors="replace").rstrip("\n")]
            elif kind == b"E":
                failure = ServerError(_fields(body))
            elif kind == b"Z":
                break
        if failure is not None and not (cancelled and failure.sqlstate == QueryCanceled.sqlstate):
            raise failure

    def _cancel(self) -> None:
        """Ask the server to stop what runs: by a connection of its own, as the protocol wants it."""
        where = self._where
        with suppress(OSError), socket.create_connection((where.host, where.port), timeout=10) as other:
            other.sendall(struct.pack(">ii", 16, CANCEL_REQUEST) + self._key)

    # -- the beginning -----------------------------------------------------------------------

    def _begin(self) -> None:
        if self._where.sslmode != "disable":
            self._encrypt()
        pairs = (
            ("user", self._where.user),
            ("database", self._where.database),
            ("application_name", "penstock sql"),
        )
        body = struct.pack(">i", 3 << 16) + b"".join(b.text(n) + b.text(v) for n, v in pairs) + b"\0"
        self._socket.sendall(struct.pack(">i", len(body) + 4) + body)
        while True:
            kind, body = self._receive()
            if kind == b"E":
                raise ServerError(_fields(body))
            if kind == b"R":
                self._authenticate(body)
            elif kind == b"K":
                self._key = body
            elif kind == b"Z":
                return

    def _encrypt(self) -> None:
        self._socket.sendall(struct.pack(">ii", 8, SSL_REQUEST))
        if self._exactly(1) != b"S":
            raise NotSupported("the server does not encrypt", hint="sslmode=disable does without.")
        context = ssl.create_default_context()
        if self._where.sslmode == "require":
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE
        try:
            self._socket = context.wrap_socket(self._socket, server_hostname=self._where.host)
        except (ssl.SSLError, OSError) as error:
            raise PenstockError(f"the connection cannot be encrypted: {error}") from None

    def _authenticate(self, body: bytes) -> None:
        (code,) = struct.unpack(">i", body[:4])
        if code == 0:
            return
        if code != 10 or MECHANISM.encode() not in body[4:].split(b"\0"):
            raise NotSupported(f"the server wants another authentication than {MECHANISM}")
        password = self._where.password if self._where.password is not None else self._password()
        bare = f"n=,r={secrets.token_urlsafe(18)}".encode()
        first = b"n,," + bare
        self._send(b.message(b"p", b.text(MECHANISM) + struct.pack(">i", len(first)) + first))
        challenge = self._challenge(11)
        parts = dict(piece.split(b"=", 1) for piece in challenge.split(b","))
        if not parts.get(b"r", b"").startswith(bare[5:]):
            raise ProtocolError("the server's nonce is not ours")
        salted = hashlib.pbkdf2_hmac(
            "sha256", password.encode(), base64.b64decode(parts[b"s"]), int(parts[b"i"])
        )
        client_key = hmac.digest(salted, b"Client Key", "sha256")
        without = b"c=biws,r=" + parts[b"r"]
        signed = b",".join((bare, challenge, without))
        signature = hmac.digest(hashlib.sha256(client_key).digest(), signed, "sha256")
        proof = bytes(x ^ y for x, y in zip(client_key, signature, strict=True))
        self._send(b.message(b"p", without + b",p=" + base64.b64encode(proof)))
        wanted = hmac.digest(hmac.digest(salted, b"Server Key", "sha256"), signed, "sha256")
        if self._challenge(12) != b"v=" + base64.b64encode(wanted):
            raise AuthenticationFailed(
                "the server does not know the password either: it is not the right one"
            )

    def _challenge(self, code: int) -> bytes:
        kind, body = self._receive()
        if kind == b"E":
            raise ServerError(_fields(body))
        if kind != b"R" or struct.unpack(">i", body[:4])[0] != code:
            raise ProtocolError("the server's authentication goes astray")
        return body[4:]

    # -- bytes -------------------------------------------------------------------------------

    def _send(self, data: bytes) -> None:
        try:
            self._socket.sendall(data)
        except OSError as error:
            raise PenstockError(f"the connection is lost: {error.strerror or error}") from None

    def _receive(self) -> tuple[bytes, bytes]:
        head = self._exactly(5)
        (length,) = struct.unpack(">i", head[1:])
        return head[:1], self._exactly(length - 4)

    def _exactly(self, size: int) -> bytes:
        pieces, left = [], size
        while left:
            try:
                piece = self._socket.recv(min(left, 1 << 20))
            except OSError as error:
                raise PenstockError(f"the connection is lost: {error.strerror or error}") from None
            if not piece:
                raise PenstockError("the server has ended the connection")
            pieces.append(piece)
            left -= len(piece)
        return b"".join(pieces)


def _names(body: bytes) -> list[str]:
    (count,) = struct.unpack(">H", body[:2])
    names, at = [], 2
    for _ in range(count):
        end = body.index(b"\0", at)
        names.append(body[at:end].decode())
        at = end + 19
    return names


def _row(body: bytes) -> list[str | None]:
    (count,) = struct.unpack(">H", body[:2])
    row: list[str | None] = []
    at = 2
    for _ in range(count):
        (size,) = struct.unpack(">i", body[at : at + 4])
        at += 4
        row.append(None if size < 0 else body[at : at + size].decode())
        at += max(size, 0)
    return row


def _fields(body: bytes) -> dict[str, str]:
    return {piece[:1].decode(): piece[1:].decode() for piece in body.split(b"\0") if piece}
