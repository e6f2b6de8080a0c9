"""A delta in several pieces: what many tasks gave, each in a file of its own."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

from penstock.state.batch import Batch
from penstock.zset.zset import ZSet, union


class Scattered:
    """Batches that together are one delta. Nothing is read before somebody looks at the rows."""

    __slots__ = ("parts",)

    def __init__(self, parts: Sequence[Batch]) -> None:
        assert parts
        self.parts = tuple(parts)

    def __len__(self) -> int:
        return sum(len(part) for part in self.parts)

    def nbytes(self) -> int:
        return sum(part.nbytes() for part in self.parts)

    def zset(self) -> ZSet:
        return union([part.zset() for part in self.parts])


Rows: TypeAlias = ZSet | Scattered


def rows_of(delta: Rows) -> ZSet:
    return delta.zset() if isinstance(delta, Scattered) else delta
