"""The whole of a durable flow on every kind of storage: a folder, memory, and S3."""

from __future__ import annotations

import random
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from durable.chain import run_chain
from durable.executioner import Executioner
from durable.test_checkpoint import contents, is_right, make, orders
from durable.victim import Case
from penstock import Flow
from penstock.base.errors import Fenced, InvalidOption
from penstock.store.location import Location


@pytest.fixture
def options(location: Location, tmp_path: Path) -> dict[str, Any]:
    if not location.is_remote:
        return {}
    return {"storage_options": location.options, "cache_dir": tmp_path / "cache"}


def opened(location: Location, options: dict[str, Any], **more: Any) -> Flow:
    return Flow(location.url, **options, **more)


def until(found: Callable[[], bool]) -> None:
    end = time.monotonic() + 20
    while not found():
        assert time.monotonic() < end, "it does not come"
        time.sleep(0.02)


def test_the_life_of_a_flow(location: Location, options: dict[str, Any]) -> None:
    with make(location.url, 10, **options) as flow:
        flow.tick("orders", orders(100, 9_000), offset=7)  # large enough to be files
        first, epoch = contents(flow), flow.epoch
        with opened(location, options, read_only=True) as reader:
            assert contents(reader) == first
            flow.sql("DELETE FROM orders WHERE id % 3 = 0")
            until(lambda: reader.epoch == flow.epoch)
            assert contents(reader) == contents(flow)
        second = contents(flow)
        flow.tick("notes", [{"text": "visible"}], commit="visible")
        assert flow.flush() == flow.epoch == flow.durable_epoch
    with opened(location, options) as flow:
        assert flow.tick("orders", orders(0, 5), offset=7).repeated == ("orders",)
        assert sorted(map(repr, flow.snapshot("totals", as_of=epoch).to_pylist())) == first["totals"]
        past = flow.sql(f"SELECT count(*) AS n FROM orders AS OF EPOCH {epoch}").to_pylist()
        assert past == [{"n": len(first["orders"])}]
        changed = sum(abs(w) for c in flow.changes("orders", epoch) for w in c.batch["_weight"].to_pylist())
        assert changed == len(first["orders"]) - len(second["orders"])
        assert is_right(flow)
        flow.compact()
        assert all(check.equal for check in flow.verify())


def test_checkpoint_restore_and_branch(location: Location, options: dict[str, Any]) -> None:
    stored = {"storage_options": location.options} if location.is_remote else {}
    kept, again, branch = (location.child(name) for name in ("kept", "again", "branch"))
    with make(location.url, 10, **options) as flow:
        flow.tick("orders", orders(100, 9_000))
        rows = contents(flow)
        flow.checkpoint(kept.url, **stored)
        flow.branch(branch.url, **stored)
        flow.sql("UPDATE orders SET amount = 0")
        assert flow.checkpoint(kept.url, **stored).files_copied > 0
        epoch = flow.epoch - 1
    Flow.restore(kept.url, into=again.url, epoch=epoch, **stored)
    for place in (again, branch):
        with opened(place, options) as flow:
            assert contents(flow) == rows
            flow.sql("DELETE FROM orders WHERE id > 5000")
            assert is_right(flow)
            assert all(check.equal for check in flow.verify())


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="needs fork and SIGKILL")
def test_a_chain_of_kills_on_s3(s3: Location, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))  # where copies of remote files go
    executioner = Executioner()
    try:
        case = Case(s3.url, 21, options=dict(s3.options))
        points = [
            "commit.write:after",
            "flush.write:before",
            "flush.file:after",
            "",
            "define.write:after",
            "",
        ]
        tally = run_chain(executioner, case, points, random.Random(21))
    finally:
        executioner.close()
    assert not tally.failures, tally.failures[0]
    assert tally.kills.total() == len(points)


def test_a_statement_says_when_it_is_answered(tmp_path: Path) -> None:
    with Flow(tmp_path / "flow", commit="visible", commit_interval=3600) as flow:
        flow.sql("CREATE TABLE t (x INT)")
        flow.sql("INSERT INTO t VALUES (1)")
        assert (flow.epoch, flow.durable_epoch) == (1, 0)
        flow.sql("INSERT INTO t VALUES (2)", commit="durable")
        assert (flow.epoch, flow.durable_epoch) == (2, 2)
        with pytest.raises(InvalidOption, match="unknown commit mode"):
            flow.sql("INSERT INTO t VALUES (3)", commit="soon")
        assert flow.epoch == 2


def test_a_writer_that_was_fenced_does_not_show_what_it_could_not_write(tmp_path: Path) -> None:
    with Flow(tmp_path / "flow") as first:
        first.sql("CREATE TABLE t (x INT)")
        with Flow(tmp_path / "flow") as second:
            for use in (lambda: first.tick("t", [{"x": 1}]), lambda: first.sql("SELECT * FROM t")):
                with pytest.raises(Fenced):
                    use()
            assert second.snapshot("t").num_rows == 0
