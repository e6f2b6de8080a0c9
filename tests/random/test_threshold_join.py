"""threshold_join against the comparison itself: both sides at random, with NULLs, NaN and equal values."""

from __future__ import annotations

import random
from collections import Counter
from typing import Any

import numpy as np
import pytest

from penstock.circuit.operators.threshold_join import ThresholdJoin
from penstock.plan.expr import Col
from penstock.state.arrangement import Arrangement
from penstock.zset.column import Column, from_pylist
from penstock.zset.types import BIGINT, DOUBLE, HUGEINT, VARCHAR, SqlType
from penstock.zset.zset import ZSet

VALUES: dict[SqlType, list[Any]] = {
    DOUBLE: [None, float("nan"), float("-inf"), float("inf"), -0.0, 0.0, 1.5, -2.5],
    VARCHAR: [None, "", "a", "ab", "b", "\u00e4"],
    HUGEINT: [None, 0, 1, -(10**30), 10**30, 2**63],
}


def rank(value: Any) -> tuple[bool, Any]:
    """The order of SQL: NaN is one value after all others, text goes by its bytes."""
    if isinstance(value, str):
        return False, value.encode()
    return (True, 0) if value != value else (False, value)


def holds(value: Any, comparison: str, bound: Any) -> bool:
    if value is None or bound is None:
        return False
    a, b = rank(value), rank(bound)
    return {"<": a < b, "<=": a <= b, ">": a > b, ">=": a >= b}[comparison]


def column(type: SqlType, values: list[Any]) -> Column:
    return from_pylist(type, values)


@pytest.mark.parametrize("comparison", ["<", "<=", ">", ">="])
@pytest.mark.parametrize("type", VALUES, ids=str)
@pytest.mark.parametrize("seed", range(6))
def test_what_comes_out_adds_up_to_the_comparison(type: SqlType, comparison: str, seed: int) -> None:
    chance = random.Random(seed)
    operator = ThresholdJoin([BIGINT, type], Col(type, 1), comparison, Col(type, 0), ["k", "x"], ["t"])
    state = [Arrangement("", layout) for layout in operator.layouts]
    rows: list[tuple[int, Any]] = []
    bound: list[Any] = []
    out: Counter[int] = Counter()
    for _ in range(40):
        left: list[tuple[tuple[int, Any], int]] = []
        for _ in range(chance.choice((0, 0, 1, 3, 300))):
            if rows and chance.random() < 0.4:
                left.append((rows.pop(chance.randrange(len(rows))), -1))
            else:
                rows.append((chance.randint(0, 3), chance.choice(VALUES[type])))
                left.append((rows[-1], 1))
        right = []
        if chance.random() < 0.6:
            right += [(b, -1) for b in bound]
            bound = [chance.choice(VALUES[type])] if chance.random() < 0.8 else []
            right += [(b, 1) for b in bound]
        deltas = [_rows(type, left), _bounds(type, right)]
        if all(d is None for d in deltas):
            continue
        found, appended = operator.step(deltas, state)
        for arrangement, batch in zip(state, appended, strict=True):
            if batch is not None:
                arrangement.append(batch)
        if found is not None:
            assert isinstance(found, ZSet)
            for k, weight in zip(found.columns[0].to_pylist(), found.weights.tolist(), strict=True):
                out[k] += weight
        wanted = Counter(k for k, x in rows if bound and holds(x, comparison, bound[0]))
        assert {k: n for k, n in out.items() if n} == wanted, f"seed {seed}"


def _rows(type: SqlType, left: list[tuple[tuple[int, Any], int]]) -> ZSet | None:
    if not left:
        return None
    columns = (column(BIGINT, [k for (k, _), _ in left]), column(type, [x for (_, x), _ in left]))
    return ZSet(columns, np.array([w for _, w in left]))


def _bounds(type: SqlType, right: list[tuple[Any, int]]) -> ZSet | None:
    if not right:
        return None
    return ZSet((column(type, [b for b, _ in right]),), np.array([w for _, w in right]))
