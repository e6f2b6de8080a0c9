"""UPDATE and DELETE of rows whose keys are named look them up, and do what they would do with a scan."""

from __future__ import annotations

import random
from collections.abc import Iterator

import pytest

from penstock import Flow
from penstock.base.limits import POINT_KEYS_MAX
from penstock.engine import dml
from penstock.engine.catalog import Table
from penstock.engine.point import named_keys
from penstock.sql.bind import Binder
from penstock.zset.zset import ZSet


@pytest.fixture
def looked_up(monkeypatch: pytest.MonkeyPatch) -> list[int | None]:
    """How many keys each statement looked up; None: it scanned."""
    counts: list[int | None] = []

    def counting(binder: Binder, table: Table, sql: str) -> ZSet | None:
        keys = named_keys(binder, table, sql)
        counts.append(None if keys is None else len(keys))
        return keys

    monkeypatch.setattr(dml, "named_keys", counting)
    return counts


@pytest.fixture
def flow() -> Iterator[Flow]:
    with Flow() as flow:
        flow.sql("CREATE TABLE t (id INTEGER PRIMARY KEY, v INTEGER)")
        flow.sql("CREATE TABLE c (a INTEGER, b BIGINT, v TEXT, PRIMARY KEY (a, b))")
        flow.sql("INSERT INTO t SELECT i, i FROM range(100) r(i)")
        flow.sql("INSERT INTO c SELECT i, i + 1, 'x' FROM range(100) r(i)")
        yield flow


@pytest.mark.parametrize(
    ("where", "keys", "rows"),
    [
        ("id = 1", 1, 1),
        ("id IN (1, 2, 3)", 3, 3),  # DuckDB makes a range of it
        ("id IN (1, 5, 77)", 3, 3),
        ("id IN (1, 1, 5, 5)", 2, 2),
        ("id IN (1, NULL, 500)", 2, 1),
        ("id IN (NULL)", 0, 0),
        ("id IN ('1', '7')", 2, 2),
        ("id IN (1.0, 7.5)", 1, 1),
        ("id = 99999999999", 0, 0),
        ("id = 1 OR id = 2", 2, 2),
        ("id = 1 OR id IN (4, 9) OR (id = 12 AND v = 0)", 4, 3),
        ("id BETWEEN 3 AND 6 AND v <> 4", 4, 3),
        ("id = 1 OR v = 2", None, 2),
        ("id < 3", None, 3),
        ("id NOT IN (1, 2)", None, 98),
    ],
)
def test_one_key(flow: Flow, looked_up: list[int | None], where: str, keys: int | None, rows: int) -> None:
    assert flow.sql(f"UPDATE t SET v = v + 1 WHERE {where} RETURNING id").num_rows == rows
    flow.sql("UPDATE t SET v = id")
    assert flow.sql(f"DELETE FROM t WHERE {where} RETURNING id").num_rows == rows
    assert (looked_up[0], looked_up[-1]) == (keys, keys)


@pytest.mark.parametrize(
    ("where", "keys", "rows"),
    [
        ("(a, b) IN ((1, 2), (3, 4), (5, 7))", 3, 2),
        ("(a, b) = (1, 2)", 1, 1),
        ("a = 1 AND b IN (2, 3)", 2, 1),
        ("(a = 1 OR a = 2) AND b IN (2, 3)", 4, 2),
        ("a = 1 AND b = 2 OR a = 3 AND b = 4", 2, 2),
        ("(a, v) IN ((1, 'x'), (2, NULL)) AND b = 2", 2, 1),
        ("a = 1", None, 1),
        ("a = 1 OR b = 5", None, 2),
    ],
)
def test_a_key_of_two_columns(
    flow: Flow, looked_up: list[int | None], where: str, keys: int | None, rows: int
) -> None:
    assert flow.sql(f"DELETE FROM c WHERE {where} RETURNING a").num_rows == rows
    assert looked_up == [keys]


def test_parameters(flow: Flow, looked_up: list[int | None]) -> None:
    flow.sql("DELETE FROM t WHERE id IN (?, ?)", [1, 2])
    flow.sql("DELETE FROM t WHERE id = $1 OR id = $2", [3, 9])
    flow.sql("DELETE FROM c WHERE (a, b) IN (($x, $y), (7, 8))", {"x": 1, "y": 2})
    assert looked_up == [2, 2, 2]
    assert (flow.snapshot("t").num_rows, flow.snapshot("c").num_rows) == (96, 98)


def test_too_many_keys_are_a_scan(flow: Flow, looked_up: list[int | None]) -> None:
    flow.sql(f"DELETE FROM t WHERE id BETWEEN 1 AND {POINT_KEYS_MAX}")
    flow.sql(f"DELETE FROM t WHERE id BETWEEN 0 AND {POINT_KEYS_MAX}")
    assert looked_up == [POINT_KEYS_MAX, None]
    assert flow.snapshot("t").num_rows == 0


def test_pending_changes_are_seen(flow: Flow, looked_up: list[int | None]) -> None:
    flow.sql("BEGIN; INSERT INTO t VALUES (500, 0); DELETE FROM t WHERE id = 1")
    assert flow.sql("DELETE FROM t WHERE id IN (1, 2, 500) RETURNING id").num_rows == 2
    flow.sql("COMMIT")
    assert looked_up == [1, 3]


# -- both ways, at random ------------------------------------------------------------------------------

KEYS = {
    "SMALLINT": ["1", "2", "3", "4", "40000", "-1"],
    "BIGINT": ["1", "2", "3", "5", "1.0", "2.5", "3::DOUBLE", "9007199254740993::DOUBLE", "'4'", "1e30"],
    "UBIGINT": ["1", "2", "-1", "3"],
    "DECIMAL(6,2)": ["1", "1.5", "1.50", "1.555", "2.0::DOUBLE", "99999999"],
    "DOUBLE": ["0.0", "-0.0", "1.5", "'nan'::DOUBLE", "2", "'inf'::DOUBLE"],
    "DATE": ["'2024-01-01'", "DATE '2024-01-02'", "TIMESTAMP '2024-01-01'", "TIMESTAMP '2024-01-01 10:00'",
             "'infinity'::TIMESTAMP"],
    "TEXT": ["'a'", "'A'", "''", "'b '"],
    "TIMESTAMPTZ": ["'2024-01-01 00:00+00'", "'2024-01-01 01:00+01'"],
    "BOOLEAN": ["true", "false"],
}  # fmt: skip


def _condition(rng: random.Random, types: list[str], depth: int = 0) -> str:
    column = rng.randrange(len(types))
    name, literals = "ab"[column], [*KEYS[types[column]], "NULL"]
    kind = rng.randrange(9 if depth < 2 else 6)
    if kind < 2:
        return f"{name} = {rng.choice(literals)}"
    if kind < 4:
        return f"{name} IN ({', '.join(rng.choices(literals, k=rng.randint(1, 4)))})"
    if kind == 4 and len(types) == 2:
        pairs = [f"({rng.choice(KEYS[types[0]])}, {rng.choice(KEYS[types[1]])})" for _ in range(3)]
        return f"(a, b) IN ({', '.join(pairs)})"
    if kind <= 5:
        return rng.choice(
            [
                "v < 3",
                "v IS NULL",
                f"{name} >= {literals[0]}",
                f"{name} BETWEEN {literals[0]} AND {literals[1]}",
            ]
        )
    parts = [f"({_condition(rng, types, depth + 1)})" for _ in range(2)]
    return f"{rng.choice(['', '', 'NOT '])}({rng.choice([' AND ', ' OR ']).join(parts)})"


@pytest.mark.parametrize("seed", range(5))
def test_a_look_up_does_what_a_scan_does(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = random.Random(seed)
    lookups = 0
    for _ in range(4):
        types = [rng.choice(list(KEYS)) for _ in range(rng.randint(1, 2))]
        columns = [f"{n} {t}" for n, t in zip("ab", types, strict=False)]
        key = ", ".join("ab"[: len(types)])
        with Flow() as flow:
            flow.sql(f"CREATE TABLE k ({', '.join(columns)}, v INTEGER, PRIMARY KEY ({key}))")
            for number in range(12):
                values = ", ".join(f"TRY_CAST({rng.choice(KEYS[t])} AS {t})" for t in types)
                there = " AND ".join(f"{n} IS NOT NULL" for n in "ab"[: len(types)])
                flow.sql(
                    f"INSERT INTO k SELECT * FROM (SELECT {values}, {number}) AS s({key}, v) WHERE {there} "
                    "ON CONFLICT DO NOTHING"
                )
            for _ in range(12):
                where = _condition(rng, types)
                answers = []
                for ask in (named_keys, lambda *_: None):
                    monkeypatch.setattr(dml, "named_keys", ask)
                    flow.sql("BEGIN")
                    try:
                        updated = flow.sql(
                            f"UPDATE k SET v = v + 1 WHERE {where} RETURNING k::TEXT AS r"
                        ).to_pylist()
                        deleted = flow.sql(f"DELETE FROM k WHERE {where} RETURNING v").num_rows
                        answers.append((sorted(map(str, updated)), deleted))
                    finally:
                        flow.sql("ROLLBACK")
                assert answers[0] == answers[1], (types, where)
                lookups += len(answers[0][0])
    assert lookups
