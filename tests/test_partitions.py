"""Partitions are ranges of hashes: every number of them gives the same rows and the same state."""

from __future__ import annotations

import random
from collections import Counter

import pytest

import penstock
from penstock.circuit.fragment import exchanges, fragments
from penstock.run.partitioned import Partitioned
from penstock.run.ranges import Ranges

VIEWS = {
    "agg": "SELECT g, count(*) n, sum(v) s, min(v) lo, max(v) hi, count(DISTINCT v) d FROM t GROUP BY g",
    "total": "SELECT count(*) n, sum(v) s, max(v) m FROM t",
    "joined": "SELECT t.id, u.w FROM t JOIN u ON t.g = u.g",
    "three": "SELECT a.id x, b.id y, u.w FROM t a JOIN t b ON a.v = b.v JOIN u ON b.g = u.g",
    "outer_join": "SELECT t.id, u.w FROM t FULL JOIN u ON t.g = u.g AND t.v > u.w",
    "lefty": "SELECT t.id, u.w FROM t LEFT JOIN u ON t.g = u.g",
    "absent": "SELECT id FROM t WHERE v NOT IN (SELECT w FROM u)",
    "exists_": "SELECT id FROM t WHERE EXISTS (SELECT 1 FROM u WHERE u.g = t.g AND u.w <> t.v)",
    "top": "SELECT id, v FROM t ORDER BY v DESC, id LIMIT 5 OFFSET 1",
    "above": "SELECT id FROM t WHERE v > (SELECT avg(w) FROM u)",
    "sets": "SELECT g FROM t EXCEPT ALL SELECT g FROM u",
    "nested": "SELECT n, count(*) k FROM (SELECT g, count(*) n FROM t GROUP BY g) GROUP BY n",
}


def make_flow() -> penstock.Flow:
    flow = penstock.Flow()
    flow.sql(
        "CREATE TABLE t (id INTEGER PRIMARY KEY, g INTEGER, v INTEGER); CREATE TABLE u (g INTEGER, w INTEGER)"
    )
    for name, sql in VIEWS.items():
        flow.sql(f"CREATE MATERIALIZED VIEW {name} AS {sql}")
    return flow


def epochs(seed: int) -> list[dict[str, list[dict[str, object]]]]:
    rng = random.Random(seed)
    t: dict[int, dict[str, object]] = {}
    u: list[dict[str, object]] = []
    steps = []
    for _ in range(12):
        delta_t, delta_u = [], []
        for _ in range(rng.randint(0, 12)):
            id = rng.randint(0, 25)
            if id in t:
                delta_t.append({**t.pop(id), "_weight": -1})
            if rng.random() < 0.7:
                t[id] = {"id": id, "g": rng.choice([1, 2, 3, None]), "v": rng.randint(0, 6)}
                delta_t.append(t[id])
        for _ in range(rng.randint(0, 6)):
            if u and rng.random() < 0.4:
                delta_u.append({**u.pop(rng.randrange(len(u))), "_weight": -1})
            else:
                row = {"g": rng.choice([1, 2, 3, None]), "w": rng.choice([1, 2, 5, 9, None])}
                u.append(row)
                delta_u.append(row)
        steps.append({"t": delta_t, "u": delta_u})
    return steps


def rows(flow: penstock.Flow, view: str) -> Counter[tuple[object, ...]]:
    return Counter(tuple(r.values()) for r in flow.snapshot(view).to_pylist())


@pytest.mark.parametrize("partitions", [1, 2, 3, 7])
@pytest.mark.parametrize("seed", range(4))
def test_any_number_of_partitions_gives_the_same(partitions: int, seed: int) -> None:
    steps = epochs(seed)
    whole, cut = make_flow(), make_flow()
    for number, step in enumerate(steps):
        whole.tick(step)
        # The number may differ every epoch, and every other one runs inline: the state knows nothing of it.
        cut._core.executor = Partitioned(Ranges.even(partitions + number % 2)) if number % 3 else None
        cut.tick(step)
        for view in VIEWS:
            assert rows(whole, view) == rows(cut, view), (view, number)


def test_fragments_end_at_exchanges() -> None:
    nodes = list(make_flow()._core.circuit.nodes.values())
    pieces = fragments(nodes)
    home = {id: i for i, piece in enumerate(pieces) for id in piece.nodes}
    assert sorted(home) == sorted(n.id for n in nodes)
    for exchange in exchanges(nodes):
        assert pieces[home[exchange.producer]].wave < pieces[home[exchange.consumer]].wave


@pytest.mark.parametrize("partitions", [1, 2, 5])
@pytest.mark.parametrize("seed", range(3))
def test_views_are_filled_in_partitions(partitions: int, seed: int) -> None:
    whole, cut = make_flow(), make_flow()
    for view in reversed(VIEWS):
        cut.sql(f"DROP MATERIALIZED VIEW {view}")
    steps = epochs(seed)
    for number, step in enumerate(steps):
        whole.tick(step)
        cut.tick(step)
        if number == 8:
            cut._core.executor = Partitioned(Ranges.even(partitions))
            for view, sql in VIEWS.items():
                cut.sql(f"CREATE MATERIALIZED VIEW {view} AS {sql}")
        for view in VIEWS if number >= 8 else ():
            assert rows(whole, view) == rows(cut, view), (view, number)


@pytest.mark.parametrize("seed", range(2))
def test_partitions_need_not_be_of_one_size(seed: int) -> None:
    whole, cut = make_flow(), make_flow()
    rng = random.Random(seed)
    for number, step in enumerate(epochs(seed)):
        whole.tick(step)
        ranges = Ranges.even(3)
        for _ in range(number % 4):
            ranges = ranges.split([rng.randrange(len(ranges))])
        cut._core.executor = Partitioned(ranges)
        cut.tick(step)
        for view in VIEWS:
            assert rows(whole, view) == rows(cut, view), (view, number)
