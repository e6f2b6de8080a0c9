"""Checkpoints, restoring, branches: what is copied, what is shared, and that both go on by themselves."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from penstock import Flow
from penstock.base import faults
from penstock.base.errors import (
    CorruptState,
    DuplicateObject,
    InvalidLocation,
    InvalidOption,
    StorageNotFound,
)

QUERY = "SELECT customer, count(*) AS n, sum(amount) AS total FROM orders GROUP BY customer"


def make(url: Any, rows: int = 20_000, **options: Any) -> Flow:
    flow = Flow(url, **options)
    flow.sql("CREATE TABLE orders (id BIGINT PRIMARY KEY, customer TEXT, amount BIGINT)")
    flow.sql("CREATE TABLE notes (text TEXT)")
    flow.sql(f"CREATE MATERIALIZED VIEW totals AS {QUERY}")
    flow.tick("orders", orders(0, rows))
    flow.sql("INSERT INTO notes VALUES ('first'), (NULL)")
    return flow


def orders(first: int, count: int) -> pa.Table:
    ids = list(range(first, first + count))
    return pa.table({"id": ids, "customer": [f"c{i % 97}" for i in ids], "amount": [i % 1000 for i in ids]})


def contents(flow: Flow) -> dict[str, list[str]]:
    return {
        name: sorted(map(repr, flow.snapshot(name).to_pylist())) for name in ("orders", "notes", "totals")
    }


def is_right(flow: Flow) -> bool:
    """The view is what the query gives."""
    wanted = sorted(map(repr, flow.sql(QUERY).to_pylist()))
    return wanted == sorted(map(repr, flow.snapshot("totals").to_pylist()))


def files_of(place: Path) -> int:
    return len(list(place.rglob("*.arrow")))


def test_a_restored_flow_is_the_one_that_was_checkpointed(tmp_path: Path) -> None:
    with make(tmp_path / "flow") as flow:
        at_checkpoint = contents(flow)
        taken = flow.checkpoint(tmp_path / "kept")
        flow.sql("DELETE FROM orders WHERE id < 5000; INSERT INTO notes VALUES ('later')")
    restored = Flow.restore(tmp_path / "kept", into=tmp_path / "again")
    assert (restored.epoch, restored.files) == (taken.epoch, taken.files)
    with Flow(tmp_path / "again") as again:
        assert again.epoch == taken.epoch
        assert contents(again) == at_checkpoint
        again.sql("UPDATE orders SET amount = amount + 1 WHERE id % 3 = 0")
        assert is_right(again)


def test_a_second_checkpoint_copies_the_new_files_alone(tmp_path: Path) -> None:
    with make(tmp_path / "flow") as flow:
        first = flow.checkpoint(tmp_path / "kept")
        flow.sql("INSERT INTO notes VALUES ('small')")
        second = flow.checkpoint(tmp_path / "kept")
        flow.tick("orders", orders(20_000, 9_000))
        third = flow.checkpoint(tmp_path / "kept")
        full = flow.checkpoint_full(tmp_path / "kept")
    assert first.files_copied == first.files > 0
    assert second.files_copied == 0
    assert 0 < third.bytes_copied < first.bytes_copied
    assert full.files_copied == full.files


def test_an_epoch_of_several_can_be_chosen(tmp_path: Path) -> None:
    seen = {}
    with make(tmp_path / "flow") as flow:
        for number in range(3):
            flow.sql(f"INSERT INTO notes VALUES ('{number}')")
            seen[flow.checkpoint(tmp_path / "kept").epoch] = contents(flow)
    for epoch, rows in seen.items():
        Flow.restore(tmp_path / "kept", into=tmp_path / f"at{epoch}", epoch=epoch)
        with Flow(tmp_path / f"at{epoch}", read_only=True) as flow:
            assert contents(flow) == rows
    with pytest.raises(StorageNotFound, match="no checkpoint of epoch 77"):
        Flow.restore(tmp_path / "kept", into=tmp_path / "none", epoch=77)


def test_a_full_checkpoint_needs_nothing_else(tmp_path: Path) -> None:
    with make(tmp_path / "flow") as flow:
        flow.checkpoint(tmp_path / "kept")
        flow.checkpoint_full(tmp_path / "kept")
        rows = contents(flow)
    for file in (tmp_path / "kept" / "batches").iterdir():
        file.unlink()
    Flow.restore(tmp_path / "kept", into=tmp_path / "again")
    with Flow(tmp_path / "again") as again:
        assert contents(again) == rows


def test_a_flow_is_not_restored_over_another(tmp_path: Path) -> None:
    with make(tmp_path / "flow", 10) as flow:
        flow.checkpoint(tmp_path / "kept")
        with pytest.raises(InvalidLocation, match="is the flow itself"):
            flow.checkpoint(tmp_path / "flow")
        rows = contents(flow)
    with pytest.raises(DuplicateObject, match="there is a flow"):
        Flow.restore(tmp_path / "kept", into=tmp_path / "flow")
    with Flow(tmp_path / "flow") as flow:
        assert contents(flow) == rows
    with pytest.raises(StorageNotFound, match="no checkpoint"):
        Flow.restore(tmp_path / "flow", into=tmp_path / "again")


def test_a_damaged_checkpoint_is_an_error_that_names_it(tmp_path: Path) -> None:
    with make(tmp_path / "flow") as flow:
        name = flow.checkpoint(tmp_path / "kept").name
    document = tmp_path / "kept" / name
    data = bytearray(document.read_bytes())
    data[len(data) // 2] ^= 1
    document.write_bytes(data)
    with pytest.raises(CorruptState, match="checkpoint"):
        Flow.restore(tmp_path / "kept", into=tmp_path / "again")


def test_a_damaged_file_is_found_while_it_is_copied(tmp_path: Path) -> None:
    with make(tmp_path / "flow") as flow:
        flow.checkpoint(tmp_path / "kept")
    file = max((tmp_path / "kept" / "batches").iterdir(), key=lambda f: f.stat().st_size)
    data = bytearray(file.read_bytes())
    data[len(data) // 2] ^= 1
    file.write_bytes(data)
    with pytest.raises(CorruptState, match=file.name):
        Flow.restore(tmp_path / "kept", into=tmp_path / "again")
    with pytest.raises(StorageNotFound):
        Flow(tmp_path / "again", read_only=True)  # nothing has come to exist by half


def test_a_restore_that_was_interrupted_can_be_made_again(tmp_path: Path) -> None:
    with make(tmp_path / "flow") as flow:
        flow.checkpoint(tmp_path / "kept")
        rows = contents(flow)

    def stop() -> None:
        raise CorruptState("interrupted")

    faults.arm("restore.write:before", 1, stop)
    with pytest.raises(CorruptState, match="interrupted"):
        Flow.restore(tmp_path / "kept", into=tmp_path / "again")
    assert Flow.restore(tmp_path / "kept", into=tmp_path / "again").files_copied == 0
    with Flow(tmp_path / "again") as again:
        assert contents(again) == rows


def test_a_branch_shares_files_and_goes_its_own_way(tmp_path: Path) -> None:
    with make(tmp_path / "flow") as flow:
        rows = contents(flow)
        flow.branch(tmp_path / "branch")
        assert files_of(tmp_path / "branch") == 0
        with Flow(tmp_path / "branch") as branch:
            assert contents(branch) == rows
            branch.sql("DELETE FROM orders WHERE id % 2 = 0")
            assert is_right(branch)
            assert contents(flow) == rows
            flow.sql("UPDATE orders SET customer = 'all'")
            assert is_right(flow)
            changed = contents(branch)
    with Flow(tmp_path / "branch") as branch:
        assert contents(branch) == changed
        branch.branch(tmp_path / "twig")
    with Flow(tmp_path / "twig") as twig:
        assert contents(twig) == changed
        assert is_right(twig)


def test_the_parent_keeps_what_its_branch_needs(tmp_path: Path) -> None:
    with make(tmp_path / "flow") as flow:
        flow.branch(tmp_path / "branch")
        rows = contents(flow)
        shared = {f.name for f in (tmp_path / "flow" / "batches").iterdir()}
        flow.sql("DROP TABLE orders CASCADE")
        flow._store.collector.collect(flow._store.flusher.manifest, at_once=True)  # type: ignore[union-attr]
        pinned = {f.name for f in (tmp_path / "flow" / "batches").iterdir()}
        assert pinned & shared
        with Flow(tmp_path / "branch") as branch:
            assert contents(branch) == rows


def test_a_branch_that_needs_its_parent_no_more_lets_it_go(tmp_path: Path) -> None:
    with make(tmp_path / "flow") as flow:
        flow.branch(tmp_path / "branch")
        assert list((tmp_path / "flow" / "pins").iterdir())
        with Flow(tmp_path / "branch") as branch:
            branch.sql("DROP TABLE orders CASCADE; DROP TABLE notes")
            branch.sql("CREATE TABLE other (x INT); INSERT INTO other VALUES (1)")
            store: Any = branch._store
            store.flush_state()
            assert store.flusher.manifest.parents == ()
        assert not list((tmp_path / "flow" / "pins").iterdir())
        with Flow(tmp_path / "branch") as branch:
            assert branch.snapshot("other").to_pylist() == [{"x": 1}]


def test_ticks_go_on_while_a_checkpoint_is_copied(tmp_path: Path) -> None:
    with make(tmp_path / "flow") as flow:
        before = contents(flow)
        began = []

        def progress(done: int, total: int) -> None:
            if not began:  # called from within the copying: the flow must not be locked
                began.append(time.monotonic())
                flow.sql("UPDATE orders SET amount = 0")

        flow.checkpoint(tmp_path / "kept", progress=progress)
        assert began
        assert contents(flow) != before
    Flow.restore(tmp_path / "kept", into=tmp_path / "again")
    with Flow(tmp_path / "again") as again:
        assert contents(again) == before


def test_offsets_come_with_a_checkpoint(tmp_path: Path) -> None:
    with make(tmp_path / "flow", 10) as flow:
        flow.tick("notes", [{"text": "x"}], offset=5, idempotency_key="k")
        flow.checkpoint(tmp_path / "kept")
    Flow.restore(tmp_path / "kept", into=tmp_path / "again")
    with Flow(tmp_path / "again") as again:
        rows = contents(again)
        assert again.tick("notes", [{"text": "x"}], offset=5).repeated == ("notes",)
        assert again.tick("notes", [{"text": "x"}], idempotency_key="k").repeated == ("notes",)
        assert contents(again) == rows


def test_a_flow_in_memory_says_why_it_cannot(tmp_path: Path) -> None:
    with Flow() as flow, pytest.raises(InvalidOption, match="in memory"):
        flow.checkpoint(tmp_path / "kept")
