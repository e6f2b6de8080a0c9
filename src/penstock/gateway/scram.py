"""SCRAM-SHA-256 (RFC 5802, 7677): a password is proven without being sent, and not stored.

What the server keeps of a password is a verifier. A client that names a role which does not exist goes through the
same exchange, with a verifier that nobody can meet, so that it learns nothing.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import secrets

from penstock.base.limits import SCRAM_ITERATIONS
from penstock.engine.passwords import Verifier, verifier
from penstock.gateway.errors import AuthenticationFailed, ProtocolError

__all__ = ["MECHANISM", "Exchange", "Verifier", "nobody", "verifier"]

MECHANISM = "SCRAM-SHA-256"
_NO_CHANNEL = (b"n", b"y")  # no channel binding, or "you do not seem to have any"


def nobody(user: str, secret: bytes) -> Verifier:
    """A verifier for a role that does not exist: always the same for a name, as that of a role would be."""
    salt = hmac.digest(secret, user.encode(), "sha256")[:16]
    return Verifier(salt, SCRAM_ITERATIONS, secrets.token_bytes(32), secrets.token_bytes(32))


class Exchange:
    """The server's half of one authentication."""

    def __init__(self, known: Verifier, nonce: str | None = None) -> None:
        self._known = known
        self._nonce = secrets.token_urlsafe(18) if nonce is None else nonce
        self._bare = b""
        self._first = b""
        self._header = b""

    def first(self, data: bytes) -> bytes:
        """The answer to the client's first message."""
        flag, _, rest = data.partition(b",")
        name, comma, bare = rest.partition(b",")
        if flag.startswith(b"p="):
            raise ProtocolError("channel binding was not offered")
        if flag not in _NO_CHANNEL or not comma or name.startswith(b"a="):
            raise ProtocolError("the first SCRAM message is malformed")
        fields = _fields(bare)
        nonce = fields.get(b"r", b"")
        if not nonce or b"m" in fields:
            raise ProtocolError("the first SCRAM message is malformed")
        self._header, self._bare = flag + b"," + name + b",", bare
        self._nonce = _ascii(nonce) + self._nonce
        salt = base64.b64encode(self._known.salt).decode()
        self._first = f"r={self._nonce},s={salt},i={self._known.iterations}".encode()
        return self._first

    def final(self, data: bytes) -> bytes:
        """The answer to the client's proof; AuthenticationFailed if it is none."""
        without, _, proof_text = data.rpartition(b",p=")
        fields = _fields(without)
        if _decoded(fields.get(b"c", b"")) != self._header or fields.get(b"r") != self._nonce.encode():
            raise ProtocolError("the last SCRAM message does not belong to the first")
        proof = _decoded(proof_text)
        signed = b",".join((self._bare, self._first, without))
        signature = _hmac(self._known.stored_key, signed)
        if len(proof) != len(signature):
            raise ProtocolError("the SCRAM proof has the wrong length")
        client_key = bytes(a ^ b for a, b in zip(proof, signature, strict=True))
        if not hmac.compare_digest(hashlib.sha256(client_key).digest(), self._known.stored_key):
            raise AuthenticationFailed("password authentication failed")
        return b"v=" + base64.b64encode(_hmac(self._known.server_key, signed))


def _hmac(key: bytes, data: bytes) -> bytes:
    return hmac.digest(key, data, "sha256")


def _fields(data: bytes) -> dict[bytes, bytes]:
    pairs = [piece.partition(b"=") for piece in data.split(b",")]
    return {key: value for key, equals, value in pairs if equals}


def _ascii(data: bytes) -> str:
    try:
        return data.decode("ascii")
    except UnicodeDecodeError:
        raise ProtocolError("a SCRAM nonce is not ASCII") from None


def _decoded(data: bytes) -> bytes:
    try:
        return base64.b64decode(data, validate=True)
    except (binascii.Error, ValueError):
        raise ProtocolError("a SCRAM message is not base64") from None
