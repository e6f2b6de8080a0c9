"""The beginning of a connection: who the client is, and what it is told."""

from __future__ import annotations

import secrets
import struct
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import NoReturn

from penstock.base.errors import PenstockError
from penstock.engine.access import SUPERUSER
from penstock.engine.access import Access as Roles
from penstock.engine.passwords import read_verifier
from penstock.gateway import backend as b
from penstock.gateway import messages as m
from penstock.gateway import scram
from penstock.gateway.errors import AuthenticationFailed, InvalidAuthorization, NotSupported, ProtocolError
from penstock.gateway.protocol import Connection

DATABASE = "penstock"
_SECRET = secrets.token_bytes(32)  # of this process: makes the salts of roles that do not exist


@dataclass(frozen=True)
class Access:
    """Who may come in, beyond what the flow's own roles say.

    `roles` are those of a file, with what is kept of their passwords: with any of them nobody comes in without one.
    Otherwise a role that has a password in the flow proves it, and one that has none comes in from this machine
    only, or from everywhere if `anywhere`.
    """

    roles: Mapping[str, scram.Verifier] = field(default_factory=dict)
    needs_tls: bool = False
    anywhere: bool = False

    def has_passwords(self, known: Roles) -> bool:
        """Whether anybody at all needs one."""
        return bool(self.roles) or any(role.verifier is not None for role in known.roles.values())

    def verifier(self, user: str, known: Roles) -> scram.Verifier | None:
        role = known.roles.get(user)
        kept = None if role is None or role.verifier is None else read_verifier(role.verifier)
        return self.roles.get(user) or kept

    def trusts(self, user: str, known: Roles, is_local: bool) -> bool:
        """Whether a role comes in without a password."""
        return not self.roles and user in known.roles and (is_local or self.anywhere)


class Login:
    """From the startup packet to being let in. `user` is the role once `done`."""

    def __init__(
        self,
        connection: Connection,
        access: Access,
        known: Callable[[], Roles] = Roles,
        is_local: bool = True,
    ) -> None:
        self._connection = connection
        self._access = access
        self._known = known
        self._is_local = is_local
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
        known = self._known()
        verifier = self._access.verifier(self.user, known)
        if verifier is None:
            if self._access.trusts(self.user, known, self._is_local):
                yield from self._let_in()
                return
            if not self._access.has_passwords(known):
                self._refuse(known)
            verifier = scram.nobody(self.user, _SECRET)
        self._exchange = scram.Exchange(verifier)
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

    def _refuse(self, known: Roles) -> NoReturn:
        """Nobody has a password, so there is none to ask for, and nothing to hide."""
        if self.user in known.roles:
            raise InvalidAuthorization(
                f'role "{self.user}" has no password, which it needs from another machine'
            )
        raise InvalidAuthorization(
            f'role "{self.user}" does not exist', hint=f"There is {SUPERUSER}, which can CREATE ROLE others."
        )

    def _let_in(self) -> Iterator[bytes]:
        role = self._known().roles.get(self.user)
        if role is not None and not role.login:
            raise InvalidAuthorization(f'role "{self.user}" is not permitted to log in')
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
