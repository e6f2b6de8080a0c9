"""The 22 queries of TPC-H as materialized views, kept right under random changes of all eight tables."""

from __future__ import annotations

import os
import re
from collections import Counter
from pathlib import Path

import pytest

import penstock
from judge import apply_delta, open_duckdb
from postgres import Postgres
from rows import Row, difference, rows_of
from tpch import data
from tpch.changes import Changes

SCALE = 0.01
EPOCHS = int(os.environ.get("PENSTOCK_TPCH_EPOCHS", "30"))
SEED = int(os.environ.get("PENSTOCK_TPCH_SEED", "1"))


@pytest.fixture(scope="session")
def tables(tmp_path_factory: pytest.TempPathFactory) -> dict[str, object]:
    return data.generate(SCALE, Path(tmp_path_factory.mktemp("tpch")))


class Answer:
    """A query, with what is needed to compare answers of which LIMIT cuts off some ties."""

    def __init__(self, name: str, query: str) -> None:
        self.name, self.query = name, query
        limit = re.search(r"ORDER BY ([^()]+)\nLIMIT \d+$", query)
        self.full = re.sub(r"\nLIMIT \d+$", "", query) if limit else None
        self.order = [term.split()[0] for term in limit[1].split(",")] if limit else []

    def problem(self, columns: list[str], ours: list[Row], theirs: list[Row], full: list[Row]) -> str:
        if self.full is None:
            return difference(ours, theirs)
        places = [columns.index(column) for column in self.order]
        cut = difference(
            [tuple(r[p] for p in places) for r in ours], [tuple(r[p] for p in places) for r in theirs]
        )
        if cut:
            return f"the columns of ORDER BY differ: {cut}"
        strangers = Counter(ours) - Counter(full)
        return f"rows that are not in the whole answer: {list(strangers)[:3]}" if strangers else ""


def test_22_views_stay_right_under_random_changes(tables: dict[str, object], postgres: Postgres) -> None:
    print(f"seed {SEED}, {EPOCHS} epochs")
    flow, duck = penstock.Flow(), open_duckdb()
    answers = [Answer(name, query) for name, query in data.queries().items()]
    assert len(answers) == 22
    for statement in data.statements():
        flow.sql(statement)
        duck.execute(statement)
    for answer in answers[::2]:  # half of the views see the load as a delta, half are created over it
        flow.sql(f"CREATE MATERIALIZED VIEW {answer.name} AS {answer.query}")
    flow.tick(tables)
    for name, table in tables.items():
        duck.register("loaded", table)
        duck.execute(f"INSERT INTO {name} SELECT * FROM loaded")
        duck.unregister("loaded")
    for answer in answers[1::2]:
        flow.sql(f"CREATE MATERIALIZED VIEW {answer.name} AS {answer.query}")

    def compare(epoch: int) -> dict[str, Counter[Row]]:
        seen = {}
        for answer in answers:
            snapshot = flow.snapshot(answer.name)
            theirs = duck.sql(answer.query).to_arrow_table()
            full = rows_of(duck.sql(answer.full).to_arrow_table()) if answer.full else []
            ours = rows_of(snapshot)
            assert snapshot.column_names == theirs.column_names
            problem = answer.problem(snapshot.column_names, ours, rows_of(theirs), full)
            assert not problem, f"seed {SEED} epoch {epoch}: {answer.name} differs from DuckDB\n{problem}"
            seen[answer.name] = Counter(ours)
        return seen

    changes = Changes(tables, SEED)  # type: ignore[arg-type]
    before = compare(0)
    moved: Counter[str] = Counter()
    for epoch in range(1, EPOCHS + 1):
        delta = changes.epoch()
        flow.tick(delta)
        for name, rows in delta.items():
            apply_delta(duck, name, rows)
        after = compare(epoch)
        moved.update(name for name in after if after[name] != before[name])
        before = after
    print("epochs in which each view changed:", dict(sorted(moved.items())))
    assert not {answer.name for answer in answers} - set(moved), "a view that never changed tests nothing"
    compare_with_postgres(flow, duck, postgres, answers)
    flow.close()


def compare_with_postgres(
    flow: penstock.Flow, duck: object, postgres: Postgres, answers: list[Answer]
) -> None:
    for statement in data.statements():
        postgres.execute(statement)
    for name in data.TABLES:
        postgres.load(duck, name)  # type: ignore[arg-type]
    postgres.execute("ANALYZE")
    for answer in answers:
        snapshot = flow.snapshot(answer.name)
        full = postgres.rows(answer.full) if answer.full else []
        problem = answer.problem(snapshot.column_names, rows_of(snapshot), postgres.rows(answer.query), full)
        assert not problem, f"{answer.name} differs from PostgreSQL\n{problem}"
