"""A few rows as tuples give what they give as columns: the same ticks in two flows, one of which has no tuples."""

from __future__ import annotations

import datetime
from collections import Counter
from collections.abc import Iterator
from decimal import Decimal
from random import Random
from typing import Any

import pyarrow as pa
import pytest

import penstock
from penstock.circuit.operators import aggregate
from penstock.engine import ingest
from penstock.kernels import hashing

TICKS = 50
SCHEMA = pa.schema(
    [
        ("id", pa.int64()),
        ("k", pa.string()),
        ("n", pa.int32()),
        ("x", pa.float64()),
        ("d", pa.decimal128(25, 2)),
        ("b", pa.bool_()),
        ("day", pa.date32()),
        ("u", pa.uint64()),
    ]
)
VALUES: dict[str, list[Any]] = {
    "k": ["a", "b", "", None, "ä" * 40],
    "n": [0, 1, -5, None, 2**31 - 1],
    "x": [0.0, -0.0, float("nan"), 1.5, None],
    "d": [Decimal("1.50"), Decimal("-0.01"), None, Decimal("12345678901234567890123.45")],
    "b": [True, False, None],
    "day": [datetime.date(2024, 2, 29), None, datetime.date(1969, 12, 31)],
    "u": [0, 2**64 - 1, None],
}
VIEWS = {
    "by_text": "SELECT k, COUNT(*) AS c, SUM(n) AS s, AVG(n) AS a FROM {t} GROUP BY k",
    "by_float": "SELECT x, COUNT(n) AS c, BOOL_OR(b) AS o FROM {t} GROUP BY x",
    "by_wide": "SELECT d, u, COUNT(*) FILTER (b) AS c, VAR_POP(n) AS v FROM {t} GROUP BY d, u",
    "sums": "SELECT day, SUM(d) AS s, SUM(n * 2) AS twice FROM {t} GROUP BY day",
    "stacked": "SELECT c, COUNT(*) AS times FROM (SELECT k, b, COUNT(*) AS c FROM {t} GROUP BY k, b) AS q GROUP BY c",
    "whole": "SELECT COUNT(*) AS c, SUM(n) AS s FROM {t} WHERE n > 0",
    "rows": "SELECT k, n + 1 AS m, x FROM {t} WHERE b",
    "joined": "SELECT l.k, COUNT(*) AS c FROM {t} AS l JOIN other AS r ON l.k = r.k GROUP BY l.k",
    "kinds": "SELECT DISTINCT k, b FROM {t}",
}


class Twins:
    """Two flows with the same definitions."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self._patch = monkeypatch
        self.flows = penstock.Flow(), penstock.Flow()
        self.watches: list[list[penstock.Watch]] = []
        for flow in self.flows:
            for name, key in (("bag", None), ("keyed", "id")):
                flow.register_source(name, SCHEMA, key=key)
            flow.sql("CREATE TABLE other (k VARCHAR, z BIGINT)")
            flow.sql("INSERT INTO other VALUES ('a', 1), ('a', 2), ('b', 3)")
            for table in ("bag", "keyed"):
                for name, query in VIEWS.items():
                    flow.register_view(f"{table}_{name}", query.format(t=table))
            self.watches.append([flow.watch(f"{t}_{name}") for t in ("bag", "keyed") for name in VIEWS])

    def tick(self, table: str, rows: list[dict[str, Any]], **options: Any) -> None:
        schema = SCHEMA.append(pa.field("_weight", pa.int64()))
        batch = pa.RecordBatch.from_pylist(rows, schema=schema)
        told = []
        for flow, watches, most in zip(self.flows, self.watches, (4, -1), strict=True):
            for module in (ingest, aggregate):
                self._patch.setattr(module, "FEW_ROWS_MAX", most)
            try:
                views = flow.tick(table, batch, **options).views
            except penstock.PenstockError as error:
                told.append(str(error))
            else:
                told.append((views, [_counted(watch.poll()) for watch in watches]))
        assert told[0] == told[1]


def _counted(change: penstock.Change | None) -> Counter[str]:
    found: Counter[str] = Counter()
    if change is None:
        return found
    found[str(change.batch.schema)] = 1
    for *row, weight in (tuple(r.values()) for r in change.batch.to_pylist()):
        found[repr([0.0 if v == 0 and isinstance(v, float) else v for v in row])] += weight
    return found


@pytest.fixture(params=[None, 1], ids=["hashes", "collisions"])
def twins(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[Twins]:
    monkeypatch.setattr(hashing, "COLLIDE_BITS", request.param)
    found = Twins(monkeypatch)
    yield found
    for flow in found.flows:
        flow.close()


def _row(random: Random, id: int) -> dict[str, Any]:
    return {"id": id, **{name: random.choice(values) for name, values in VALUES.items()}, "_weight": 1}


@pytest.mark.parametrize("seed", [1, 2])
def test_tuples_and_columns_agree(twins: Twins, seed: int) -> None:
    random = Random(seed)
    held: dict[int, dict[str, Any]] = {}
    bag: list[dict[str, Any]] = []
    for _ in range(TICKS):
        given = []
        for _ in range(random.randint(1, 5)):
            if bag and random.random() < 0.4:
                given.append({**bag.pop(random.randrange(len(bag))), "_weight": -1})
            else:
                given.append(_row(random, random.randrange(3)))
                bag.append(given[-1])
        twins.tick("bag", given)
        id = random.randrange(12)
        new = _row(random, id)
        kind = random.random()
        if kind < 0.3:  # may be there already, and is refused then
            twins.tick("keyed", [new])
            held.setdefault(id, new)
        elif kind < 0.6:
            twins.tick("keyed", [new], mode="upsert")
            held[id] = new
        elif id in held and kind < 0.8:
            twins.tick("keyed", [{**held[id], "_weight": -1}, new])
            held[id] = new
        elif id in held:
            twins.tick("keyed", [{**held.pop(id), "_weight": -1}])
        else:
            twins.tick("keyed", [{**new, "_weight": -1}])  # there is no such row
    for table in ("bag", "keyed"):
        for name in VIEWS:
            assert len({_shown(flow, f"{table}_{name}") for flow in twins.flows}) == 1
    one, other = ([(e.name, e.rows) for e in flow.state()] for flow in twins.flows)
    assert [name for name, _ in one] == [name for name, _ in other]


def _shown(flow: penstock.Flow, view: str) -> str:
    return repr(sorted(repr(row) for row in flow.snapshot(view).to_pylist())).replace("-0.0", "0.0")
