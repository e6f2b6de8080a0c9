"""Taking rows of several columns at once, and of text only when somebody looks at it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from penstock.native import kernels
from penstock.zset.column import Column, as_indices, concat, take_arrow
from penstock.zset.made_text import MadeText, made
from penstock.zset.types import SqlType


class TakenLater(Column):
    """Rows of an Arrow column of which only the places are known: they are taken when somebody looks.

    A join carries the text of its rows from look-up to look-up, and most rows are lost on the way:
    taking rows of such a column costs a numpy index. It keeps the whole source alive until then, so
    what is kept beyond a tick must be settled.

    >>> from penstock.zset.types import VARCHAR
    >>> later = TakenLater(VARCHAR, pa.array(["a", "b", "c"], pa.large_string()), np.array([2, 0]))
    >>> len(later), later.take(np.array([1, 0])), later.slice(0, 1)
    (2, Column(VARCHAR, ['a', 'c']), Column(VARCHAR, ['c']))
    """

    __slots__ = ("_index", "_source", "_taken")

    def __init__(self, type: SqlType, source: pa.Array | MadeText, index: np.ndarray) -> None:
        self.type = type
        self.valid = None
        self._source: pa.Array | MadeText | None = source
        self._index = index
        self._taken: pa.Array | None = None

    @property
    def values(self) -> Any:
        if self._taken is None:
            source = self._source
            if isinstance(source, MadeText):
                self._taken = source.take(self._index).values
            else:
                self._taken = take_arrow(source, as_indices(self._index))
            self._source = None
        return self._taken

    def places(self) -> tuple[pa.Array | MadeText, np.ndarray] | None:
        """The source and the rows of it; None once they have been taken."""
        return None if self._source is None else (self._source, self._index)

    def __len__(self) -> int:
        return len(self._index)

    def take(self, index: np.ndarray) -> Column:
        if self._source is None:
            return super().take(index)
        return TakenLater(self.type, self._source, self._index[index])

    def filter(self, mask: np.ndarray) -> Column:
        return self.take(np.flatnonzero(mask))

    def slice(self, start: int, stop: int) -> Column:
        if self._source is None:
            return super().slice(start, stop)
        return TakenLater(self.type, self._source, self._index[start:stop])

    def settle(self) -> None:
        assert self.values is not None


_AT_ONCE = frozenset((Column, MadeText))  # of which compiled code takes rows


def take_later(columns: Sequence[Column], index: np.ndarray) -> list[Column]:
    """`take_columns`, but text is not taken before somebody looks at it."""
    composed: dict[int, np.ndarray] = {}
    taken: list[Column] = []
    numbers = iter(take_columns([c for c in columns if c.type.kind != "arrow"], index))
    for column in columns:
        if column.type.kind != "arrow":
            taken.append(next(numbers))
            continue
        places = column.places() if isinstance(column, TakenLater) else None
        if places is None:
            taken.append(
                TakenLater(column.type, column if column.__class__ is MadeText else column.values, index)
            )
            continue
        source, before = places  # columns that were taken together share their index: composed once
        after = composed.get(id(before))
        if after is None:
            after = composed[id(before)] = before[index]
        taken.append(TakenLater(column.type, source, after))
    return taken


def take_columns(columns: Sequence[Column], index: np.ndarray) -> list[Column]:
    """The rows at these positions, of several columns: the index is prepared for Arrow once.

    >>> from penstock.zset.column import from_pylist
    >>> from penstock.zset.types import BIGINT, VARCHAR
    >>> take_columns([from_pylist(BIGINT, [1, 2]), from_pylist(VARCHAR, ["a", "b"])], np.array([1, 1]))
    [Column(BIGINT, [2, 2]), Column(VARCHAR, ['b', 'b'])]
    """
    if len(index) == 1:
        return [c.take(index) for c in columns]
    if kernels is not None:
        taken = _take_compiled(columns, index)
        if taken is not None:
            return taken
    indices = None
    taken = []
    for column in columns:
        type = column.type
        if type.kind != "arrow":
            valid = column.valid
            taken.append(Column(type, column.values[index], None if valid is None else valid[index]))
        elif isinstance(column, TakenLater):
            taken.append(column.take(index))
        else:
            if indices is None:
                indices = as_indices(index)
            taken.append(Column(type, take_arrow(column.values, indices)))
    return taken


def _take_compiled(columns: Sequence[Column], index: np.ndarray) -> list[Column] | None:
    """`take_columns` in one call of compiled code; None if there is a column that it does not know."""
    at_once = [c for c in columns if c.__class__ in _AT_ONCE]
    try:
        found = iter(kernels.take(at_once, index))
    # Nested values, integers of more than 64 bits, row numbers that are not int64; those that are outside, where the
    # plain way says so.
    except (TypeError, IndexError):
        return None
    count = len(index)
    return [made(c.type, count, next(found)) if c.__class__ in _AT_ONCE else c.take(index) for c in columns]


def gather_columns(sources: Sequence[Sequence[Column]], rows: Sequence[np.ndarray]) -> list[Column]:
    """Some rows of each source, one source below the other.

    >>> from penstock.zset.column import from_pylist
    >>> from penstock.zset.types import BIGINT
    >>> sources = [[from_pylist(BIGINT, [1, 2])], [from_pylist(BIGINT, [3, None])]]
    >>> gather_columns(sources, [np.array([1]), np.array([1, 0])])
    [Column(BIGINT, [2, None, 3])]
    """
    if kernels is not None:
        which, places = np.repeat(np.arange(len(rows)), [len(r) for r in rows]), np.concatenate(rows)
        try:
            found = kernels.gather([list(s) for s in sources], which, places)
        except TypeError:  # nested values, integers of more than 64 bits
            pass
        else:
            return [made(c.type, len(places), p) for c, p in zip(sources[0], found, strict=True)]
    parts = [take_later(columns, index) for columns, index in zip(sources, rows, strict=True)]
    return [concat(columns) for columns in zip(*parts, strict=True)]
