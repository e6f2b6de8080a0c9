"""Files: synced before they have their name, never seen half-written, and leftovers are swept."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from penstock.base.errors import StorageNotFound
from penstock.base.limits import STORAGE_LEFTOVER_S_MIN
from penstock.store.local import LocalObjects
from penstock.store.location import Location


def test_synced_before_and_after_it_has_its_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    steps: list[str] = []
    fsync, link, replace = os.fsync, os.link, os.replace

    def fsynced(handle: int) -> None:
        steps.append("folder" if os.path.isdir(f"/proc/self/fd/{handle}") else "file")
        fsync(handle)

    def linked(*paths: str) -> None:
        steps.append("link")
        link(*paths)

    def replaced(*paths: str) -> None:
        steps.append("replace")
        replace(*paths)

    objects = LocalObjects(Location.parse(tmp_path / "data"))
    objects.put("a/first", b"")
    if not os.path.exists("/proc/self/fd"):
        pytest.skip("needs /proc to tell files from folders")
    monkeypatch.setattr(os, "fsync", fsynced)
    monkeypatch.setattr(os, "link", linked)
    monkeypatch.setattr(os, "replace", replaced)
    objects.put("a/b", b"1")
    assert steps == ["file", "link", "folder"]
    steps.clear()
    objects.replace("a/b", b"2")
    assert steps == ["file", "replace", "folder"]
    steps.clear()
    objects.put("new/folder/c", b"1")
    assert steps == ["folder", "folder", "file", "link", "folder"]


def test_killed_while_it_writes(tmp_path: Path) -> None:
    """Objects that are there are whole, whenever the writer was killed."""
    program = (
        "import sys, itertools\n"
        "from penstock.store.local import LocalObjects\n"
        "from penstock.store.location import Location\n"
        "objects = LocalObjects(Location.parse(sys.argv[1]))\n"
        "print('ready', flush=True)\n"
        "for number in itertools.count():\n"
        "    objects.put(f'{sys.argv[2]}/{number}', b'x' * 300_000)\n"
    )
    objects = LocalObjects(Location.parse(tmp_path))
    for attempt in range(2):
        process = subprocess.Popen(
            [sys.executable, "-c", program, str(tmp_path), str(attempt)], stdout=subprocess.PIPE
        )
        with process:
            assert process.stdout is not None
            process.stdout.readline()
            time.sleep(0.05 + 0.017 * attempt)
            process.send_signal(signal.SIGKILL)
    found = objects.list()
    assert found
    assert all(stored.size == 300_000 for stored in found)


def test_leftovers(tmp_path: Path) -> None:
    objects = LocalObjects(Location.parse(tmp_path))
    objects.put("a/b", b"1")
    old, new = tmp_path / "a" / ".c.part-00", tmp_path / "a" / ".d.part-00"
    staged = tmp_path / "a" / "0001.sst#1"  # SlateDB's temporary file
    for path in (old, new, staged):
        path.write_bytes(b"half")
    os.utime(old, (0, time.time() - STORAGE_LEFTOVER_S_MIN - 10))
    assert [stored.name for stored in objects.list()] == ["a/b"]
    assert objects.sweep() == 1
    assert sorted(os.listdir(tmp_path / "a")) == [".d.part-00", "0001.sst#1", "b"]


def test_sync_takes_what_is_new(tmp_path: Path) -> None:
    objects = LocalObjects(Location.parse(tmp_path))
    (tmp_path / "db" / "wal").mkdir(parents=True)
    assert objects.sync("db") == 0
    for number in range(3):
        (tmp_path / "db" / "wal" / f"{number}.sst").write_bytes(b"1")
    assert objects.sync("db/wal") == 3
    assert objects.sync("db/wal") == 0
    (tmp_path / "db" / "wal" / "0.sst").unlink()
    (tmp_path / "db" / "wal" / "3.sst").write_bytes(b"1")
    assert objects.sync("db") == 1
    (tmp_path / "db" / "wal" / "0.sst").write_bytes(b"again")
    assert objects.sync("db") == 1


def test_a_reader_makes_no_folder(tmp_path: Path) -> None:
    objects = LocalObjects(Location.parse(tmp_path / "data"))
    with pytest.raises(StorageNotFound):
        objects.probe(write=False)
    assert not (tmp_path / "data").exists()
    objects.probe()
    objects.probe(write=False)
    assert os.listdir(tmp_path / "data") == []
