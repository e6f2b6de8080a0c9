"""Fixtures for all tests: a judge, PostgreSQL, and the key hash forced to collide."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from judge import Judge
from postgres import Postgres

COLLIDING_BITS = 2  # four distinct hashes for all keys


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Long tests go first, the others stay in order: one that began last would leave the other workers idle."""
    items.sort(key=lambda item: item.get_closest_marker("long") is None)


@pytest.fixture
def judge() -> Iterator[Judge]:
    """A flow and a DuckDB database side by side."""
    judge = Judge()
    yield judge
    judge.close()


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[Postgres]:
    server = Postgres()
    yield server
    server.close()


@pytest.fixture
def postgres(postgres_server: Postgres) -> Postgres:
    """An empty PostgreSQL database; the server is one for the whole session of a worker."""
    postgres_server.reset()
    return postgres_server


@pytest.fixture
def colliding_hash(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every key hash is reduced to a handful of values, so that different keys collide all the time."""
    monkeypatch.setattr("penstock.kernels.hashing.COLLIDE_BITS", COLLIDING_BITS)


@pytest.fixture(params=["plain hash", "colliding hash"])
def each_hash(request: pytest.FixtureRequest) -> str:
    """Runs a test twice: with the real key hash and with the colliding one."""
    if request.param == "colliding hash":
        request.getfixturevalue("colliding_hash")
    return str(request.param)
