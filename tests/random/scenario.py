"""One random case: tables, views over them and over each other, and a sequence of epochs."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import dataclass, field

import duckdb

import penstock
from judge import Judge
from penstock.base import errors
from postgres import Postgres
from rows import difference, rows_of
from tests.random.queries import QueryGenerator, Relation, portable
from tests.random.schemas import Table, random_tables

EPOCHS = 6
VIEWS = 4


@dataclass
class Outcome:
    """What became of the queries of one or more cases."""

    kept: int = 0
    refused: list[str] = field(default_factory=list)
    features: Counter[str] = field(default_factory=Counter)


def run_case(
    seed: int, outcome: Outcome, postgres: Postgres | None = None, flow: penstock.Flow | None = None
) -> None:
    """Builds the case of this seed, in a flow in memory or in this one, and checks every view after every epoch."""
    chance = random.Random(seed)
    judge = Judge(flow)
    try:
        tables = random_tables(chance, portable=postgres is not None)
        for table in tables:
            judge.sql(table.statement)
        relations = [Relation(table.name, list(table.columns)) for table in tables]
        early = chance.randint(0, VIEWS)
        portables: dict[str, str] = {}
        for number in range(VIEWS):
            if number == early:  # the views after this one are created over tables that have rows
                judge.tick({table.name: table.delta(chance, 15) for table in tables})
            name = f"v{number}"
            _create(judge, chance, name, relations, outcome, portables)
        judge.check(note=f"seed {seed} at the start")
        for epoch in range(EPOCHS):
            judge.tick(random_epoch(chance, tables))
            judge.check(note=f"seed {seed} epoch {epoch}")
        if postgres is not None:
            compare_with_postgres(judge, tables, portables, postgres, seed)
    except AssertionError:
        raise
    except Exception as caught:
        raise AssertionError(f"seed {seed}: {type(caught).__name__}: {caught}") from caught
    finally:
        judge.close()


def random_epoch(chance: random.Random, tables: list[Table]) -> dict[str, list[dict[str, object]]]:
    """Changes of some of the tables; now and then an epoch without any."""
    changed = chance.sample(tables, chance.randint(1, len(tables)))
    most = chance.choice((0, 1, 3, 8))
    return {table.name: table.delta(chance, most) for table in changed}


def _create(
    judge: Judge,
    chance: random.Random,
    name: str,
    relations: list[Relation],
    outcome: Outcome,
    portables: dict[str, str],
) -> None:
    generator = QueryGenerator(chance, list(relations))
    query = generator.query()
    try:
        judge.duck.sql(query.text).to_arrow_table()
    except duckdb.Error:
        return  # DuckDB itself does not take it (a few forms of correlation): nothing to compare with
    try:
        judge.sql(f"CREATE MATERIALIZED VIEW {name} AS {query.text}")
    except errors.NotMaintainable as refusal:
        outcome.refused.append(f"{refusal.message}: {query.text}")
        return
    except penstock.PenstockError as error:
        raise AssertionError(f"{type(error).__name__}: {error}\n{query.text}") from error
    outcome.kept += 1
    outcome.features.update(generator.features)
    if portable(generator.features) and _all_known(query.text, portables, relations):
        portables[name] = query.text
    if all(kind != "loose" for _, kind in query.columns):
        relations.append(Relation(name, query.columns))


def _all_known(text: str, portables: dict[str, str], relations: list[Relation]) -> bool:
    """Whether the views that this one reads can be made in PostgreSQL as well."""
    return all(r.text in portables for r in relations if r.text.startswith("v") and f"{r.text} " in text)


def compare_with_postgres(
    judge: Judge, tables: list[Table], portables: dict[str, str], postgres: Postgres, seed: int
) -> None:
    postgres.reset()
    for table in tables:
        postgres.execute(table.statement)
        postgres.load(judge.duck, table.name)
    for name, query in portables.items():
        postgres.execute(f"CREATE VIEW {name} AS {query}")
        problem = difference(rows_of(judge.flow.snapshot(name)), postgres.rows(f"SELECT * FROM {name}"))
        assert not problem, f"seed {seed}: view {name} differs from PostgreSQL\n{query}\n{problem}"
