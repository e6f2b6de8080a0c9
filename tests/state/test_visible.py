"""Reading without merging gives the rows that merging gives."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

from penstock import Flow
from penstock.kernels import hashing
from penstock.state.batch import Batch, Layout, build, merge
from penstock.state.visible import visible
from penstock.zset.column import from_pylist
from penstock.zset.types import BIGINT, VARCHAR
from penstock.zset.zset import ZSet

TYPES = (BIGINT, VARCHAR)


def batch(layout: Layout, rows: list[tuple[int, str | None]], weights: list[int]) -> Batch:
    columns = (from_pylist(BIGINT, [r[0] for r in rows]), from_pylist(VARCHAR, [r[1] for r in rows]))
    return build(layout, columns, (np.array(weights, np.int64),))


def counted(rows: ZSet) -> Counter[tuple[object, ...]]:
    found: Counter[tuple[object, ...]] = Counter()
    for row, weight in zip(
        zip(*(c.to_pylist() for c in rows.columns), strict=True), rows.weights, strict=True
    ):
        found[row] += int(weight)
    return +found


@pytest.mark.parametrize("colliding", [False, True])
@pytest.mark.parametrize("seed", range(40))
def test_random_bags(seed: int, colliding: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    if colliding:
        monkeypatch.setattr(hashing, "COLLIDE_BITS", 2)
    rng = np.random.default_rng(seed)
    layout = Layout(TYPES, (0, 1))
    pool = [(int(i), None if i % 7 == 0 else f"t{i % 5}") for i in range(60)]
    rows = [pool[i] for i in rng.integers(0, 60, 200)]
    batches = [batch(layout, rows, [1] * len(rows))]
    now = Counter(rows)
    for _ in range(rng.integers(0, 4)):
        changed, weights = [], []
        for _ in range(rng.integers(1, 8)):
            if rng.random() < 0.6 and now:
                row = list(now.elements())[rng.integers(0, now.total())]
                now[row] -= 1
                now = +now
                weights.append(-1)
            else:
                row = pool[rng.integers(0, 60)]
                now[row] += 1
                weights.append(1)
            changed.append(row)
        batches.append(batch(layout, changed, weights))
    found = visible(layout, batches)
    assert found is not None
    kept = np.setdiff1d(np.arange(len(found.base)), found.gone)
    assert len(kept) == len(found.base) - len(found.gone)
    assert counted(found.base.take(kept).zset()) + counted(found.rest) == now
    assert counted(merge(layout, batches).zset()) == now


def test_reads_of_a_large_table_follow_its_changes() -> None:
    with Flow() as flow:
        flow.sql("CREATE TABLE t (id BIGINT PRIMARY KEY, name TEXT)")
        flow.sql("CREATE MATERIALIZED VIEW v AS SELECT name, count(*) AS n FROM t GROUP BY name")
        flow.tick("t", [{"id": i, "name": f"n{i % 50}"} for i in range(5_000)])
        for i in range(30):
            flow.sql(f"UPDATE t SET name = 'changed' WHERE id = {i * 7}")
            flow.sql(f"DELETE FROM t WHERE id = {i * 11 + 1}; INSERT INTO t VALUES ({10_000 + i}, NULL)")
            rows = Counter(map(repr, flow.sql("SELECT * FROM t").to_pylist()))
            assert rows == Counter(map(repr, flow.snapshot("t").to_pylist()))
            wanted = flow.sql("SELECT name, count(*) AS n FROM t GROUP BY name").to_pylist()
            assert Counter(map(repr, wanted)) == Counter(map(repr, flow.sql("SELECT * FROM v").to_pylist()))
