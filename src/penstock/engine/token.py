"""Freshness tokens: a commit named so that a read elsewhere can wait until it sees it."""

from __future__ import annotations

from dataclasses import dataclass

from penstock.base.errors import InvalidOption


@dataclass(frozen=True)
class Token:
    """An epoch of a flow.

    >>> str(Token("0123456789ab", 17)), Token.parse("0123456789ab:17").epoch
    ('0123456789ab:17', 17)
    """

    flow: str
    epoch: int

    def __str__(self) -> str:
        return f"{self.flow}:{self.epoch}"

    @staticmethod
    def parse(text: str) -> Token:
        flow, colon, epoch = text.strip().partition(":")
        if not flow or not colon or not epoch.isdecimal() or len(epoch) > 18:
            raise InvalidOption(
                f"{text!r} is not a freshness token", hint="SHOW penstock.token gives one after a commit."
            )
        return Token(flow, int(epoch))
