"""Sorting: by hash, and by SQL's ORDER BY.

An order code is a uint64 that compares as the value does in SQL (NaN last, -0.0 equal to 0.0), so
that one numpy sort orders any fixed-width column.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.native import kernels
from penstock.zset.column import Column

_TOP_BIT = np.uint64(1 << 63)
_PACKED_ROWS_MIN = 4096
_PACKED_ROWS_MAX = 1 << 28
_TIED_RUNS_MAX = 64
_BLOCK_ROWS = 1 << 15
_DAY_NS = 24 * 60 * 60 * 10**9


@dataclass(frozen=True)
class OrderKey:
    """One term of an ORDER BY."""

    column: int
    descending: bool = False
    nulls_first: bool = False


def sort_order(hashes: np.ndarray) -> np.ndarray:
    """The stable order that sorts hashes.

    For many rows, the position is packed into the low bits of the hash: sorting plain integers is two
    to three times as fast as argsort, and the few ties that the lost bits make are put right after.

    >>> sort_order(np.array([5, 1, 5], np.uint64)).tolist()
    [1, 0, 2]
    """
    return sorted_hashes(hashes)[0]


def sorted_hashes(hashes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """`sort_order`, and the hashes in that order."""
    if _PACKED_ROWS_MIN <= len(hashes) <= _PACKED_ROWS_MAX:
        return _sort_packed(hashes)
    if kernels is not None and len(hashes) < _PACKED_ROWS_MIN and hashes.dtype == np.uint64:
        try:
            return kernels.sort(np.ascontiguousarray(hashes))
        except TypeError:  # hashes that lie across words
            pass
    order = np.argsort(hashes, kind="stable")
    return order, hashes[order]


def _sort_packed(hashes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    count = len(hashes)
    low = np.uint64((1 << (count - 1).bit_length()) - 1)
    packed = hashes & ~low
    places = np.arange(min(count, _BLOCK_ROWS), dtype=np.uint64)
    for start in range(0, count, _BLOCK_ROWS):  # block by block: less memory to touch for the first time
        block = packed[start : start + _BLOCK_ROWS]
        block += places[: len(block)]  # the low bits are zero, so this sets them
        block += np.uint64(start)
    packed.sort()
    packed &= low
    order = packed.view(np.int64)
    found = hashes.take(order)
    wrong = np.flatnonzero(found[1:] < found[:-1])
    if len(wrong):
        return _with_ties_sorted(order, found, wrong, low)
    return order, found


def _with_ties_sorted(
    order: np.ndarray, found: np.ndarray, wrong: np.ndarray, low: np.uint64
) -> tuple[np.ndarray, np.ndarray]:
    """Put right the runs of hashes that differ in their low bits only; `wrong` has a place in each of them."""
    tops = np.unique(found[wrong] & ~low)
    if len(tops) > _TIED_RUNS_MAX:
        within = np.argsort(found, kind="stable")
        return order[within], found[within]
    # By their high bits all hashes are in order, so a binary search for the ends of a run is right.
    starts, stops = found.searchsorted(tops), found.searchsorted(tops | low, "right")
    for start, stop in zip(starts.tolist(), stops.tolist(), strict=True):
        within = np.argsort(found[start:stop], kind="stable")
        order[start:stop] = order[start:stop][within]
        found[start:stop] = found[start:stop][within]
    return order, found


def order_code(column: Column, descending: bool = False, nulls_first: bool = False) -> list[np.ndarray]:
    """Codes of the rows, most significant first: one, or two where there are NULLs.

    Codes of text hold only within the column that they were made of.
    """
    code = _arrow_code(column.values) if column.type.kind == "arrow" else _number_code(column.values)
    if descending:
        code = ~code
    valid = column.validity()
    if valid is None:
        return [code]
    rank = valid if nulls_first else ~valid
    return [rank.astype(np.uint64), np.where(valid, code, np.uint64(0))]


def lexsort(codes: Sequence[np.ndarray]) -> np.ndarray:
    """The order that sorts by the first code, then the second, ..."""
    return np.lexsort(tuple(reversed(codes)))


def sort_rows(
    columns: Sequence[Column], order: Sequence[OrderKey], runs: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """The stable order of rows by `runs` (ascending numbers or hashes), then by the order's columns; and, in
    that order, whether a row differs from the one before it.

    A column is only looked at for the rows that are still tied: most are told apart by the first.
    """
    count = len(runs)
    rows, arranged = sorted_hashes(runs)
    change = np.ones(count, np.bool_)
    change[1:] = arranged[1:] != arranged[:-1]
    for key in order:
        tied = ~change
        tied[:-1] |= ~change[1:]
        places = np.flatnonzero(tied)
        if not len(places):
            break
        subset = rows[places]
        codes = order_code(columns[key.column].take(subset), key.descending, key.nulls_first)
        number = np.cumsum(change)[places]
        within = lexsort([number, *codes])
        rows[places] = subset[within]
        differs = np.zeros(len(places), np.bool_)
        for code in (number, *codes):
            ordered = code[within]
            differs[1:] |= ordered[1:] != ordered[:-1]
        change[places[1:]] |= differs[1:]
    return rows, change


def _number_code(values: np.ndarray) -> np.ndarray:
    if values.dtype == object:
        return np.unique(values, return_inverse=True)[1].astype(np.uint64)
    if values.dtype.kind == "f":
        values = values.astype(np.float64) + 0.0
        bits = np.where(values != values, np.uint64(0x7FF8000000000000), values.view(np.uint64))
        return np.where(bits & _TOP_BIT, ~bits, bits | _TOP_BIT)
    if values.dtype.kind == "i":
        return values.astype(np.int64).view(np.uint64) ^ _TOP_BIT
    return values.astype(np.uint64)


def _arrow_code(array: pa.Array) -> np.ndarray:
    if pa.types.is_nested(array.type) or pa.types.is_interval(array.type):
        keys = [nested_key(v) for v in array.to_pylist()]
        ranks = {key: rank for rank, key in enumerate(sorted(set(keys)))}
        return np.array([ranks[key] for key in keys], np.uint64)
    if pa.types.is_large_string(array.type):
        array = array.cast(pa.large_binary())  # by bytes, which for UTF-8 is by code point
    return pc.rank(array, tiebreaker="dense").to_numpy().astype(np.uint64)


def nested_key(value: Any) -> tuple[Any, str]:
    """A nested value or an interval in a form that Python orders as SQL does. Those that are alike in the order but not
    the same (30 days and a month) are told apart by their text.

    >>> sorted([[1, None], [10], [1, 2], [], [1]], key=nested_key)
    [[], [1], [1, 2], [1, None], [10]]
    """
    return _comparable(value), repr(value)


def _comparable(value: Any) -> tuple[Any, ...]:
    """Item by item, NaN after all numbers and NULL after everything."""
    if value is None:
        return (2,)
    if value != value:
        return (1,)
    if isinstance(value, pa.MonthDayNano):  # as DuckDB has it: a month is 30 days, a day 24 hours
        return 0, (value.months * 30 + value.days) * _DAY_NS + value.nanoseconds
    if isinstance(value, str):
        return 0, value.encode()
    if isinstance(value, dict):
        return 0, tuple([_comparable(v) for v in value.values()])
    if isinstance(value, (list, tuple)):
        return 0, tuple([_comparable(v) for v in value])
    return 0, value
