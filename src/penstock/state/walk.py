"""Walking the rows of one key in order, over all batches, from a given row on.

For the ends of large groups: the next extreme, the rows that refill a top-k. Python, row by row,
because it stops after the few rows that it needs; what is read for many keys at once is vectorised
elsewhere.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterator, Sequence
from functools import total_ordering
from typing import Any

import numpy as np

from penstock.kernels.order import OrderKey, nested_key
from penstock.state.batch import Batch, Layout
from penstock.zset.column import Column, equal_rows, nulls
from penstock.zset.types import SqlType

SortKey = tuple[Any, ...]


@total_ordering
class _Descending:
    """A value that compares the other way round."""

    __slots__ = ("value",)

    def __init__(self, value: Any) -> None:
        self.value = value

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Descending) and self.value == other.value

    def __lt__(self, other: _Descending) -> bool:
        return bool(other.value < self.value)


def sort_key(columns: Sequence[Column], order: Sequence[OrderKey]) -> Callable[[int], SortKey]:
    """The function from a row number to a key that compares as the order says."""
    terms = [(_reader(columns[k.column]), k.descending, k.nulls_first) for k in order]

    def key(row: int) -> SortKey:
        parts: list[Any] = []
        for read, descending, nulls_first in terms:
            value = read(row)
            if value is None:
                parts.append((-1 if nulls_first else 1, 0))
            else:
                parts.append((0, _Descending(value) if descending else value))
        return tuple(parts)

    return key


def _reader(column: Column) -> Callable[[int], Any]:
    if column.type.kind == "arrow":
        if column.type.is_text:
            return lambda i: None if (v := column.values[i].as_py()) is None else v.encode()
        if column.type.id == "BLOB":
            return lambda i: column.values[i].as_py()
        return lambda i: None if (v := column.values[i].as_py()) is None else nested_key(v)
    values, valid = column.values, column.valid
    if values.dtype.kind == "f":  # NaN is one value, after all others

        def read(i: int) -> Any:
            if valid is not None and not valid[i]:
                return None
            v = float(values[i])
            return (1, 0.0) if v != v else (0, v)

        return read
    if valid is None:
        return lambda i: values[i]
    return lambda i: values[i] if valid[i] else None


def walk(
    layout: Layout, batches: Sequence[Batch], hash: np.uint64, key: Sequence[Column], start: SortKey | None
) -> Iterator[tuple[SortKey, Batch, int, int]]:
    """The rows of a key with sort key >= start, in order: (sort key, batch, row, weight), one by one."""
    runs = [_run(layout, b, number, hash, key, start) for number, b in enumerate(batches)]
    for found, number, row in heapq.merge(*runs):
        batch = batches[number]
        yield found, batch, row, int(batch.weights[row])


def _run(
    layout: Layout, batch: Batch, number: int, hash: np.uint64, key: Sequence[Column], start: SortKey | None
) -> Iterator[tuple[SortKey, int, int]]:
    low = int(batch.hashes.searchsorted(hash, "left"))
    high = int(batch.hashes.searchsorted(hash, "right"))
    if low == high:
        return
    of_row = sort_key(batch.columns, layout.order)
    if start is not None:
        first, last = low, high
        while first < last:
            middle = (first + last) // 2
            if of_row(middle) < start:
                first = middle + 1
            else:
                last = middle
        low = first
    for row in range(low, high):
        if _has_key(layout, batch, row, key):
            yield of_row(row), number, row


def _has_key(layout: Layout, batch: Batch, row: int, key: Sequence[Column]) -> bool:
    return all(
        bool(equal_rows(batch.columns[position].slice(row, row + 1), wanted)[0])
        for position, wanted in zip(layout.key, key, strict=True)
    )


def first_alive(
    layout: Layout,
    batches: Sequence[Batch],
    hash: np.uint64,
    key: Sequence[Column],
    start: Column | None,
    type: SqlType,
) -> Column:
    """The first value of the last column, from `start` on, whose weights add up to more than zero."""
    begin = None
    if start is not None:
        order = layout.order[0]
        begin = sort_key([start], [OrderKey(0, order.descending, order.nulls_first)])(0)
    current: SortKey | None = None
    where: tuple[Batch, int] | None = None
    weight = 0
    for found, batch, row, w in walk(layout, batches, hash, key, begin):
        if found != current:
            if weight > 0 and where is not None:
                break
            current, where, weight = found, (batch, row), 0
        weight += w
    if weight > 0 and where is not None:
        batch, row = where
        return batch.columns[-1].slice(row, row + 1)
    return nulls(type, 1)
