"""A small memory of what was worked out for texts: bounded, and emptied when it is full."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

from penstock.base.limits import REMEMBERED_ANSWERS_MAX, REMEMBERED_TEXT_MAX

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class Remembered(Generic[K, V]):
    """Clients say the same again and again, and reading it costs more than most of it does.

    >>> memory = Remembered()
    >>> memory.get("a", len), memory.get("a", lambda _: 5)
    (1, 1)
    """

    def __init__(self) -> None:
        self._known: dict[K, V] = {}

    def get(self, key: K, work: Callable[[K], V]) -> V:
        known = self._known
        if key in known:
            return known[key]
        value = work(key)
        text = key[0] if isinstance(key, tuple) else key
        if len(str(text)) <= REMEMBERED_TEXT_MAX:
            if len(known) >= REMEMBERED_ANSWERS_MAX:
                known.clear()
            known[key] = value
        return value
