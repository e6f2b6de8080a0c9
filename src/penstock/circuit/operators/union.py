"""union: UNION ALL.

d (A + B) = dA + dB        linear, no state
"""

from __future__ import annotations

from collections.abc import Sequence

from penstock.circuit.operator import Delta, Result, Stateless
from penstock.state.arrangement import Arrangement
from penstock.zset.zset import ZSet, union


class Union(Stateless):
    name = "union"

    def step(self, deltas: Sequence[Delta], state: Sequence[Arrangement]) -> Result:
        return union([d for d in deltas if isinstance(d, ZSet)]), ()
