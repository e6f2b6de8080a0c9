"""A flow behind a server, and connections to it."""

from __future__ import annotations

from collections.abc import Iterator

import psycopg
import pytest

from penstock import Flow
from penstock.gateway.background import serving

collect_ignore = ["fuzz.py"]  # a program of its own, which needs atheris


@pytest.fixture
def flow() -> Iterator[Flow]:
    with Flow() as flow:
        yield flow


@pytest.fixture
def url(flow: Flow) -> Iterator[str]:
    with serving(flow) as url:
        yield url


@pytest.fixture
def connection(url: str) -> Iterator[psycopg.Connection]:
    with psycopg.connect(url, autocommit=True) as connection:
        yield connection
