"""A flow has one writer: whoever opens it last. The one before can do no more, and no harm."""

from __future__ import annotations

import itertools
import json
import os
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import penstock
from durable.small_limits import small_limits
from penstock.base import faults
from penstock.base.errors import Fenced
from penstock.store.location import Location

TABLE = "CREATE TABLE t (k BIGINT PRIMARY KEY, text TEXT)"
VIEW = "CREATE MATERIALIZED VIEW v AS SELECT COUNT(*) AS n, MAX(k) AS k FROM t"


@pytest.fixture(autouse=True)
def limits() -> Iterator[None]:
    with small_limits():
        yield
    faults.disarm()


def rows(first: int, count: int = 20) -> list[dict[str, object]]:
    return [{"k": k, "text": "x" * 60} for k in range(first, first + count)]


def keys_of(flow: penstock.Flow) -> list[int]:
    return sorted(flow.snapshot("t").column("k").to_pylist())


def opened(location: Location, tmp_path: Path, **options: object) -> penstock.Flow:
    cache = tmp_path / "cache"
    return penstock.Flow(location.url, storage_options=location.options, cache_dir=cache, **options)  # type: ignore[arg-type]


def refused(*calls: Callable[[], object]) -> None:
    for call in calls:
        with pytest.raises(Fenced, match="another process has opened the flow"):
            call()


def test_the_second_fences_the_first(location: Location, tmp_path: Path) -> None:
    first = opened(location, tmp_path)
    first.sql(TABLE)
    first.sql(VIEW)
    first.tick("t", rows(0))
    second = opened(location, tmp_path)
    refused(lambda: first.tick("t", rows(100)))
    # It stays stopped, and says so whatever it is asked to write.
    refused(
        lambda: first.tick("t", rows(200)),
        lambda: first.sql("INSERT INTO t VALUES (999, 'a')"),
        lambda: first.sql("CREATE TABLE u (a INT)"),
        first.flush,
    )
    assert first.durable_epoch == 1
    for i in range(1, 8):
        second.tick("t", rows(1000 * i))
    first.close()
    assert len(keys_of(second)) == 160
    second.close()
    third = opened(location, tmp_path)
    assert len(keys_of(third)) == 160
    assert third.snapshot("v").to_pylist() == [{"n": 160, "k": 7019}]
    third.close()


def test_visible_epochs_of_a_fenced_writer_are_not_acknowledged(location: Location, tmp_path: Path) -> None:
    first = opened(location, tmp_path, commit="visible", commit_interval="10 s")
    first.sql(TABLE)
    first.tick("t", rows(0))
    assert first.flush() == 1
    first.tick("t", rows(100))
    second = opened(location, tmp_path)
    refused(first.flush, lambda: first.tick("t", rows(200)))
    assert first.durable_epoch == 1
    first.close()
    assert keys_of(second) == list(range(20))
    second.close()


@pytest.mark.slow
def test_a_fenced_writer_deletes_nothing_that_the_new_one_needs(location: Location, tmp_path: Path) -> None:
    """The first is fenced at each step of its flush and its collection; the second goes on from there."""
    steps = ("flush.capture", "flush.file", "flush.write", "flush.durable", "collect.trim", "collect.files")
    for step in steps if location.scheme == "file" else ("flush.write", "collect.files"):
        place = Location.parse(f"{location.url}/{step}", location.options)
        first = opened(place, tmp_path, retain_history="0 s")
        first.sql(TABLE)
        first.sql(VIEW)
        second: list[penstock.Flow] = []
        # The action runs once, in whichever thread comes there first.
        faults.arm(f"{step}:before", 2, lambda p=place, s=second: s.append(opened(p, tmp_path)))  # type: ignore[misc]
        acknowledged = 0
        with pytest.raises(Fenced):
            for i in range(100):
                first.tick("t", rows(100 * i) if i % 3 else [{"k": 100 * i, "text": "y"}])
                acknowledged = first.epoch
        until = time.monotonic() + 20
        while not second and time.monotonic() < until:  # the first may learn of it before the second is ready
            time.sleep(0.01)
        assert second, step
        taken_over = second[0]
        assert taken_over.epoch in (acknowledged, acknowledged + 1)
        count = len(keys_of(taken_over))
        for i in range(10):
            taken_over.tick("t", rows(100_000 + 100 * i))
        first.close()
        taken_over.close()
        again = opened(place, tmp_path)
        assert len(keys_of(again)) == count + 200
        assert again.snapshot("v").to_pylist()[0]["n"] == count + 200
        again.close()


def test_a_writer_that_is_fenced_while_it_opens_deletes_nothing(location: Location, tmp_path: Path) -> None:
    """It lists the files that nothing names as far as it knows: those of its successor are among them."""
    with opened(location, tmp_path) as flow:
        flow.sql(TABLE)
    successor: list[penstock.Flow] = []

    def succeed() -> None:
        flow = opened(location, tmp_path)
        flow.tick("t", rows(0, 200))
        flow.tick("t", rows(1000, 200))
        successor.append(flow)

    faults.arm("open.replay:after", 1, succeed)
    with pytest.raises(Fenced):
        opened(location, tmp_path)
    successor[0].close()
    with opened(location, tmp_path) as flow:
        assert len(keys_of(flow)) == 400


_RACER = """
import json, os, sys, time
import penstock
from penstock.base.errors import Fenced, StorageError
url, options, name, until = sys.argv[1], json.loads(sys.argv[2]), int(sys.argv[3]), float(sys.argv[4])
number = 0
while time.time() < until:
    try:
        flow = penstock.Flow(url, storage_options=options, cache_dir=sys.argv[5])
        flow.sql("CREATE TABLE IF NOT EXISTS t (writer BIGINT, number BIGINT, text TEXT)")
        flow.sql("CREATE MATERIALIZED VIEW IF NOT EXISTS v AS SELECT writer, COUNT(*) AS n FROM t GROUP BY writer")
        for _ in range(5):
            number += 1
            print("try", name, number, flush=True)
            summary = flow.tick("t", [{"writer": name, "number": number, "text": "x" * 50}])
            print("ack", name, number, summary.epoch, flush=True)
        flow.close()
    except Fenced:
        print("fenced", flush=True)
    except StorageError as error:
        print("storage", error.message, flush=True)
"""


def _race(location: Location, tmp_path: Path, seconds: float) -> None:
    program = "from durable.small_limits import SMALL, set_limits\nimport penstock\nset_limits(SMALL)\n"
    program += textwrap.dedent(_RACER)
    paths = os.pathsep.join([str(Path(__file__).parent.parent), *filter(None, sys.path)])
    until, options = str(time.time() + seconds), json.dumps(dict(location.options))
    racers = [
        subprocess.Popen(
            [sys.executable, "-c", program, location.url, options, str(n), until, str(tmp_path / "cache")],
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONPATH": paths},
        )
        for n in range(2)
    ]
    said = [line.split() for racer in racers for line in racer.communicate(timeout=120)[0].splitlines()]
    assert all(racer.returncode == 0 for racer in racers)
    acknowledged = {(int(w[1]), int(w[2])): int(w[3]) for w in said if w[0] == "ack"}
    tried = {(int(w[1]), int(w[2])) for w in said if w[0] == "try"}
    assert acknowledged, said
    assert not [w for w in said if w[0] == "storage"], said
    flow = opened(location, tmp_path)
    found = [(row["writer"], row["number"]) for row in flow.snapshot("t").to_pylist()]
    assert len(found) == len(set(found)) == flow.epoch, "an epoch twice, or one without its row"
    assert acknowledged.keys() <= set(found) <= tried
    epochs = list(acknowledged.values())
    assert len(epochs) == len(set(epochs)), "two writers were told the same epoch"
    for change in flow.changes("t", 0):
        (row,) = change.batch.to_pylist()
        assert acknowledged.get((row["writer"], row["number"]), change.epoch) == change.epoch
    counts = {row["writer"]: row["n"] for row in flow.snapshot("v").to_pylist()}
    assert counts == {w: len(list(g)) for w, g in itertools.groupby(sorted(found), key=lambda f: f[0])}
    flow.close()


@pytest.mark.slow
def test_two_writers_race(location: Location, tmp_path: Path) -> None:
    if location.scheme == "memory":
        pytest.skip("memory is one process's")
    _race(location, tmp_path, 8)
