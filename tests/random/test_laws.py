"""Every law is associative and commutative and has its identity: state may be merged in any order."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.kernels import floatsum
from penstock.kernels.floatsum import FloatSum
from penstock.state.laws import LAWS, REASONS, Law
from penstock.state.measures import Measure

COUNT = 4
small = st.lists(st.integers(-(2**40), 2**40), min_size=COUNT, max_size=COUNT).map(
    lambda v: np.array(v, np.int64)
)
edge = st.lists(st.integers(-(2**63), 2**63 - 1), min_size=COUNT, max_size=COUNT).map(
    lambda v: np.array(v, np.int64)
)
wide = st.lists(st.integers(-(2**100), 2**100), min_size=COUNT, max_size=COUNT).map(
    lambda v: np.array(v, object)
)
floats = st.lists(st.floats(), min_size=COUNT, max_size=COUNT).map(
    lambda v: floatsum.from_values(np.array(v, np.float64), np.array([1, -1, 3, 2], np.int64))
)
KINDS = {"small integers": small, "integers at the edge": edge, "wide integers": wide, "floats": floats}


def same(a: Measure, b: Measure) -> bool:
    """Equal as values: how many limbs or which integer type they are held in does not matter."""
    if isinstance(a, FloatSum):
        assert isinstance(b, FloatSum)
        return not a.plus(b.negative()).nonzero().any()
    assert not isinstance(b, FloatSum)
    return [int(v) for v in a.tolist()] == [int(v) for v in b.tolist()]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("law", LAWS, ids=lambda law: law.title)
def test_law(law: Law, kind: str) -> None:
    values = KINDS[kind]

    @settings(max_examples=100, deadline=None, derandomize=True, database=None)
    @given(values, values, values)
    def holds(a: Measure, b: Measure, c: Measure) -> None:
        assert same(law.combine(law.combine(a, b), c), law.combine(a, law.combine(b, c)))
        assert same(law.combine(a, b), law.combine(b, a))
        zero = law.identity(a, COUNT)
        assert same(law.combine(a, zero), a)
        assert same(law.combine(zero, a), a)

    holds()


def test_laws_and_reasons_are_closed_lists() -> None:
    assert isinstance(LAWS, tuple)
    assert len({law.title for law in LAWS}) == len(LAWS)
    assert {
        "stateless",
        "extremum_requires_rmw",
        "clamp_not_a_law",
        "partition_recomputation",
        "unknown_udaf_properties",
    } <= set(REASONS)
