"""A flow and a PostgreSQL with the same table and row, for the statements that both refuse."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import penstock
from postgres import Postgres

ONE = ("CREATE TABLE one (x int PRIMARY KEY, y int, s text)", "INSERT INTO one VALUES (1, 2, '2020-13-01')")


@pytest.fixture(scope="module")
def flow_with_one() -> Iterator[penstock.Flow]:
    with penstock.Flow() as flow:
        for statement in ONE:
            flow.sql(statement)
        yield flow


@pytest.fixture(scope="module")
def postgres_with_one(postgres_server: Postgres) -> Postgres:
    postgres_server.reset()
    for statement in ONE:
        postgres_server.execute(statement)
    return postgres_server
