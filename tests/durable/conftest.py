"""Flows on every kind of storage, by the fixtures of the store's own tests, and who kills their processes."""

from collections.abc import Iterator

import pytest

from durable.executioner import Executioner
from store.conftest import location, s3, s3_server

__all__ = ["location", "s3", "s3_server"]


@pytest.fixture(scope="session")
def executioner() -> Iterator[Executioner]:
    """One for all tests of a worker: it takes its time to import everything, and opens nothing."""
    executioner = Executioner()
    yield executioner
    executioner.close()
