"""flow.verify: it finds what is wrong, and only that."""

from __future__ import annotations

import datetime
import random
import uuid
from decimal import Decimal
from typing import Any

import numpy as np
import pytest

import penstock
from penstock import Check, Flow
from penstock.zset.column import from_pylist
from penstock.zset.zset import ZSet


def spoil(flow: Flow, name: str, rows: list[tuple[Any, ...]], weights: list[int]) -> None:
    """Put rows into what the flow holds of a relation, past everything that keeps it right."""
    relation = flow._core.catalog.get(name)
    columns = tuple(
        from_pylist(type, [row[i] for row in rows]) for i, type in enumerate(relation.schema.types)
    )
    bag = relation.contents if hasattr(relation, "contents") else relation.bag
    bag.append(ZSet(columns, np.array(weights)))
    relation.version += 1


def by_name(checks: list[Check]) -> dict[str, Check]:
    return {check.name: check for check in checks}


@pytest.fixture
def shop() -> Any:
    with Flow() as flow:
        flow.sql("CREATE TABLE orders (id BIGINT PRIMARY KEY, customer TEXT, amount DECIMAL(12,2))")
        flow.sql("CREATE TABLE names (customer TEXT, name TEXT)")
        flow.sql(
            "CREATE MATERIALIZED VIEW totals AS SELECT customer, SUM(amount) AS total FROM orders GROUP BY customer"
        )
        flow.sql("CREATE VIEW plain AS SELECT customer, max(name) AS name FROM names GROUP BY customer")
        flow.sql("CREATE MATERIALIZED VIEW shown (who, sum) AS SELECT name, total FROM totals JOIN plain USING (customer) -- over both")  # fmt: skip
        flow.sql("INSERT INTO orders VALUES (1, 'a', 1.50), (2, 'a', 2), (3, 'b', 4), (4, NULL, 5)")
        flow.sql("INSERT INTO names VALUES ('a', 'ann'), ('b', 'bob'), ('b', 'bob')")
        yield flow


def test_a_flow_that_is_right(shop: Flow) -> None:
    checks = shop.verify()
    assert [(c.kind, c.name, c.equal, c.rows) for c in checks] == [
        ("table", "names", True, 3),
        ("table", "orders", True, 4),
        ("view", "totals", True, 3),
        ("view", "shown", True, 2),
    ]


def test_what_is_missing_and_what_is_too_much(shop: Flow) -> None:
    spoil(shop, "totals", [("a", Decimal("3.50")), ("a", Decimal("3.51"))], [-1, 2])
    found = by_name(shop.verify())
    totals = found["totals"]
    assert (totals.equal, totals.rows, totals.missing, totals.extra) == (False, 4, 1, 2)
    assert totals.missing_rows.to_pylist() == [{"customer": "a", "total": Decimal("3.50"), "_count": 1}]
    assert totals.extra_rows.to_pylist() == [{"customer": "a", "total": Decimal("3.51"), "_count": 2}]
    assert found["shown"].equal  # computed through the query of totals, not from what is held of it


def test_one_view_alone(shop: Flow) -> None:
    assert [c.name for c in shop.verify("SHOWN")] == ["shown"]
    spoil(shop, "totals", [("z", Decimal(1))], [1])
    assert {c.name: c.equal for c in shop.verify("shown")} == {"totals": False, "shown": True}


def test_a_row_that_is_there_less_than_no_times(shop: Flow) -> None:
    spoil(shop, "totals", [("q", Decimal(1))], [-1])
    totals = by_name(shop.verify())["totals"]
    assert (totals.missing, totals.extra) == (1, 0)
    spoil(shop, "names", [("q", "quin")], [-2])
    names = by_name(shop.verify())["names"]
    assert (names.equal, names.missing) == (False, 2)


def test_a_primary_key_that_is_there_twice(shop: Flow) -> None:
    table = shop._core.table("orders")
    assert table.keyed is not None
    table.keyed.batches.append(table.keyed.batches[0])
    orders = by_name(shop.verify())["orders"]
    assert (orders.equal, orders.extra) == (False, 8)


def test_the_limit_of_rows_shown(shop: Flow) -> None:
    spoil(shop, "totals", [(str(i), Decimal(i)) for i in range(50)], [1] * 50)
    totals = by_name(shop.verify(limit=3))["totals"]
    assert (totals.extra, totals.extra_rows.num_rows) == (50, 3)


def test_wrong_names(shop: Flow) -> None:
    with pytest.raises(penstock.UndefinedTable):
        shop.verify("nothing")
    with pytest.raises(penstock.WrongObjectType):
        shop.verify("orders")
    with pytest.raises(penstock.HistoryGone):
        shop.verify(as_of=1)


def test_progress_counts_to_the_end(shop: Flow) -> None:
    seen: list[tuple[int, int]] = []
    shop.verify(progress=lambda done, total: seen.append((done, total)))
    assert seen == [(1, 4), (2, 4), (3, 4), (4, 4)]


def test_floats_differ_in_their_last_digits_only() -> None:
    with Flow() as flow:
        flow.sql("CREATE TABLE t (g INTEGER, x DOUBLE, y REAL)")
        flow.sql("CREATE MATERIALIZED VIEW v AS SELECT g, sum(x) AS sx, avg(x) AS ax, sum(y) AS sy, "
                 "CAST(avg(y) AS REAL) AS ay FROM t GROUP BY g")  # fmt: skip
        flow.sql(
            "CREATE MATERIALIZED VIEW pairs AS SELECT g // 10 AS h, sum(x) AS sx, sum(-x) AS mx FROM t GROUP BY g"
        )
        rng = random.Random(1)
        values = [rng.choice([0.1, 0.2, -0.3, 1e6, 1 / 3]) for _ in range(3000)]
        flow.tick("t", [{"g": i % 40, "x": x, "y": x} for i, x in enumerate(values)])
        flow.tick("t", [{"g": 99, "x": x, "y": 1.0} for x in (0.1, 0.2, -0.3)])  # exactly 0, DuckDB rounds
        assert all(check.equal for check in flow.verify()), flow.verify()
        sx = next(r for r in flow.snapshot("v").to_pylist() if r["g"] == 3)
        right = (sx["g"], sx["sx"], sx["ax"], sx["sy"], sx["ay"])
        spoil(flow, "v", [right, (3, sx["sx"] * (1 + 1e-6), *right[2:])], [-1, 1])
        found = by_name(flow.verify())["v"]
        assert (found.missing, found.extra) == (1, 1)


def test_special_floats() -> None:
    with Flow() as flow:
        flow.sql("CREATE TABLE t (x DOUBLE)")
        flow.sql("CREATE MATERIALIZED VIEW v AS SELECT x, count(*) AS count FROM t GROUP BY x")
        flow.tick(
            "t",
            [{"x": x} for x in (float("nan"), float("nan"), float("inf"), -0.0, 0.0, None, -1e308, 1e308)],
        )
        assert all(check.equal for check in flow.verify())
        spoil(flow, "v", [(float("inf"), 1), (float("-inf"), 1)], [-1, 1])
        found = by_name(flow.verify())["v"]
        assert (found.missing, found.extra) == (1, 1)


def test_ties_at_the_border_of_a_limit_are_no_difference() -> None:
    with Flow() as flow:
        flow.sql("CREATE TABLE t (id INTEGER, score INTEGER)")
        flow.sql("CREATE MATERIALIZED VIEW top AS SELECT id FROM t ORDER BY score DESC LIMIT 4 OFFSET 1")
        flow.sql(
            "CREATE MATERIALIZED VIEW named (ident, s) AS SELECT id, score AS points FROM t ORDER BY points LIMIT 3"
        )
        flow.sql("CREATE MATERIALIZED VIEW any_two AS SELECT id FROM t LIMIT 2")
        flow.sql("CREATE MATERIALIZED VIEW over_top AS SELECT sum(id) AS s FROM top")
        flow.sql(
            "CREATE MATERIALIZED VIEW inside AS SELECT sum(id) AS s FROM (SELECT id FROM t ORDER BY score LIMIT 3)"
        )
        flow.tick("t", [{"id": i, "score": i // 5} for i in reversed(range(50))])
        assert all(check.equal for check in flow.verify()), flow.verify()
        # Another row of the group that the border cuts is as right ...
        held = {r["id"] for r in flow.snapshot("top").to_pylist()}
        tied = set(range(45, 50))
        assert held < tied
        (spare,) = tied - held
        some = min(held)
        spoil(flow, "top", [(some,), (spare,)], [-1, 1])
        found = by_name(flow.verify())
        assert found["top"].equal
        assert not found["over_top"].equal  # which goes by the rows that are held: they are decided now
        # ... and one from beyond it is not.
        spoil(flow, "top", [(spare,), (44,)], [-1, 1])
        found = by_name(flow.verify())
        assert not found["top"].equal
        spoil(flow, "top", [(44,)], [-1])
        assert not by_name(flow.verify())["top"].equal  # one row too few


def test_a_limit_that_decides_is_verified_exactly() -> None:
    with Flow() as flow:
        flow.sql("CREATE TABLE t (id INTEGER, score INTEGER)")
        flow.sql("CREATE MATERIALIZED VIEW top AS SELECT id FROM t ORDER BY score DESC, id LIMIT 4")
        flow.sql(
            "CREATE MATERIALIZED VIEW inside AS SELECT sum(id) AS s FROM (SELECT id FROM t ORDER BY score, id LIMIT 3)"
        )
        flow.tick("t", [{"id": i, "score": i // 5} for i in range(50)])
        assert all(check.equal for check in flow.verify())
        spoil(flow, "top", [(45,), (49,)], [-1, 1])
        spoil(flow, "inside", [(3,), (4,)], [-1, 1])
        found = by_name(flow.verify())
        assert not found["top"].equal
        assert not found["inside"].equal


def test_every_type_and_awkward_names() -> None:
    with Flow() as flow:
        flow.sql(
            'CREATE TABLE "penstock held" (b BOOLEAN, i SMALLINT, h HUGEINT, d DECIMAL(38,3), "t""x" TEXT, bl BLOB, da DATE, '
            "ti TIME, ts TIMESTAMP, tz TIMESTAMPTZ, iv INTERVAL, u UUID, l INTEGER[], s STRUCT(a INTEGER, b TEXT), "
            "m MAP(TEXT, INTEGER), j JSON, _count INTEGER, count INTEGER)"
        )
        flow.sql('CREATE MATERIALIZED VIEW v AS SELECT *, NULL AS nothing FROM "penstock held"')
        row = {
            "b": True, "i": 1, "h": 2**100, "d": Decimal("1.5"), 't"x': "é\n", "bl": b"\0", "da": datetime.date(2020, 1, 1),
            "ti": datetime.time(1, 2), "ts": datetime.datetime(2020, 1, 1), "tz": datetime.datetime(2020, 1, 1, tzinfo=datetime.UTC),
            "u": uuid.UUID(int=7), "l": [1, None], "s": {"a": 1, "b": None}, "j": '{"a": 1}', "_count": 1, "count": 2,
        }  # fmt: skip
        flow.tick("penstock held", [row, row, {}])
        flow.sql("INSERT INTO \"penstock held\" (iv, m) VALUES (INTERVAL 1 MONTH, MAP {'a': 1})")
        checks = flow.verify()
        assert [(c.equal, c.rows, c.note) for c in checks] == [(True, 4, ""), (True, 4, "")]


def test_ties_beside_floats() -> None:
    with Flow() as flow:
        flow.sql("CREATE TABLE t (g INTEGER, x DOUBLE)")
        flow.sql(
            "CREATE MATERIALIZED VIEW top AS SELECT g, sum(x) AS s FROM t GROUP BY g ORDER BY count(*) DESC LIMIT 3"
        )
        flow.sql("CREATE MATERIALIZED VIEW inside AS SELECT g, sum(x) AS s FROM (SELECT * FROM t ORDER BY g LIMIT 300) "
                 "GROUP BY g")  # fmt: skip
        rng = random.Random(2)
        flow.tick("t", [{"g": i % 9, "x": rng.choice([0.1, -0.3, 1e6, 1 / 3, -1e6])} for i in range(900)])
        assert all(check.equal for check in flow.verify()), flow.verify()
        held = flow.snapshot("inside").to_pylist()[0]
        spoil(flow, "inside", [(held["g"], held["s"]), (held["g"], held["s"] + 1)], [-1, 1])
        top = flow.snapshot("top").to_pylist()[0]
        spoil(flow, "top", [(top["g"], top["s"]), (top["g"], top["s"] + 1)], [-1, 1])
        assert {c.name: c.equal for c in flow.verify()} == {"t": True, "inside": False, "top": False}
