"""union: UNION ALL.

d (A + B) = dA + dB        linear, no state
"""

from __future__ import annotations

from collections.abc import Sequence

from penstock.circuit.operator import Delta, Result, Stateless
from penstock.state.arrangement import Arrangement
from penstock.zset.zset import ZSet, union


class Union(Stateless):
    """The deltas of all inputs.

    >>> import numpy as np
    >>> from penstock.zset.column import from_pylist
    >>> from penstock.zset.types import BIGINT
    >>> one = ZSet((from_pylist(BIGINT, [1, 2]),), np.array([1, -1]))
    >>> Union().step([one, None, one], [])[0]
    ZSet([((1,), 1), ((2,), -1), ((1,), 1), ((2,), -1)])
    """

    name = "union"

    def step(self, deltas: Sequence[Delta], state: Sequence[Arrangement]) -> Result:
        return union([d for d in deltas if isinstance(d, ZSet)]), ()
