"""Flows that were written in each format so far are opened, compared, worked with, and opened again."""

from __future__ import annotations

import tarfile
from pathlib import Path

import duckdb
import pytest

import penstock
from durable.golden import EPOCHS, FOLDER, PLAIN, TABLES, VIEWS, make, statements
from judge import open_duckdb
from penstock.commit.manifest import ChunkRef
from penstock.state.batch_file import FileRef
from rows import difference, rows_of

ARCHIVES = sorted(path.name for path in FOLDER.glob("format-*.tar.gz"))
OFFSET_ROW = "INSERT INTO bag (k, word) VALUES (1, 'offset')"


@pytest.fixture(params=["made now", *ARCHIVES])
def golden(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """A copy of the golden flow of each format, and of the one that today's program makes."""
    if request.param == "made now":
        make(tmp_path / "flow")
    else:
        with tarfile.open(FOLDER / request.param) as archive:
            archive.extractall(tmp_path, filter="data")
    return tmp_path / "flow"


def expected(epochs: int) -> duckdb.DuckDBPyConnection:
    duck = open_duckdb()
    for statement in (*TABLES, *[f"CREATE VIEW {n} AS {q}" for n, q in VIEWS.items()], PLAIN):
        duck.execute(statement)
    for statement in statements(1, min(epochs, EPOCHS)):
        duck.execute(statement)
    if epochs > EPOCHS:
        duck.execute(OFFSET_ROW)
        for statement in statements(EPOCHS + 2, epochs):
            duck.execute(statement)
    return duck


def compare(flow: penstock.Flow, epochs: int, as_of: int | None = None) -> None:
    duck = expected(epochs)
    for name in ("types", "bag", "other", *VIEWS, "plain"):
        ours = rows_of(flow.snapshot(name, as_of=as_of))
        problem = difference(ours, rows_of(duck.sql(f"SELECT * FROM {name}").to_arrow_table()))
        assert not problem, f"{name} at epoch {epochs}: {problem}"
    duck.close()


def test_the_golden_flow(golden: Path) -> None:
    with penstock.Flow(golden, read_only=True) as reader:
        compare(reader, EPOCHS + 1)
    with penstock.Flow(golden, retain_history="36500 days") as flow:
        assert flow.epoch == EPOCHS + 1
        kinds = {type(ref) for ref in flow._store.flusher.manifest.refs()}  # type: ignore[union-attr]
        assert kinds == {FileRef, ChunkRef}
        compare(flow, EPOCHS + 1)
        compare(flow, EPOCHS - 10, as_of=EPOCHS - 10)
        again = [{"k": 1, "word": "offset"}]
        assert flow.tick("bag", again, offset={"bag": 7}).epoch == EPOCHS + 1
        assert flow.tick("bag", again, idempotency_key="golden").epoch == EPOCHS + 1
        for statement in statements(EPOCHS + 2, EPOCHS + 20):
            flow.sql(statement)
        compare(flow, flow.epoch)
    with penstock.Flow(golden) as flow:
        compare(flow, EPOCHS + 20)
