"""What is written along with epochs, or by itself when none come: a log beside the log."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Protocol


@dataclass(frozen=True)
class Writes:
    """Keys to put and to delete, and what they stand for, should they have to be put back."""

    puts: dict[bytes, bytes] = field(default_factory=dict)
    deletes: tuple[bytes, ...] = ()
    entries: tuple[Any, ...] = ()


class Alongside(Protocol):
    """Something that has things to write now and then."""

    def take(self) -> Writes:
        """What has to be written; it is not given out again unless it is put back."""

    def put_back(self, writes: Writes) -> None:
        """The write failed."""


class Nothing:
    """For a journal that has epochs alone."""

    def take(self) -> Writes:
        return Writes()

    def put_back(self, writes: Writes) -> None:
        pass
