"""How fresh a session's reads must be: freshness tokens, and `SET freshness`.

    SHOW penstock.token                       names this session's newest commit, or what it would read now
    SET penstock.wait_for = '<token>'         reads wait until that commit is visible here
    SET penstock.wait_timeout = '5s'          and fail after this long
    SET freshness = '1s'                      reads show all that was on storage so long ago, or wait until they do

The writer of a flow sees each of its commits at once, so there all of it is satisfied at once. It is for readers that
follow another process's flow: they look for new epochs now and then, and are a little behind.
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


class Freshness:
    """These settings of one session."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._wait_for: Token | None = None
        self._timeout_s = WAIT_FOR_TOKEN_SECONDS
        self._age_s: float | None = None

    def set(self, name: str, value: str | None) -> None:
        """Set one of them; None and an empty text: as it was at first."""
        value = (value or "").strip()
        if name == TOKEN:
            raise InvalidOption(
                f'the setting "{TOKEN}" cannot be changed', hint=f"SET {WAIT_FOR} = '<token>'."
            )
        if name == WAIT_FOR:
            self._wait_for = self._checked(value) if value else None
        elif name == WAIT_TIMEOUT:
            self._timeout_s = _seconds(value, name) if value else WAIT_FOR_TOKEN_SECONDS
        else:
            self._age_s = _seconds(value, name) if value and value.lower() != "any" else None

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
        if name == WAIT_FOR:
            return "" if self._wait_for is None else str(self._wait_for)
        if name == WAIT_TIMEOUT:
            return length_of_time(self._timeout_s)
        return "any" if self._age_s is None else length_of_time(self._age_s)

    @property
    def asks_nothing(self) -> bool:
        return self._wait_for is None and self._age_s is None

    def holds(self, began: float) -> bool:
        """Whether a statement that came at this time (of the monotonic clock) may read now."""
        session = self._session
        if self._wait_for is not None and session.visible_epoch < self._wait_for.epoch:
            return False
        return self._age_s is None or session.has_looked_since(began - self._age_s)

    def until(self, began: float) -> float:
        return began + self._timeout_s

    def check(self, began: float) -> None:
        """Raise if the time is up."""
        if self.holds(began) or time.monotonic() < self.until(began):
            return
        session, token = self._session, self._wait_for
        waited = length_of_time(self._timeout_s)
        if token is not None and session.visible_epoch < token.epoch:
            raise NotVisibleYet(
                f"epoch {token.epoch} of {WAIT_FOR} has not become visible within {waited}: "
                f"this server is at epoch {session.visible_epoch}",
                hint=f"Try again, or SET {WAIT_TIMEOUT} to more than that; RESET {WAIT_FOR} reads what is there.",
            )
        raise NotVisibleYet(
            f"nothing as fresh as the setting freshness asks for has been seen within {waited}",
            hint=f"Try again, SET {WAIT_TIMEOUT} to more than that, or SET {FRESHNESS} to more.",
        )


def _seconds(value: str, name: str) -> float:
    try:
        return seconds(float(value), name)  # SET a = 5 comes as a text
    except ValueError:
        return seconds(value, name)
