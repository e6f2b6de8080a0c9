"""SCRAM-SHA-256, with the example of RFC 7677."""

from __future__ import annotations

import base64

import pytest
from hypothesis import given
from hypothesis import strategies as s

from penstock.gateway.errors import AuthenticationFailed, ProtocolError
from penstock.gateway.scram import Exchange, nobody, verifier

SALT = base64.b64decode("W22ZaJ0SNY7soEsUEjb6gQ==")
NONCE = "%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0"
FIRST = b"n,,n=user,r=rOprNGfwEbeRWgbNEkqO"
FINAL = (
    b"c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,"
    b"p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ="
)


def exchange(password: str = "pencil") -> Exchange:
    return Exchange(verifier(password, SALT, 4096), NONCE)


def test_the_example_of_the_rfc() -> None:
    one = exchange()
    assert one.first(FIRST) == (
        b"r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096"
    )
    assert one.final(FINAL) == b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4="


def test_another_password() -> None:
    one = exchange("pen")
    one.first(FIRST)
    with pytest.raises(AuthenticationFailed):
        one.final(FINAL)


def test_a_role_that_does_not_exist_looks_like_one_that_does() -> None:
    a, b = nobody("x", b"secret"), nobody("x", b"secret")
    assert (a.salt, a.iterations) == (b.salt, b.iterations)
    assert len(a.salt) == len(verifier("x").salt)
    one = Exchange(a, NONCE)
    one.first(FIRST)
    with pytest.raises((AuthenticationFailed, ProtocolError)):
        one.final(FINAL)


@given(s.binary(max_size=80), s.binary(max_size=80))
def test_any_bytes_are_refused_in_our_words(first: bytes, final: bytes) -> None:
    one = exchange()
    with pytest.raises((AuthenticationFailed, ProtocolError)):
        one.first(first)
        one.final(final)
    two = exchange()
    two.first(FIRST)
    with pytest.raises((AuthenticationFailed, ProtocolError)):
        two.final(final)
