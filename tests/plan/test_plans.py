"""Plans against DuckDB: what a plan means is what DuckDB answers, whichever way DuckDB planned it."""

from __future__ import annotations

import random
from collections.abc import Iterator
from decimal import Decimal
from typing import Any

import pytest

from penstock.base.errors import NotMaintainable
from penstock.duck.connect import DuckConnection, connect
from penstock.sql.bind import ATTEMPTS, Binder
from plan.queries import QUERIES, REFUSED, SCHEMA
from plan.reference import MoreThanOneRow, run
from rows import difference, plain

ROWS_MAX = 9
SEEDS = range(3)
Row = tuple[Any, ...]


@pytest.fixture(scope="module")
def binder() -> Iterator[Binder]:
    binder = Binder()
    for statement in SCHEMA.split(";"):
        if "CREATE TABLE" in statement:
            binder.create_table(statement)
        elif "CREATE VIEW" in statement:
            binder.create_view(statement)
    yield binder
    binder.close()


@pytest.fixture(scope="module")
def databases() -> list[tuple[DuckConnection, dict[str, list[Row]]]]:
    """The same tables in DuckDB and as lists: small, with NULLs and identical rows."""
    return [_database(random.Random(seed)) for seed in SEEDS]


def _database(chance: random.Random) -> tuple[DuckConnection, dict[str, list[Row]]]:
    tables: dict[str, list[Row]] = {"t": _rows(chance), "u": _rows(chance)}
    tables["k"] = [(i, chance.randint(1, 4), chance.randint(1, 4)) for i in range(1, chance.randint(2, 5))]
    duck = connect(threads=1)
    duck.execute(SCHEMA)
    for name, rows in tables.items():
        for row in rows:
            duck.execute(f"INSERT INTO {name} VALUES ({', '.join('?' * len(row))})", list(row))
    return duck, tables


def _rows(chance: random.Random) -> list[Row]:
    rows: list[Row] = []
    for _ in range(chance.randint(0, ROWS_MAX)):
        row = (
            chance.randint(1, 9),
            chance.choice([None, 1, 2, 3]),
            chance.choice([None, 0, 1, 2, 3]),
            chance.choice([None, "a", "ab", "b"]),
            chance.choice([None, Decimal("1.00"), Decimal("2.50"), Decimal("3.00")]),
            chance.choice([None, 0.5, 1.0, 2.0]),
            None,
        )
        rows += [row] * chance.choice([1, 1, 1, 2])
    return rows


@pytest.mark.parametrize("attempt", range(len(ATTEMPTS)))
@pytest.mark.parametrize("name", QUERIES)
def test_a_plan_means_what_duckdb_answers(
    binder: Binder, databases: list[tuple[DuckConnection, dict[str, list[Row]]]], name: str, attempt: int
) -> None:
    sql = QUERIES[name]
    plan = binder.plan(sql, ATTEMPTS[attempt : attempt + 1])
    for seed, (duck, tables) in enumerate(databases):
        theirs = [tuple(map(plain, row)) for row in duck.execute(sql).fetchall()]
        ours = [tuple(map(plain, row)) for row in run(plan, tables)]
        assert not difference(ours, theirs), f"seed {seed}: {difference(ours, theirs)}"


def test_a_scalar_subquery_of_two_rows_fails(binder: Binder) -> None:
    tables: dict[str, list[Row]] = {"t": [(1,) + (None,) * 6], "u": [(1, 1, 1) + (None,) * 4] * 2}
    with pytest.raises(MoreThanOneRow):
        run(binder.plan("SELECT id, (SELECT v FROM u WHERE u.id = t.id) AS x FROM t"), tables)


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_maintained_is_refused_by_name(binder: Binder, name: str) -> None:
    sql, words = REFUSED[name]
    with pytest.raises(NotMaintainable, match=words):
        binder.plan(sql)
