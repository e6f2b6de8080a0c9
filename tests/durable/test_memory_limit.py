"""A flow with a memory limit: state lives on disk, and a tick that cannot fit is refused."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pytest

from penstock import Flow
from penstock.base.errors import InvalidOption, MemoryLimitExceeded
from penstock.engine import slots
from penstock.state.arrangement import Arrangement
from penstock.state.batch_file import StoredBatch

MANY = """
import resource, sys
import numpy as np, pyarrow as pa
from penstock import Flow

rng = np.random.default_rng(0)
with Flow(sys.argv[1], memory_limit="24MB", commit="visible") as flow:
    flow.sql("CREATE TABLE t (id BIGINT PRIMARY KEY, name TEXT, amount DOUBLE)")
    flow.sql("CREATE MATERIALIZED VIEW v AS SELECT id % 100000 AS k, count(*) AS n FROM t GROUP BY k")
    begun = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for first in range(0, 1_200_000, 50_000):
        ids = np.arange(first, first + 50_000)
        names = pa.array(["customer number %09d of all" % i for i in ids])
        flow.tick("t", pa.table({"id": ids, "name": names, "amount": rng.random(50_000)}))
    stored = sum(entry.bytes for entry in flow.state())
    lookup = flow.sql("UPDATE t SET amount = 0 WHERE id = 77").column(0).to_pylist()
    print(stored, lookup, flow.snapshot("v").num_rows)
"""


def test_a_tick_that_cannot_fit_is_refused_and_changes_nothing(tmp_path: Path) -> None:
    with Flow(tmp_path / "flow", memory_limit="1MB") as flow:
        flow.sql("CREATE TABLE t (id BIGINT PRIMARY KEY, name TEXT)")
        flow.sql("INSERT INTO t VALUES (-1, 'small')")
        big = pa.table({"id": range(50_000), "name": ["some text of some length"] * 50_000})
        with pytest.raises(MemoryLimitExceeded, match="may use 1,048,576") as refused:
            flow.tick("t", big)
        assert refused.value.sqlstate == "53200"
        assert flow.epoch == 1
        flow.tick("t", big.slice(0, 5_000))
        assert flow.snapshot("t").num_rows == 5_001


def test_state_goes_to_disk_as_it_grows(tmp_path: Path) -> None:
    with Flow(tmp_path / "flow", memory_limit="2MB") as flow:
        flow.sql("CREATE TABLE t (id BIGINT PRIMARY KEY, name TEXT)")
        flow.sql("CREATE MATERIALIZED VIEW v AS SELECT name, count(*) AS n FROM t GROUP BY name")
        for first in range(0, 60_000, 5_000):
            ids = range(first, first + 5_000)
            flow.tick("t", pa.table({"id": ids, "name": [f"name {i % 30_000}" for i in ids]}))
            assert slots.fresh_bytes(flow._core) <= 2 * 1024 * 1024
        stored = [
            b
            for _, a in slots.pieces(flow._core)
            if isinstance(a, Arrangement)
            for b in a.batches
            if isinstance(b, StoredBatch)
        ]
        assert sum(len(b) for b in stored) > 30_000
        wanted = flow.sql("SELECT name, count(*) AS n FROM t GROUP BY name")
        assert sorted(map(repr, wanted.to_pylist())) == sorted(map(repr, flow.snapshot("v").to_pylist()))


@pytest.mark.slow
def test_a_flow_far_larger_than_its_limit(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", MANY, str(tmp_path / "flow")], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    stored, lookup, rows = done.stdout.split()
    assert int(stored) > 3 * 24 * 1024 * 1024
    assert (lookup, rows) == ("[1]", "100000")


def test_a_limit_must_be_a_size() -> None:
    with pytest.raises(InvalidOption, match="memory_limit"):
        Flow("memory://limit", memory_limit="much")


def test_an_option_of_storage_is_not_ignored_in_memory() -> None:
    for option in ({"memory_limit": "1GB"}, {"cache_dir": "x"}, {"cache_limit": 1}, {"storage_options": {}}):
        with pytest.raises(InvalidOption, match="is for flows on storage"):
            Flow(**option)  # type: ignore[arg-type]
