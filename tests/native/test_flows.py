"""A flow has the same state with compiled inner loops and without them: every batch of every arrangement, to the bit."""

from __future__ import annotations

import datetime
import random
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import penstock
from native.both_ways import hashes_of, needs_kernels, plainly, same_array, same_column
from penstock.kernels.floatsum import FloatSum
from penstock.state.arrangement import Arrangement
from penstock.state.batch import Batch

pytestmark = needs_kernels

STATEMENTS = (
    "CREATE TABLE items (id BIGINT PRIMARY KEY, name TEXT, price DECIMAL(12,2), wide DECIMAL(30,4), shop INTEGER, "
    "rate DOUBLE PRECISION, sold BOOLEAN, day DATE)",
    "CREATE TABLE shops (code TEXT, part SMALLINT, shop INTEGER, town TEXT, PRIMARY KEY (code, part))",
    "CREATE TABLE visits (shop INTEGER, town TEXT, seen TIMESTAMP, paid DECIMAL(8,2))",
    "CREATE MATERIALIZED VIEW joined AS SELECT i.id, i.name, s.town, s.code, i.price FROM items i "
    "JOIN shops s ON i.shop = s.shop",
    "CREATE MATERIALIZED VIEW by_text AS SELECT s.town, v.seen, s.code FROM shops s LEFT JOIN visits v ON s.town = v.town",
    "CREATE MATERIALIZED VIEW totals AS SELECT name, day, count(*) AS n, sum(price) AS total, sum(wide) AS w, "
    "sum(rate) AS r, min(name) AS least, max(price) AS most FROM items GROUP BY name, day",
    "CREATE MATERIALIZED VIEW towns AS SELECT town, count(DISTINCT shop) AS shops, sum(paid) AS paid FROM visits "
    "GROUP BY town",
    "CREATE MATERIALIZED VIEW distinct_visits AS SELECT DISTINCT shop, town FROM visits",
    "CREATE MATERIALIZED VIEW unseen AS SELECT * FROM shops s WHERE NOT EXISTS "
    "(SELECT 1 FROM visits v WHERE v.town = s.town AND v.shop = s.shop)",
    "CREATE MATERIALIZED VIEW top_items AS SELECT id, name, price FROM items ORDER BY price DESC NULLS LAST, id LIMIT 7",
)  # fmt: skip
SCHEMAS = {
    "items": pa.schema({
        "id": pa.int64(), "name": pa.string(), "price": pa.decimal128(12, 2), "wide": pa.decimal128(30, 4),
        "shop": pa.int32(), "rate": pa.float64(), "sold": pa.bool_(), "day": pa.date32(), "_weight": pa.int64(),
    }),
    "shops": pa.schema({
        "code": pa.large_string(), "part": pa.int16(), "shop": pa.int32(), "town": pa.string(), "_weight": pa.int64(),
    }),
    "visits": pa.schema({
        "shop": pa.int32(), "town": pa.string(), "seen": pa.timestamp("us"), "paid": pa.decimal128(20, 2),
        "_weight": pa.int64(),
    }),
}  # fmt: skip
VIEWS = ("joined", "by_text", "totals", "towns", "distinct_visits", "unseen", "top_items")
TOWNS = ("", "a", "Zürich", "a town with a long name " * 4, "b", None)
WIDE = (Decimal(0), Decimal("1.5"), Decimal(-(10**20)), None)


def row(table: str, *values: Any) -> dict[str, Any]:
    return dict(zip(SCHEMAS[table].names[:-1], values, strict=True))


class Model:
    """What the tables hold, and random deltas of it."""

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)
        self.rows: dict[str, list[dict[str, Any]]] = {name: [] for name in SCHEMAS}
        self.next = 0

    def fresh(self, table: str) -> dict[str, Any]:
        chance, self.next = self.chance, self.next + 1
        town, shop = chance.choice(TOWNS), chance.choice((None, *range(12)))
        if table == "items":
            price = chance.choice((None, Decimal(chance.randint(-999, 999)) / 100))
            day = chance.choice((None, datetime.date(2024, 1, chance.randint(1, 5))))
            rate = chance.choice((None, 0.1, -0.0, 1e300, 2.5))
            sold, wide = chance.choice((True, False, None)), chance.choice(WIDE)
            return row("items", self.next, town, price, wide, shop, rate, sold, day)
        if table == "shops":
            return row("shops", f"{'code' * 20}{self.next // 3}", self.next % 3, shop, town)
        seen = chance.choice((None, datetime.datetime(2024, 1, 1, chance.randint(0, 3))))
        return row("visits", shop, town, seen, chance.choice((None, Decimal("1.25"), Decimal(3))))

    def delta(self, table: str, size: int) -> pa.Table:
        """Rows that come, go, and change."""
        rows, chance = self.rows[table], self.chance
        out: list[dict[str, Any]] = []
        for _ in range(size):
            action = chance.choice(("insert", "insert", "insert", "update", "delete"))
            if action != "insert" and rows:
                at = chance.randrange(len(rows))
                rows[at], rows[-1] = rows[-1], rows[at]
                old = rows.pop()
                out.append({**old, "_weight": -1})
                if action == "delete":
                    continue
                keys = {"items": ("id",), "shops": ("code", "part"), "visits": ()}[table]
                new = {**self.fresh(table), **{k: old[k] for k in keys}}
            else:
                new = self.fresh(table)
            rows.append(new)
            out.append({**new, "_weight": 1})
        if table == "visits":
            chance.shuffle(out)
        data = pa.Table.from_pylist(out, SCHEMAS[table])
        if chance.random() < 0.3:  # in chunks
            cut = len(out) // 2
            data = pa.concat_tables([data.slice(0, cut), data.slice(cut)])
        return data


def arrangements(flow: penstock.Flow) -> list[Arrangement]:
    core = flow._core
    owned = [a for id in sorted(core.circuit.nodes) for a in core.circuit.nodes[id].owned]
    return [*owned, *[t.bag.arranged() for t in core.catalog.tables() if t.bag is not None]]


def same_batch(a: Batch, b: Batch) -> None:
    same_array(a.hashes, b.hashes)
    for left, right in zip(a.columns, b.columns, strict=True):
        same_column(left, right)
    for x, y in zip(a.measures, b.measures, strict=True):
        if isinstance(x, FloatSum):
            assert isinstance(y, FloatSum)
            assert x.ids == y.ids
            same_array(x.limbs, y.limbs)
        else:
            assert isinstance(y, np.ndarray)
            same_array(x, y)


@pytest.mark.parametrize(("seed", "bits"), [(1, None), (2, 3)])
def test_a_flow_has_the_same_state_both_ways(seed: int, bits: int | None) -> None:
    with hashes_of(bits), penstock.Flow() as compiled, penstock.Flow() as plain:
        for statement in STATEMENTS:
            compiled.sql(statement)
            plain.sql(statement)
        model = Model(seed)
        for _ in range(8):
            size = model.chance.choice((3, 20, 60, 120) if bits is None else (3, 20, 40))
            deltas = {table: model.delta(table, size) for table in SCHEMAS if model.chance.random() < 0.8}
            compiled.tick(deltas)
            with plainly():
                plain.tick(deltas)
        for name in VIEWS:
            with plainly():
                expected = plain.snapshot(name)
            assert compiled.snapshot(name).equals(expected), name
        ours = arrangements(compiled)
        with plainly():
            theirs = arrangements(plain)
            batches = 0
            for mine, other in zip(ours, theirs, strict=True):
                assert mine.name == other.name
                for a, b in zip(mine.batches, other.batches, strict=True):
                    same_batch(a, b)
                    batches += 1
        assert batches > 15


def test_a_removal_of_what_is_not_there_is_refused_both_ways() -> None:
    messages = []
    for way in (None, plainly()):
        with penstock.Flow() as flow:
            flow.sql(STATEMENTS[1])
            one = row("shops", "c", 1, 1, None)
            rows = [{**one, "part": part} for part in range(9)]
            flow.tick("shops", rows)
            gone = [{**r, "_weight": -1} for r in rows[:6]] + [{**one, "part": 7, "town": "b", "_weight": -1}]
            with pytest.raises(penstock.PenstockError) as raised:
                if way is None:
                    flow.tick("shops", gone)
                else:
                    with way:
                        flow.tick("shops", gone)
            messages.append(str(raised.value))
            with pytest.raises(penstock.PenstockError):
                flow.tick("shops", rows)
    assert messages[0] == messages[1]
