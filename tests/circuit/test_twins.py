"""A flow and its twin, restored from JSON: the same deltas in every epoch, the same sharing afterwards."""

from __future__ import annotations

import random
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import penstock
from rows import Row, rows_of
from tests.circuit.restart import twin
from tests.circuit.same import same_circuit, same_registry
from tests.random.queries import QueryGenerator, Relation
from tests.random.scenario import random_epoch
from tests.random.schemas import random_tables
from tpch import data
from tpch.changes import Changes


def deltas(watches: dict[str, penstock.Watch]) -> dict[str, Counter[Row]]:
    """What each watch gave since it was asked last: rows with their weights."""
    found = {}
    for name, watch in watches.items():
        total: Counter[Row] = Counter()
        while (change := watch.poll()) is not None:
            rows = pa.Table.from_batches([change.batch])
            weights = rows.column("_weight").to_pylist()
            for row, weight in zip(rows_of(rows.drop_columns(["_weight"])), weights, strict=True):
                total[row] += weight
        found[name] = total
    return found


class Twins:
    """Two flows that get the same changes and must do the same."""

    def __init__(self, flow: penstock.Flow) -> None:
        self.flows = (flow, twin(flow))
        self.watches = [self._watched(f) for f in self.flows]

    @staticmethod
    def _watched(flow: penstock.Flow) -> dict[str, penstock.Watch]:
        return {v.name: flow.watch(v.name) for v in flow._core.catalog.materialized()}

    def tick(self, changes: dict[str, Any]) -> None:
        one, other = (flow.tick(changes) for flow in self.flows)
        assert (one.epoch, one.views) == (other.epoch, other.views)
        first, second = (deltas(w) for w in self.watches)
        assert first == second

    def sql(self, text: str) -> None:
        """A statement on both; afterwards both circuits are the same, node for node."""
        errors = []
        for flow in self.flows:
            try:
                flow.sql(text)
            except penstock.PenstockError as error:
                errors.append(str(error))
        assert len(errors) in (0, 2)
        assert len(set(errors)) <= 1
        self.check()
        self.watches = [self._watched(f) for f in self.flows]

    def check(self) -> None:
        one, other = (flow._core for flow in self.flows)
        assert same_circuit(one.circuit, other.circuit)
        assert same_registry(one.registry, other.registry)
        assert [(r.name, r.id) for r in one.catalog] == [(r.name, r.id) for r in other.catalog]
        for relation in one.catalog:
            query = f'SELECT * FROM "{relation.name}"'
            a, b = (flow.sql(query) for flow in self.flows)
            assert Counter(rows_of(a)) == Counter(rows_of(b)), relation.name
            assert a.schema == b.schema
            if relation.kind == "materialized view":
                texts = {flow.explain(relation.name) for flow in self.flows}
                assert len(texts) == 1

    def close(self) -> None:
        for flow in self.flows:
            flow.close()


@pytest.mark.slow
@pytest.mark.parametrize("share", [True, False], ids=["shared", "not shared"])
def test_the_22_views_of_tpch(share: bool, tmp_path: Path) -> None:
    tables = data.generate(0.01, tmp_path)
    flow = penstock.Flow(share_arrangements=share)
    for statement in data.statements():
        flow.sql(statement)
    views = list(data.queries().items())
    for name, query in views[:11]:
        flow.sql(f"CREATE MATERIALIZED VIEW {name} AS {query}")
    changes = Changes(tables, 7)
    flow.tick(tables)
    for name, query in views[11:-2]:  # planned by the sizes that the tables have now
        flow.sql(f"CREATE MATERIALIZED VIEW {name} AS {query}")
    flow.tick(changes.epoch())
    flow.sql("DROP MATERIALIZED VIEW q05")  # what it widened stays wide
    twins = Twins(flow)
    for _ in range(3):
        twins.tick(changes.epoch())
    for name, query in views[-2:]:
        twins.sql(f"CREATE MATERIALIZED VIEW {name} AS {query}")
    twins.sql("DROP MATERIALIZED VIEW q09")
    twins.tick(changes.epoch())
    twins.check()
    twins.close()


@pytest.mark.parametrize("seed", range(12))
def test_random_queries(seed: int) -> None:
    share = seed % 3 > 0
    chance = random.Random(seed)
    tables = random_tables(chance, portable=False)
    flow = penstock.Flow(share_arrangements=share)
    for table in tables:
        flow.sql(table.statement)
    relations = [Relation(table.name, list(table.columns)) for table in tables]

    def create(run: Any, name: str) -> None:
        query = QueryGenerator(chance, list(relations)).query()
        try:
            run(f"CREATE MATERIALIZED VIEW {name} AS {query.text}")
        except penstock.PenstockError:
            return  # the random cases themselves look at what is refused
        if flow._core.catalog.find(name) and all(kind != "loose" for _, kind in query.columns):
            relations.append(Relation(name, query.columns))

    for number in range(6):
        if number == 3:
            flow.tick({table.name: table.delta(chance, 15) for table in tables})
        create(flow.sql, f"v{number}")
    twins = Twins(flow)
    for _ in range(4):
        twins.tick(random_epoch(chance, tables))
    for number in range(6, 9):
        create(twins.sql, f"v{number}")
    for _ in range(2):
        twins.tick(random_epoch(chance, tables))
    for view in [v.name for v in flow._core.catalog.materialized()][::2]:
        if flow._core.catalog.find(view):
            twins.sql(f"DROP MATERIALIZED VIEW {view} CASCADE")
    twins.tick(random_epoch(chance, tables))
    twins.check()
    twins.close()
