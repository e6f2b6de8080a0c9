"""Partitions: consecutive ranges of hashes that together are all of them."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from penstock.circuit.fragment import HASHES, partition_range


@dataclass(frozen=True)
class Ranges:
    """Where each partition's hashes begin. State knows nothing of it: every epoch may have another one.

    >>> halves = Ranges.even(2)
    >>> halves.of(1) == (2**63, 2**64), halves.split([1]).of(1) == (2**63, 2**63 + 2**62)
    (True, True)
    """

    starts: tuple[int, ...]

    @staticmethod
    def even(count: int) -> Ranges:
        return Ranges(tuple(partition_range(p, count)[0] for p in range(count)))

    def __len__(self) -> int:
        return len(self.starts)

    def of(self, partition: int) -> tuple[int, int]:
        """From the first hash up to, not including, the last."""
        after = partition + 1
        return self.starts[partition], self.starts[after] if after < len(self.starts) else HASHES

    @cached_property
    def _bounds(self) -> np.ndarray:
        return np.array(self.starts, np.uint64)

    def owners(self, hashes: np.ndarray) -> np.ndarray:
        """The partition that owns each hash."""
        return np.searchsorted(self._bounds, hashes, "right") - 1

    def split(self, partitions: list[int]) -> Ranges:
        """The same, each of these partitions cut in two at its middle."""
        cuts = [sum(self.of(p)) // 2 for p in partitions]
        return Ranges(tuple(sorted({*self.starts, *cuts})))
