"""What is kept of a password: a SCRAM-SHA-256 verifier, in the form that Postgres writes it."""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import re
import secrets
import stringprep
import unicodedata
from dataclasses import dataclass

from penstock.base.errors import InvalidOption
from penstock.base.limits import SCRAM_ITERATIONS

_FORM = re.compile(r"SCRAM-SHA-256\$(\d{1,9}):([A-Za-z0-9+/=]+)\$([A-Za-z0-9+/=]+):([A-Za-z0-9+/=]+)")


@dataclass(frozen=True)
class Verifier:
    """A password can be checked against it, and not be had from it."""

    salt: bytes
    iterations: int
    stored_key: bytes
    server_key: bytes


def verifier(password: str, salt: bytes | None = None, iterations: int = SCRAM_ITERATIONS) -> Verifier:
    salt = secrets.token_bytes(16) if salt is None else salt
    salted = hashlib.pbkdf2_hmac("sha256", _prepared(password).encode(), salt, iterations)
    client_key = hmac.digest(salted, b"Client Key", "sha256")
    server_key = hmac.digest(salted, b"Server Key", "sha256")
    return Verifier(salt, iterations, hashlib.sha256(client_key).digest(), server_key)


def written(known: Verifier) -> str:
    """
    >>> read_verifier(written(verifier("secret"))).iterations
    4096
    """
    salt, stored, server = (
        base64.b64encode(part).decode() for part in (known.salt, known.stored_key, known.server_key)
    )
    return f"SCRAM-SHA-256${known.iterations}:{salt}${stored}:{server}"


def read_verifier(text: str) -> Verifier | None:
    """The verifier that a text is; None if it is none."""
    found = _FORM.fullmatch(text)
    if found is None:
        return None
    try:
        salt, stored, server = (base64.b64decode(part, validate=True) for part in found.groups()[1:])
    except binascii.Error:
        return None
    if len(stored) != 32 or len(server) != 32 or not int(found[1]):
        return None
    return Verifier(salt, int(found[1]), stored, server)


def to_keep(password: str) -> str:
    """What to keep of what PASSWORD says: of a password its verifier, and a verifier (psql's \\password) as it is."""
    if read_verifier(password) is not None:
        return password
    if password.startswith("SCRAM-SHA-256$") or re.fullmatch(r"md5[0-9a-f]{32}", password):
        raise InvalidOption("a password is text or a SCRAM-SHA-256 verifier: this is neither")
    return written(verifier(password))


def _prepared(password: str) -> str:
    """SASLprep, as far as Postgres goes: a password that it refuses is taken as it is."""
    mapped = "".join(
        " " if stringprep.in_table_c12(c) else c for c in password if not stringprep.in_table_b1(c)
    )
    normal = unicodedata.normalize("NFKC", mapped)
    tables = (
        stringprep.in_table_c12, stringprep.in_table_c21_c22, stringprep.in_table_c3, stringprep.in_table_c4,
        stringprep.in_table_c5, stringprep.in_table_c6, stringprep.in_table_c7, stringprep.in_table_c8,
        stringprep.in_table_c9, stringprep.in_table_a1,
    )  # fmt: skip
    if not normal or any(test(c) for c in normal for test in tables):
        return password
    return normal
