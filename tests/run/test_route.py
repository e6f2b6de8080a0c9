"""Where rows go depends on the rows alone: a task that Spark runs again may have them in another order."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pytest

from penstock.run.program import Edge
from penstock.run.ranges import Ranges
from penstock.run.route import routed
from penstock.zset.column import from_pylist
from penstock.zset.types import BIGINT, VARCHAR
from penstock.zset.zset import ZSet

TYPES = (BIGINT, VARCHAR)


def _sent(edge: Edge, rows: ZSet) -> dict[tuple[int, int], Counter[Any]]:
    """By edge and partition the rows that went there, with their weights."""
    found: dict[tuple[int, int], Counter[Any]] = {}
    for code, target, part in routed(edge, 3, rows, Ranges.even(4), None):
        assert isinstance(part, ZSet)
        columns = [c.to_pylist() for c in part.columns]
        there = found.setdefault((code, target), Counter())
        there.update(zip(*columns, part.weights.tolist(), strict=True))
    return found


@pytest.mark.parametrize(
    "edge", [Edge(1, 1, None, TYPES), Edge(1, 1, (0,), TYPES), Edge(1, 1, (0,), TYPES, spread=True)]
)
def test_another_order_changes_nothing(edge: Edge, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("penstock.run.hot_keys.HOT_KEY_ROWS_MIN", 10)
    chance = np.random.default_rng(1)
    numbers = np.where(chance.random(300) < 0.4, 7, chance.integers(0, 50, 300)).tolist()
    columns = (from_pylist(BIGINT, numbers), from_pylist(VARCHAR, [str(n % 3) for n in range(300)]))
    rows = ZSet(columns, chance.integers(1, 3, 300))
    expected = _sent(edge, rows)
    assert len({target for _, target in expected}) == 4
    assert _sent(edge, rows.take(chance.permutation(300))) == expected
