"""A batch of a few groups as Python integers, which becomes arrays when somebody asks for them: see zset/few.py."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from penstock.kernels.hashing import hash_plain
from penstock.kernels.wide import integers
from penstock.state.batch import Batch
from penstock.zset.few import Row, columns_of
from penstock.zset.types import SqlType

Added = tuple[int, ...]  # what is added to each measure of a group


class FewGroups(Batch):
    """What is added to the measures of some (different) groups.

    >>> from penstock.zset.types import BIGINT
    >>> groups = FewGroups((BIGINT,), [((7,), (1, 10)), ((8,), (1, 20))])
    >>> len(groups), sorted(zip(groups.columns[0].to_pylist(), groups.measures[1].tolist()))
    (2, [(7, 10), (8, 20)])
    """

    __slots__ = ("groups", "types")

    def __init__(self, types: Sequence[SqlType], groups: list[tuple[Row, Added]]) -> None:
        self.types = types
        self.groups = groups
        self.ref = None

    def __len__(self) -> int:
        return len(self.groups)

    def __getattr__(self, name: str) -> Any:
        # Only what has not been set comes here: the arrays are made once.
        if name not in ("hashes", "columns", "measures"):
            raise AttributeError(name)
        made = batch_of_groups(self.types, self.groups)
        self.columns, self.measures, self.hashes = made.columns, made.measures, made.hashes
        return getattr(self, name)


def batch_of_groups(types: Sequence[SqlType], groups: Iterable[tuple[Row, Added]]) -> Batch:
    """Groups, one at least, as a batch: in the order of their hashes."""
    hashed = sorted([(hash_plain(key), key, added) for key, added in groups], key=_hash_of)
    hashes, keys, changes = zip(*hashed, strict=True)
    measures = tuple([integers(values) for values in zip(*changes, strict=True)])
    return Batch(np.array(hashes, np.uint64), columns_of(types, keys), measures)


def _hash_of(group: tuple[int, Row, Added]) -> int:
    return group[0]
