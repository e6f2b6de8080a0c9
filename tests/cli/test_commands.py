"""The command `penstock` in this process: what it prints, its exit codes, and that it disturbs nobody."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from penstock import Flow
from penstock.cli import main as cli
from penstock.commit import keys
from penstock.commit.truth import Truth
from penstock.engine.opening import read_manifest
from penstock.store.location import Location

Run = Callable[..., Any]


def test_inspect_says_what_is_there(penstock: Run, folder: Path) -> None:
    ran = penstock("inspect", folder, "--batches")
    assert (ran.code, ran.err) == (0, "")
    for text in (
        "format     1",
        "epoch      3,",
        "orders",
        "materialized view",
        "db/wal",
        "batches",
        "view totals",
    ):
        assert text in ran.out
    found = json.loads(penstock("inspect", folder, "--json").out)
    assert (found["epoch"], found["history_from"], found["unnamed"]) == (3, 0, [])
    rows = {r["name"]: r["rows"] for r in found["relations"]}
    assert rows == {"orders": 9_990, "totals": 3_000, "large": None}
    on_disk = sum(f.stat().st_size for f in folder.rglob("*") if f.is_file())
    assert sum(o["bytes"] for o in found["objects"]) == on_disk
    table = next(a for a in found["arrangements"] if a["name"] == "table orders")
    assert table["bytes"] == sum(b["bytes"] for b in table["batches"])
    fast = json.loads(penstock("inspect", folder, "--json", "--fast").out)
    assert {r["rows"] for r in fast["relations"]} == {None}


def test_inspect_names_files_that_nothing_names(penstock: Run, folder: Path) -> None:
    (folder / "batches" / "0123-00000001.arrow").write_bytes(b"left behind")
    found = json.loads(penstock("inspect", folder, "--json").out)
    assert found["unnamed"] == [{"name": "batches/0123-00000001.arrow", "bytes": 11}]
    assert "1 file that nothing names, 11 B" in penstock("inspect", folder).out


def test_reading_commands_do_not_disturb_a_writer(penstock: Run, folder: Path) -> None:
    with Flow(folder) as writer:
        assert penstock("inspect", folder).code == 0
        assert penstock("verify", folder).code == 0
        writer.tick("orders", [{"id": 1, "customer": "x", "amount": 1}])
        found = json.loads(penstock("inspect", folder, "--json").out)
        assert (found["epoch"], found["written_epoch"]) == (4, 3)
        assert {r["name"]: r["rows"] for r in found["relations"]}["orders"] == 9_991
        assert penstock("verify", folder).code == 0
        writer.tick("orders", [{"id": 2, "customer": "x", "amount": 1}])


def test_verify_a_flow_that_is_right(penstock: Run, folder: Path, memory: str) -> None:
    for url in (folder, memory):
        ran = penstock("verify", url)
        assert (ran.code, ran.err) == (0, "")
        assert "ok         view totals: 3,000 rows" in ran.out
        assert penstock("verify", url, "--view", "totals", "--as-of", "1").code == 0
        found = json.loads(penstock("verify", url, "--json", "--as-of", "1").out)
        assert {c["name"]: c["rows"] for c in found["checks"]}["orders"] == 5_000
        now = datetime.now(UTC).isoformat()
        assert penstock("verify", url, "--as-of", now).code == 0
        assert penstock("verify", url, "--as-of", "2999-01-01").code == 2


def leave_out(url: str, name: str) -> None:
    """Write a manifest in which the view has lost a batch."""
    truth = Truth(Location.parse(url))
    manifest = read_manifest(truth)
    assert manifest.slots[name]
    slots = {**manifest.slots, name: manifest.slots[name][1:]}
    object.__setattr__(manifest, "slots", slots)
    truth.write({keys.MANIFEST: manifest.encode()})
    truth.flush()
    truth.close()


def test_verify_finds_a_batch_that_is_left_out(penstock: Run, folder: Path) -> None:
    with Flow(folder, read_only=True) as flow:
        slot = f"r{flow._core.catalog.get('totals').id}"
    leave_out(str(folder), slot)
    ran = penstock("verify", folder, "--rows", 2)
    assert ran.code == 1
    assert "DIFFERENT  view totals:" in ran.out
    assert "missing  x1 customer=" in ran.out
    assert "1 of 3 checks found differences" in ran.out.replace("1 of 4", "1 of 3")
    found = json.loads(penstock("verify", folder, "--json", "--rows", 2).out)
    totals = next(c for c in found["checks"] if c["name"] == "totals")
    assert totals["missing"] > 2
    assert len(totals["missing_rows"]) == 2
    assert penstock("verify", folder, "--view", "totals", "--quiet").code == 1


def files_of(folder: Path) -> list[Path]:
    return sorted((folder / "batches").iterdir())


@pytest.mark.parametrize("where", ["start", "middle", "end"])
def test_verify_finds_a_flipped_bit(penstock: Run, folder: Path, where: str) -> None:
    file = max(files_of(folder), key=lambda f: f.stat().st_size)
    data = bytearray(file.read_bytes())
    data[{"start": 9, "middle": len(data) // 2, "end": len(data) - 9}[where]] ^= 4
    file.chmod(0o600)
    file.write_bytes(data)
    ran = penstock("verify", folder)
    assert ran.code == 1
    assert file.name in ran.out
    assert "checksum" in ran.out
    assert penstock("inspect", folder).code == 0


def test_verify_finds_a_file_that_is_gone_or_cut(penstock: Run, folder: Path) -> None:
    file = files_of(folder)[0]
    data = file.read_bytes()
    for left in (data[:-1], b"", None):
        file.unlink()
        if left is not None:
            file.write_bytes(left)
        ran = penstock("verify", folder)
        assert ran.code == 1
        assert file.name in ran.out
        file.write_bytes(data)
    assert penstock("verify", folder).code == 0


def test_compact_leaves_one_batch_each(penstock: Run, folder: Path) -> None:
    with Flow(folder) as flow:
        before = flow.snapshot("totals").sort_by("customer")
    assert penstock("compact", folder).code == 2  # nobody is there to be asked
    ran = penstock("compact", folder, "--yes")
    assert (ran.code, ran.err) == (0, "")
    assert "one batch as of epoch 3" in ran.out
    found = json.loads(penstock("inspect", folder, "--json").out)
    assert all(len(a["batches"]) <= 1 for a in found["arrangements"])
    assert {a["name"]: a["rows"] for a in found["arrangements"]}["table orders"] == 9_990
    assert found["unnamed"] == []
    assert penstock("verify", folder).code == 0
    with Flow(folder) as flow:
        assert flow.snapshot("totals").sort_by("customer").equals(before)
        flow.tick("orders", [{"id": 3, "customer": "x", "amount": 1}])
        assert all(c.equal for c in flow.verify())


def test_compact_asks_at_a_terminal(penstock: Run, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    answers: list[str] = []

    def confirm(_: object, question: str) -> bool:
        answers.append(question)
        return False

    monkeypatch.setattr("penstock.cli.terminal.Terminal.confirm", confirm)
    ran = penstock("compact", folder)
    assert (ran.code, ran.out, ran.err) == (2, "", "Nothing was done.\n")
    assert "is stopped. Go on?" in answers[0]


def test_checkpoint_restore_and_branch(penstock: Run, folder: Path, tmp_path: Path) -> None:
    kept, back, other = tmp_path / "kept", tmp_path / "back", tmp_path / "other"
    ran = penstock("checkpoint", folder, kept, "--yes")
    assert (ran.code, ran.err) == (0, "")
    assert "of epoch 3" in ran.out
    assert "0 copied, 0 B" in penstock("checkpoint", folder, kept, "--yes").out
    with Flow(folder) as flow:
        flow.sql("DELETE FROM orders")
    assert penstock("checkpoint", folder, kept, "--yes", "--full").code == 0
    assert penstock("restore", kept, back, "--epoch", 3).code == 0
    assert penstock("verify", back).code == 0
    with Flow(back) as flow:
        assert (flow.epoch, flow.snapshot("orders").num_rows) == (3, 9_990)
    ran = penstock("restore", kept, back)
    assert ran.code == 2
    assert "there is a flow at" in ran.err
    assert penstock("branch", back, other, "--yes").code == 0
    assert penstock("verify", other).code == 0
    assert f"branch of  {back}" in penstock("inspect", other).out.replace("file://", "")


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ((), "the following arguments are required: COMMAND"),
        (("frobnicate",), "invalid choice: 'frobnicate'"),
        (("verify",), "required: URL"),
        (("inspect", "{missing}"), "there is no flow at"),
        (("verify", "{missing}"), "there is no flow at"),
        (("compact", "{missing}", "--yes"), "there is no flow at"),
        (("inspect", "ftp://x"), "is not a kind of storage"),
        (("inspect", "{folder}", "--storage-option", "region"), "'region' is not KEY=VALUE"),
        (("inspect", "{folder}", "--storage-option", "region=x"), "takes no storage options"),
        (("verify", "{folder}", "--view", "nothing"), '"nothing" does not exist'),
        (("verify", "{folder}", "--view", "orders"), "not a materialized view"),
        (("verify", "{folder}", "--as-of", "99"), "there is no epoch 99 yet"),
        (("verify", "{folder}", "--as-of", "noon"), "'noon' is not a time"),
        (("verify", "{folder}", "--rows", "-1"), "not negative"),
        (("checkpoint", "{folder}", "{folder}", "--yes"), "is the flow itself"),
    ],
)
def test_wrong_use(
    penstock: Run, folder: Path, tmp_path: Path, arguments: tuple[str, ...], text: str
) -> None:
    places = {"missing": str(tmp_path / "missing"), "folder": str(folder)}
    ran = penstock(*(a.format(**places) for a in arguments))
    assert (ran.code, ran.out) == (2, "")
    assert text in ran.err
    assert ran.err.startswith("error: ")
    assert ran.err.count("\n") <= 2
    assert not (tmp_path / "missing").exists()


def test_a_failure_of_storage(penstock: Run, folder: Path) -> None:
    for file in (folder / "db" / "manifest").iterdir():
        file.unlink()
        file.write_bytes(b"nonsense")
    ran = penstock("inspect", folder)
    assert (ran.code, ran.out) == (3, "")
    assert ran.err.startswith("error: ")


def test_ctrl_c(penstock: Run, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(Flow, "verify", interrupted)
    ran = penstock("verify", folder)
    assert (ran.code, ran.out, ran.err) == (130, "", "Interrupted.\n")


def test_help_says_the_exit_codes(penstock: Run) -> None:
    ran = penstock("--help")
    assert ran.code == 0
    for command in cli.COMMANDS:
        assert command.name in ran.out
        assert "exit codes:" in penstock(command.name, "--help").out
    assert penstock("--version").out.startswith("penstock ")


@pytest.mark.slow
def test_s3(penstock: Run, s3: Location) -> None:
    options = [f"--storage-option={key}={value}" for key, value in s3.options.items()]
    with Flow(s3.url, storage_options=s3.options) as flow:
        flow.sql("CREATE TABLE t (id BIGINT PRIMARY KEY, g TEXT)")
        flow.sql("CREATE MATERIALIZED VIEW v AS SELECT g, count(*) AS n FROM t GROUP BY g")
        flow.tick("t", [{"id": i, "g": f"g{i % 100}"} for i in range(10_000)])
    found = json.loads(penstock("inspect", s3.url, "--json", *options).out)
    assert {r["name"]: r["rows"] for r in found["relations"]} == {"t": 10_000, "v": 100}
    assert {o["kind"] for o in found["objects"]} >= {"batches", "db/wal", "db/manifest"}
    assert penstock("verify", s3.url, *options).code == 0
    assert penstock("checkpoint", s3.url, "s3://cli/kept", "--yes", *options).code == 0
    assert penstock("restore", "s3://cli/kept", "s3://cli/back", *options).code == 0
    assert penstock("verify", "s3://cli/back", *options).code == 0
    assert penstock("inspect", "s3://cli/nothing", *options).code == 2
