"""What a flow must hold after a step: its tables are the model's, its views what DuckDB makes of them."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import duckdb
import pyarrow as pa

import penstock
from durable.workload import Model, steps
from judge import open_duckdb
from penstock.base.errors import HistoryGone
from penstock.engine.catalog import MaterializedView
from rows import difference, rows_of

HISTORY_STEPS = 4  # how far back the past is compared


class Wrong(AssertionError):
    """The flow is not what it must be."""


def models(seed: int, first: int, last: int) -> list[Model]:
    """The models after the steps `first` to `last`; before the first step everything is empty."""
    found = [Model()] if first <= 0 else []
    for _, model in itertools.islice(steps(seed), max(0, last)):
        if model.step >= first:
            found.append(model.copy())
    return found


def catalog_of(flow: penstock.Flow) -> set[str]:
    """What the flow has, in the form of `Model.catalog`."""
    return {
        f"{relation.name}: {relation.sql}" if isinstance(relation, MaterializedView) else relation.name
        for relation in flow._core.catalog
    }


def recognise(flow: penstock.Flow, candidates: Sequence[Model]) -> Model:
    """The step after which the flow is like this: exactly one, by its epoch and its catalog."""
    catalog = catalog_of(flow)
    found = [m for m in candidates if m.epoch == flow.epoch and m.catalog() == catalog]
    if len(found) != 1:
        raise Wrong(
            f"the flow came back at epoch {flow.epoch} with {sorted(catalog)}, which {len(found)} of the steps "
            f"{candidates[0].step} (epoch {candidates[0].epoch}) to {candidates[-1].step} (epoch "
            f"{candidates[-1].epoch}) left behind"
        )
    return found[0]


class Judgement:
    """DuckDB with the tables of a model and its views."""

    def __init__(self, model: Model) -> None:
        self.model = model
        self._duck: duckdb.DuckDBPyConnection = open_duckdb()
        for ddl in model.ddl.values():
            self._duck.execute(ddl)
        self.load(model)
        for name, query in model.views.items():
            self._duck.execute(f"CREATE VIEW {name} AS {query}")

    def load(self, model: Model) -> None:
        """Another model's rows, in the same tables."""
        self.model = model
        for name in self.model.ddl:
            schema = self._duck.sql(f"SELECT * FROM {name} LIMIT 0").to_arrow_table().schema
            rows = list(model.rows[name].elements())
            columns = list(zip(*rows, strict=True)) if rows else [()] * len(schema)
            arrays = [pa.array(values, f.type) for values, f in zip(columns, schema, strict=True)]
            self._duck.execute(f"DELETE FROM {name}")
            self._duck.register("_rows", pa.table(arrays, schema=schema))
            self._duck.execute(f"INSERT INTO {name} SELECT * FROM _rows")
            self._duck.unregister("_rows")

    def expected(self, name: str) -> pa.Table:
        return self._duck.sql(f"SELECT * FROM {name}").to_arrow_table()

    def check(self, flow: penstock.Flow, as_of: int | None = None, lenient: bool = False) -> None:
        """Every table and view, now or as of an epoch; `lenient` if the epoch may have been forgotten."""
        for name in (*self.model.rows, *self.model.views):
            if as_of is not None and as_of < flow._core.catalog.get(name).since:  # type: ignore[union-attr]
                continue
            try:
                ours = flow.snapshot(name, as_of=as_of)
            except HistoryGone:
                if lenient:
                    continue
                raise
            problem = difference(rows_of(ours), rows_of(self.expected(name)))
            if problem:
                when = "" if as_of is None else f" as of epoch {as_of}"
                raise Wrong(f"{name}{when}, step {self.model.step}: {problem}")

    def close(self) -> None:
        self._duck.close()


def check_flow(
    flow: penstock.Flow, seed: int, acknowledged: int, started: int, forgetful: bool = False
) -> int:
    """Check a flow that was opened again, its last epochs included; the step it stands at."""
    known = models(seed, acknowledged - HISTORY_STEPS, started)
    model = recognise(flow, [m for m in known if acknowledged <= m.step <= started])
    judgement = Judgement(model)
    try:
        judgement.check(flow)
        past = [m for m in known if m.epoch < model.epoch and (m.ddl, m.views) == (model.ddl, model.views)]
        for then in {past[0].epoch: past[0], past[-1].epoch: past[-1]}.values() if past else ():
            judgement.load(then)
            judgement.check(flow, as_of=then.epoch, lenient=forgetful)
    finally:
        judgement.close()
    _check_repetition(flow, seed, model.step)
    return model.step


def _check_repetition(flow: penstock.Flow, seed: int, step: int) -> None:
    """The last step, if it was a tick, is recognised when it comes again."""
    if not step:
        return
    last, model = next(itertools.islice(steps(seed), step - 1, step))
    if last.kind == "tick":
        summary = last.run(flow)
        if flow.epoch != model.epoch or summary.epoch != model.epoch:
            raise Wrong(f"step {step} was applied twice: epoch {flow.epoch} instead of {model.epoch}")
