"""The beginning of a connection: who the client is, and what it is told."""

from __future__ import annotations

import secrets
import struct
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from penstock.base.errors import PenstockError
from penstock.gateway import backend as b
from penstock.gateway import messages as m
from penstock.gateway import scram
from penstock.gateway.errors import AuthenticationFailed, InvalidAuthorization, NotSupported, ProtocolError
from penstock.gateway.protocol import Connection

DATABASE = "penstock"
_SECRET = secrets.token_bytes(32)  # of this process: makes the salts of roles that do not exist


@dataclass(frozen=True)
class Access:
    """Who may come in: roles with what is kept of their passwords. Without any, everybody who reaches us may."""

    roles: Mapping[str, scram.Verifier] = field(default_factory=dict)
    needs_tls: bool = False

    @property
    def is_open(self) -> bool:
        return not self.roles


class Login:
    """From the startup packet to being let in. `user` is the role once `done`."""

    def __init__(self, connection: Connection, access: Access) -> None:
        self._connection = connection
        self._access = access
        self._exchange: scram.Exchange | None = None
        self._proven = 0
        self.done = False
        self.user = ""
        self.parameters: dict[str, str] = {}

    def start(self, message: m.Startup, encrypted: bool) -> Iterator[bytes]:
        """The startup packet."""
        parameters = dict(message.parameters)
        self.user = parameters.pop("user", "")
        if not self.user:
            raise InvalidAuthorization("no PostgreSQL user name specified in startup packet")
        parameters.pop("database", None)
        if parameters.pop("replication", "false") not in ("false", "off", "no", "0"):
            raise NotSupported("replication connections")
        unknown = [name for name in parameters if name.startswith("_pq_.")]
        self.parameters = {n: v for n, v in parameters.items() if not n.startswith("_pq_.")}
        if message.minor > 0 or unknown:
            yield b.negotiate_version(0, unknown)
        if self._access.needs_tls and not encrypted:
            raise InvalidAuthorization(
                "the server accepts encrypted connections only", hint="Use sslmode=require."
            )
        if self._access.is_open:
            yield from self._let_in()
            return
        known = self._access.roles.get(self.user) or scram.nobody(self.user, _SECRET)
        self._exchange = scram.Exchange(known)
        self._connection.asked_for_password()
        yield b.authentication_sasl([scram.MECHANISM])

    def answer(self, message: m.Password) -> Iterator[bytes]:
        """A message of the SCRAM exchange."""
        assert self._exchange is not None
        self._proven += 1
        if self._proven == 1:
            yield b.authentication_continue(self._exchange.first(_initial(message.data)))
            return
        try:
            final = self._exchange.final(message.data)
        except AuthenticationFailed:
            raise AuthenticationFailed(f'password authentication failed for user "{self.user}"') from None
        yield b.authentication_final(final)
        yield from self._let_in()

    def _let_in(self) -> Iterator[bytes]:
        self._connection.accepted()
        self.done = True
        yield b.AUTHENTICATION_OK


def _initial(data: bytes) -> bytes:
    """SASLInitialResponse: the mechanism's name, a length, and the first message."""
    name, zero, rest = data.partition(b"\0")
    if not zero or len(rest) < 4:
        raise ProtocolError("the answer to the request for authentication is malformed")
    if name != scram.MECHANISM.encode():
        raise ProtocolError(f"the authentication is {scram.MECHANISM}")
    (size,) = struct.unpack(">i", rest[:4])
    if size != len(rest) - 4:
        raise ProtocolError("the answer to the request for authentication is malformed")
    return rest[4:]


def options_of(parameters: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """The settings in a startup packet: each by itself, and those in `options=-c a=b`."""
    for name, value in parameters.items():
        if name != "options":
            yield name, value
            continue
        words = iter(value.replace("\\ ", "\0").split())
        for word in words:
            if word == "-c":
                word = "-c" + next(words, "")
            setting, equals, text = word.removeprefix("--").removeprefix("-c").partition("=")
            if not equals:
                raise PenstockError(f"the option {word!r} is not -c name=value")
            yield setting, text.replace("\0", " ")
