"""Merge laws, and the reasons for having none: closed lists that EXPLAIN INCREMENTAL quotes.

A law says how what two batches keep under one row becomes one: an associative and commutative
operation with an identity. State under a law is updated by appending, and merged, combined before a
shuffle and recovered by the same operation.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from penstock.state import measures
from penstock.state.measures import Measure


@dataclass(frozen=True)
class Law:
    """An operation on measures, with its version: a change of meaning is a new version."""

    name: str
    version: int
    combine: Callable[[Measure, Measure], Measure]
    identity: Callable[[Measure, int], Measure]  # as many zeros as asked for, of the measure's kind

    @property
    def title(self) -> str:
        return f"{self.name} v{self.version}"


# Rows of a bag: the weights of equal rows add.
WEIGHT_SUM = Law("weight_sum", 1, measures.plus, measures.zeros_like)
# Groups: counts and exact sums of equal keys add. Integers and decimals are exact at any size.
ACCUMULATOR_SUM = Law("accumulator_sum", 1, measures.plus, measures.zeros_like)
# Sums of floats, as limbs that add exactly (kernels/floatsum.py).
FLOAT_LIMB_SUM = Law("float_limb_sum", 1, measures.plus, measures.zeros_like)

LAWS = (WEIGHT_SUM, ACCUMULATOR_SUM, FLOAT_LIMB_SUM)

# Why a node has no law, or needs more than one.
REASONS = {
    "stateless": "linear: the output's change is a function of the input's change alone",
    "extremum_requires_rmw": "MIN and MAX read the rows of a group again when their value is removed",
    "clamp_not_a_law": "a weight cut off at zero or one does not add; the counts below it do",
    "partition_recomputation": "the first rows of an order are found again from where it changed",
    "unknown_udaf_properties": "nothing is known about how the aggregate's states combine",
}
