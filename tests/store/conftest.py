"""Stores of every kind to run the same tests on, and moto's S3 server, one for each test process."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from pathlib import Path

import pytest

from penstock.store.location import Location
from penstock.store.memory import forget
from penstock.store.objects import Objects
from penstock.store.open import open_objects
from store.s3_server import S3Server

_numbers = itertools.count()


@pytest.fixture(scope="session")
def s3_server() -> Iterator[S3Server]:
    server = S3Server()
    yield server
    server.close()


@pytest.fixture
def s3(s3_server: S3Server) -> Location:
    """A fresh bucket with a prefix."""
    bucket = f"bucket-{next(_numbers)}"
    s3_server.make_bucket(bucket)
    return s3_server.location(bucket, "some prefix/flow")


@pytest.fixture(params=["file", "memory", "s3"])
def location(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Location]:
    """An empty location of each kind."""
    if request.param == "file":
        yield Location.parse(tmp_path / "a #1% folder~é")
    elif request.param == "s3":
        yield request.getfixturevalue("s3")
    else:
        name = f"test-{next(_numbers)}"
        yield Location.parse(f"memory://{name}/prefix")
        forget(name)


@pytest.fixture
def objects(location: Location) -> Objects:
    """An empty store of each kind."""
    return open_objects(location, retry_s=5)
