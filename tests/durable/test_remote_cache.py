"""A flow on S3 works from local copies, and the copies stay within their bound."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

from penstock import Flow
from store.s3_server import S3Server

CACHE_BYTES = 1_500_000


@pytest.fixture(scope="module")
def server() -> Iterator[S3Server]:
    server = S3Server()
    server.make_bucket("flows")
    yield server
    server.close()


def size(folder: Path) -> int:
    return sum(f.stat().st_size for f in folder.rglob("*.arrow"))


def test_state_larger_than_the_cache(server: S3Server, tmp_path: Path) -> None:
    location = server.location("flows", "larger")
    options = {
        "storage_options": location.options,
        "cache_dir": tmp_path / "cache",
        "cache_limit": CACHE_BYTES,
    }
    with Flow(location.url, **options) as flow:  # type: ignore[arg-type]
        for number in range(4):
            flow.sql(f"CREATE TABLE t{number} (id BIGINT PRIMARY KEY, name TEXT)")
            ids = range(20_000)
            flow.tick(f"t{number}", pa.table({"id": ids, "name": [f"row {i} of {number}" for i in ids]}))
        flow.sql("CREATE MATERIALIZED VIEW v AS SELECT a.id, b.name FROM t0 a JOIN t1 b ON a.id = b.id")
    with Flow(location.url, **options) as flow:  # type: ignore[arg-type]
        assert size(tmp_path / "cache") <= CACHE_BYTES
        for _ in range(2):
            for number in range(4):
                answer = flow.sql(f"UPDATE t{number} SET name = 'x' WHERE id = 7 RETURNING id")
                assert answer.to_pylist() == [{"id": 7}]
                assert size(tmp_path / "cache") <= CACHE_BYTES
        assert flow.sql("SELECT count(*) AS n FROM v WHERE name = 'x'").to_pylist() == [{"n": 1}]
        stored = sum(entry.bytes for entry in flow.state())
    assert stored > 2 * CACHE_BYTES
