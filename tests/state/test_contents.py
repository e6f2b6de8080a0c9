"""Contents: loads that stay unsorted, a log, an arrangement; together always the same bag of rows."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

from penstock.base.limits import LOG_ROWS_MAX
from penstock.kernels import order
from penstock.state import contents as module
from penstock.state.contents import Contents
from penstock.zset import weights
from penstock.zset.column import from_pylist
from penstock.zset.types import BIGINT, VARCHAR
from penstock.zset.zset import ZSet, union

TYPES = (BIGINT, VARCHAR)


def zset(rows: list[tuple[int | None, str]], weight: np.ndarray) -> ZSet:
    keys, texts = [r[0] for r in rows], [r[1] for r in rows]
    return ZSet((from_pylist(BIGINT, keys), from_pylist(VARCHAR, texts)), weight)


def bag(rows: ZSet) -> Counter[tuple[int | None, str]]:
    assert (rows.weights >= 0).all()
    found: Counter[tuple[int | None, str]] = Counter()
    for key, text, weight in zip(*(c.to_pylist() for c in rows.columns), rows.weights.tolist(), strict=True):
        found[key, text] += weight
    return +found


@pytest.mark.parametrize("seed", range(20))
def test_loads_removals_and_reads_in_any_order(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "LOG_ROWS_MAX", 8)
    monkeypatch.setattr(module, "LOG_DELTAS_MAX", 3)
    monkeypatch.setattr(weights, "_ROWS_MIN", 2)
    random = np.random.default_rng(seed)
    contents = Contents("t", TYPES)
    expected: Counter[tuple[int | None, str]] = Counter()
    for _ in range(40):
        kind = random.integers(0, 4)
        if kind == 0 and expected:
            gone = list(expected)[: int(random.integers(1, 4))]
            counts = contents.weights_of(zset(gone, np.ones(len(gone), np.int64)))
            assert counts.tolist() == [expected[row] for row in gone]
            contents.append(zset(gone, -counts))
            for row in gone:
                del expected[row]
        elif kind == 1:
            assert bag(contents.rows()) == expected
        else:
            count = int(random.integers(1, 20))
            keys = [None if k == 0 else int(k) for k in random.integers(0, 6, count)]
            rows = [(k, "ab"[int(x)]) for k, x in zip(keys, random.integers(0, 2, count), strict=True)]
            weight = int(random.integers(1, 3))
            contents.append(zset(rows, weights.constant(weight, count)))
            expected.update({row: weight * n for row, n in Counter(rows).items()})
    assert bag(contents.rows()) == expected
    assert contents.row_count() >= len(expected)


def test_a_load_is_not_sorted_before_something_is_removed() -> None:
    contents = Contents("t", (BIGINT,))
    count = LOG_ROWS_MAX
    contents.append(ZSet((from_pylist(BIGINT, list(range(count))),), weights.constant(1, count)))
    assert contents.rows().columns[0].values.tolist() == list(range(count))
    assert contents.nbytes() == 8 * count + 8
    one = ZSet((from_pylist(BIGINT, [5]),), np.array([-1]))
    assert contents.weights_of(one).tolist() == [1]
    contents.append(one)
    assert contents.weights_of(one).tolist() == [0]
    assert sorted(contents.rows().columns[0].values.tolist()) == [i for i in range(count) if i != 5]


def test_equal_weights_stay_one_number() -> None:
    many = weights.constant(1, 5_000)
    assert weights.is_constant(weights.take(many, np.arange(100)))
    assert weights.nbytes(weights.concat([many, np.ones(3, np.int64)])) == 8
    assert weights.concat([many, np.array([1, 2])]).tolist() == [1] * 5_001 + [2]
    both = union([ZSet((), many), ZSet((), many)])
    assert len(both) == 10_000
    assert weights.is_constant(both.weights)


@pytest.mark.parametrize("tied_runs", [3, 500])
def test_hashes_that_differ_in_their_low_bits_only_are_sorted(tied_runs: int) -> None:
    random = np.random.default_rng(tied_runs)
    hashes = random.integers(0, 2**63, 6_000, np.uint64) << np.uint64(1)
    for i in range(tied_runs):
        hashes[10 * i : 10 * i + 5] = np.uint64(i + 1) << np.uint64(32)
        hashes[10 * i : 10 * i + 5] += random.integers(0, 3, 5, np.uint64)
    found, arranged = order.sorted_hashes(hashes)
    assert found.tolist() == np.argsort(hashes, kind="stable").tolist()
    assert arranged.tolist() == hashes[found].tolist()
