"""How fresh a session's reads must be: freshness tokens.

    SHOW penstock.token                       names this session's newest commit, or what it would read now
    SET penstock.wait_for = '<token>'         reads wait until that commit is visible here; SET freshness is the same
    SET penstock.wait_timeout = '5s'          and fail after this long

The writer of a flow sees each of its commits at once, so there a token holds at once. It is for readers that follow
another process's flow: they look for new epochs now and then, and are a little behind. How far behind they are in
time they cannot know, since their database looks at storage by itself: so freshness is a token, or `any`, and never a
length of time.
"""

from __future__ import annotations

import time

from penstock.base.errors import InvalidOption, NotVisibleYet
from penstock.base.limits import WAIT_FOR_TOKEN_SECONDS
from penstock.base.quantities import length_of_time, seconds
from penstock.engine.session import Session
from penstock.engine.token import Token

TOKEN, WAIT_FOR, WAIT_TIMEOUT, FRESHNESS = (
    "penstock.token",
    "penstock.wait_for",
    "penstock.wait_timeout",
    "freshness",
)
NAMES = (TOKEN, WAIT_FOR, WAIT_TIMEOUT, FRESHNESS)
_ANY = "any"


class Freshness:
    """These settings of one session."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._wait_for: Token | None = None
        self._timeout_s = WAIT_FOR_TOKEN_SECONDS

    def set(self, name: str, value: str | None) -> None:
        """Set one of them; None and an empty text: as it was at first."""
        value = (value or "").strip()
        if name == TOKEN:
            raise InvalidOption(
                f'the setting "{TOKEN}" cannot be changed', hint=f"SET {WAIT_FOR} = '<token>'."
            )
        if name == WAIT_TIMEOUT:
            self._timeout_s = _seconds(value, name) if value else WAIT_FOR_TOKEN_SECONDS
        else:
            self._wait_for = self._checked(value) if value and value.lower() != _ANY else None

    def _checked(self, text: str) -> Token:
        token = Token.parse(text)
        if token.flow != self._session.flow_id:
            raise InvalidOption(
                f"the token {text!r} is of another flow",
                hint=f"Those of this flow begin with {self._session.flow_id}:",
            )
        return token

    def show(self, name: str) -> str:
        if name == TOKEN:
            return str(self._session.token)
        if name == WAIT_TIMEOUT:
            return length_of_time(self._timeout_s)
        if self._wait_for is not None:
            return str(self._wait_for)
        return _ANY if name == FRESHNESS else ""

    def holds(self) -> bool:
        """Whether a statement may read now."""
        return self._wait_for is None or self._session.visible_epoch >= self._wait_for.epoch

    def until(self, began: float) -> float:
        """How long a statement that came at this time (of the monotonic clock) may wait."""
        return began + self._timeout_s

    def check(self, began: float) -> None:
        """Raise if the time is up."""
        if self.holds() or time.monotonic() < self.until(began):
            return
        assert self._wait_for is not None
        raise NotVisibleYet(
            f"epoch {self._wait_for.epoch} of {WAIT_FOR} has not become visible within "
            f"{length_of_time(self._timeout_s)}: this server is at epoch {self._session.visible_epoch}",
            hint=f"Try again, or SET {WAIT_TIMEOUT} to more than that; RESET {WAIT_FOR} reads what is there.",
        )


def _seconds(value: str, name: str) -> float:
    try:
        return seconds(float(value), name)  # SET a = 5 comes as a text
    except ValueError:
        return seconds(value, name)
