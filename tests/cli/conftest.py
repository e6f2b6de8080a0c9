"""A flow to look after, the command run in this process, and moto's S3 server."""

from __future__ import annotations

import itertools
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from penstock import Flow
from penstock.cli.main import main
from penstock.store.location import Location
from penstock.store.memory import forget
from store.conftest import s3_server
from store.s3_server import S3Server

__all__ = ["s3_server"]

_numbers = itertools.count()


@dataclass(frozen=True)
class Ran:
    code: int
    out: str
    err: str


@pytest.fixture
def penstock(capsys: pytest.CaptureFixture[str]) -> Callable[..., Ran]:
    """Runs the command with these arguments, in this process."""

    def run(*arguments: object) -> Ran:
        capsys.readouterr()
        code = main([str(a) for a in arguments])
        printed = capsys.readouterr()
        return Ran(code, printed.out, printed.err)

    return run


def fill(flow: Flow) -> None:
    """Tables, views, and enough rows that batches are files."""
    flow.sql("CREATE TABLE orders (id BIGINT PRIMARY KEY, customer TEXT, amount DECIMAL(12,2))")
    flow.sql(
        "CREATE MATERIALIZED VIEW totals AS SELECT customer, SUM(amount) AS total FROM orders GROUP BY customer"
    )
    flow.sql("CREATE VIEW large AS SELECT * FROM totals WHERE total > 100")
    for start in (0, 5_000):
        rows = [{"id": i, "customer": f"c{i % 3000}", "amount": i % 7} for i in range(start, start + 5_000)]
        flow.tick("orders", rows)
    flow.sql("DELETE FROM orders WHERE id < 10")


@pytest.fixture(scope="session")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("made") / "flow"
    with Flow(place) as flow:
        fill(flow)
    return place


@pytest.fixture
def folder(made: Path, tmp_path: Path) -> Path:
    """A flow in a folder, closed: a copy of one that was made once."""
    return shutil.copytree(made, tmp_path / "flow")


@pytest.fixture
def memory() -> Iterator[str]:
    """A flow in memory, open for reading and writing in this process only."""
    name = f"cli-{next(_numbers)}"
    with Flow(f"memory://{name}") as flow:
        fill(flow)
    yield f"memory://{name}"
    forget(name)


@pytest.fixture
def s3(s3_server: S3Server) -> Location:
    s3_server.make_bucket("cli")
    return s3_server.location("cli", "flow")
