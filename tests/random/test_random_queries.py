"""Random queries over random schemas under random changes: equal to DuckDB after every epoch.

PENSTOCK_RANDOM_CASES sets how many cases there are, PENSTOCK_RANDOM_SEED where they begin (0 is the
default, so that a plain run is the same every time). A seed that failed is kept in seeds.txt.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from postgres import Postgres
from tests.random.scenario import Outcome, run_case

CASES = int(os.environ.get("PENSTOCK_RANDOM_CASES", "200"))
FIRST = int(os.environ.get("PENSTOCK_RANDOM_SEED", "0"))
CHUNKS = 12
KEPT = [
    int(line.split()[0])
    for line in Path(__file__).with_name("seeds.txt").read_text().splitlines()
    if line[:1].isdigit()
]


def chunk(number: int) -> range:
    return range(FIRST + number, FIRST + CASES, CHUNKS)


@pytest.mark.parametrize("number", range(CHUNKS))
def test_views_equal_duckdb_after_every_epoch(number: int) -> None:
    outcome = Outcome()
    for seed in chunk(number):
        run_case(seed, outcome)
    print(f"{outcome.kept} views, {len(outcome.refused)} refused, {dict(outcome.features)}")
    assert len(outcome.refused) <= 0.05 * (outcome.kept + len(outcome.refused)) + 1, "\n".join(
        outcome.refused
    )


@pytest.mark.parametrize("number", range(3))
def test_views_equal_duckdb_with_colliding_hashes(number: int, colliding_hash: None) -> None:
    for seed in list(chunk(number))[: CASES // CHUNKS // 2]:
        run_case(1_000_000 + seed, Outcome())


@pytest.mark.parametrize("number", range(3))
def test_views_equal_postgres_at_the_end(number: int, postgres: Postgres) -> None:
    """PostgreSQL as well, because DuckDB also plans for us."""
    for seed in list(chunk(number))[: max(1, CASES // CHUNKS // 2)]:
        run_case(2_000_000 + seed, Outcome(), postgres)


@pytest.mark.parametrize("seed", KEPT)
def test_seeds_that_failed_once(seed: int, request: pytest.FixtureRequest) -> None:
    """Each as it ran then: by its millions with the real hash, the colliding one, or PostgreSQL too."""
    if seed // 1_000_000 == 1:
        request.getfixturevalue("colliding_hash")
    postgres = request.getfixturevalue("postgres") if seed // 1_000_000 == 2 else None
    run_case(seed, Outcome(), postgres)
