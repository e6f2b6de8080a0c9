"""Exact arithmetic: int64 or Python integers, never a wrapped number."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.kernels import wide
from penstock.zset.column import narrow

EDGES = st.sampled_from(
    [0, 1, -1, 2**31, -(2**31), 2**32 - 1, 2**62, 2**63 - 1, -(2**63), 2**63, 10**30, -(10**37)]
)
INTEGERS = st.one_of(
    EDGES, st.integers(-1000, 1000), st.integers(-(2**63), 2**63 - 1), st.integers(-(10**38), 10**38)
)


def array(items: list[int]) -> np.ndarray:
    values = np.empty(len(items), object)
    values[:] = items
    return narrow(values)


def check(found: np.ndarray, expected: list[int]) -> None:
    assert found.tolist() == expected
    fits = all(-(2**63) <= v < 2**63 for v in expected)
    assert found.dtype == (np.int64 if fits else object)


def _truncating(a: int, b: int) -> int:
    return abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)


@pytest.mark.parametrize(
    ("function", "plain"),
    [
        (wide.add, operator.add),
        (wide.subtract, operator.sub),
        (wide.multiply, operator.mul),
        (wide.divide, _truncating),
        (wide.remainder, lambda a, b: a - b * _truncating(a, b)),
    ],
)
@given(pairs=st.lists(st.tuples(INTEGERS, INTEGERS), max_size=6))
def test_binary(
    function: Callable[..., np.ndarray], plain: Callable[..., Any], pairs: list[tuple[int, int]]
) -> None:
    if function in (wide.divide, wide.remainder):
        pairs = [(a, b or 1) for a, b in pairs]
    check(
        function(array([a for a, _ in pairs]), array([b for _, b in pairs])), [plain(a, b) for a, b in pairs]
    )
    if pairs:
        constant = pairs[0][1]
        check(
            function(array([a for a, _ in pairs]), array([constant])), [plain(a, constant) for a, _ in pairs]
        )


@given(st.lists(INTEGERS, max_size=6))
def test_negate(items: list[int]) -> None:
    check(wide.negate(array(items)), [-i for i in items])


@given(st.lists(INTEGERS, max_size=6), st.integers(-20, 20))
def test_rescale(items: list[int], digits: int) -> None:
    power = 10 ** abs(digits)
    if digits >= 0:
        expected = [i * power for i in items]
    else:
        expected = [(abs(i) + power // 2) // power * (1 if i >= 0 else -1) for i in items]
    check(wide.rescale(array(items), digits), expected)


@given(
    st.lists(st.lists(st.tuples(INTEGERS, st.integers(-3, 3)), min_size=1, max_size=4), max_size=4),
    st.sampled_from([1, 2**20, 2**40]),
)
def test_sum_groups(groups: list[list[tuple[int, int]]], factor: int) -> None:
    rows = [row for group in groups for row in group]
    values, weights = array([v for v, _ in rows]), np.array([w * factor for _, w in rows], np.int64)
    starts = np.cumsum([0, *(len(g) for g in groups)])[:-1].astype(np.int64)
    check(wide.sum_groups(values, weights, starts), [sum(v * w * factor for v, w in g) for g in groups])


@pytest.mark.parametrize("dtype", [np.bool_, np.int8, np.uint8, np.int32, np.uint32, np.uint64])
def test_sum_groups_of_narrow_types(dtype: type) -> None:
    values = np.ones(5, dtype)
    assert wide.sum_groups(values, np.array([1, 1, 1, -1, 1]), np.array([0, 3])).tolist() == [3, 0]
    assert wide.sum_groups(values[:1], np.array([-4]), np.array([0])).tolist() == [-4]


def test_sum_groups_of_many_extremes() -> None:
    values = np.full(1000, 2**63 - 1)
    check(
        wide.sum_groups(values, np.ones(1000, np.int64), np.array([0, 999])), [999 * (2**63 - 1), 2**63 - 1]
    )
