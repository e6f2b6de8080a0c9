"""What every store does the same: on files, in memory and on S3."""

from __future__ import annotations

import threading
import time
from pathlib import Path

import pyarrow as pa
import pytest

from penstock.base import limits
from penstock.base.errors import InvalidLocation, ObjectExists, StorageNotFound
from penstock.store.location import Location
from penstock.store.objects import Objects
from penstock.store.open import open_objects


def test_put_and_get(objects: Objects) -> None:
    objects.probe()
    for name, data in (
        ("a/b/bytes", b"123"),
        ("view", memoryview(b"0123456789")[2:5]),
        ("arrow", pa.py_buffer(b"arrow")),
        ("numbers", pa.array([1, 2]).buffers()[1]),
        ("empty", b""),
        ("x=1/y_2-3.z", b"\0" * 100_000),
    ):
        objects.put(name, data)
        assert objects.get(name) == bytes(data)
        assert objects.size(name) == len(bytes(data))
        assert objects.exists(name)


def test_a_name_is_written_once(objects: Objects, tmp_path: Path) -> None:
    objects.put("a", b"first")
    with pytest.raises(ObjectExists) as caught:
        objects.put("a", b"second")
    assert "'a'" in caught.value.message
    assert caught.value.hint
    (tmp_path / "file").write_bytes(b"third")
    with pytest.raises(ObjectExists):
        objects.put_file("a", tmp_path / "file")
    assert objects.get("a") == b"first"
    objects.replace("a", b"fourth")
    assert objects.get("a") == b"fourth"
    objects.replace("new", b"")
    assert objects.get("new") == b""


@pytest.mark.parametrize("multipart", [False, True])
def test_files(objects: Objects, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, multipart: bool) -> None:
    if multipart:
        monkeypatch.setattr("penstock.store.remote.STORAGE_MULTIPART_BYTES_MIN", 1_000)
        monkeypatch.setattr("penstock.store.remote.STORAGE_PART_BYTES", 5 * 1024 * 1024)
    for size in (0, 1, 11 * 1024 * 1024):
        source = tmp_path / "source"
        source.write_bytes(b"x" * size)
        objects.put_file(f"files/{size}", source)
        with pytest.raises(ObjectExists):
            objects.put_file(f"files/{size}", source)
        assert objects.size(f"files/{size}") == size
        objects.fetch(f"files/{size}", tmp_path / "copy")
        assert (tmp_path / "copy").read_bytes() == source.read_bytes()
    path = objects.local_path("files/1")
    assert path is None or path.read_bytes() == b"x"
    assert sorted(file.name for file in tmp_path.iterdir() if file.is_file()) == ["copy", "source"]


def test_list(objects: Objects) -> None:
    assert objects.list() == []
    assert objects.list("a") == []
    before = time.time()
    for name in ("a/1", "a/b/2", "ab/3", "4"):
        objects.put(name, name.encode())
    assert [stored.name for stored in objects.list()] == ["4", "a/1", "a/b/2", "ab/3"]
    assert [(name, size) for name, size, _ in objects.list("a")] == [("a/1", 3), ("a/b/2", 5)]
    # S3 rounds to seconds.
    assert all(before - 2 <= stored.modified <= time.time() + 2 for stored in objects.list())


@pytest.mark.slow
def test_list_more_than_a_page(objects: Objects) -> None:
    names = [f"many/{number:05}" for number in range(1_100)]
    for name in names:
        objects.replace(name, b"")
    assert [stored.name for stored in objects.list("many")] == names
    objects.delete(names)
    assert objects.list() == []


def test_delete(objects: Objects) -> None:
    objects.put("a", b"1")
    objects.put("b", b"2")
    objects.delete(["a", "missing", "also/missing"])
    objects.delete([])
    objects.delete(["a"])
    assert [stored.name for stored in objects.list()] == ["b"]
    objects.put("a", b"again")
    assert objects.get("a") == b"again"


def test_missing(objects: Objects, tmp_path: Path) -> None:
    assert not objects.exists("a")
    for call in (
        lambda: objects.get("some/a"),
        lambda: objects.size("some/a"),
        lambda: objects.fetch("some/a", tmp_path / "copy"),
    ):
        with pytest.raises(StorageNotFound) as caught:
            call()
        assert "'some/a'" in caught.value.message
        assert objects.url in caught.value.message
    assert [path for path in tmp_path.iterdir() if path.is_file()] == []
    with pytest.raises(StorageNotFound):
        objects.put_file("a", tmp_path / "nothing")


@pytest.mark.parametrize(
    "name", ["", "/a", "a/", "a//b", "../a", "a/../b", ".a", "a/.b", "a b", "a#1", "é", "a\\b"]
)
def test_names_that_are_refused(objects: Objects, name: str) -> None:
    for call in (
        objects.get,
        objects.size,
        objects.exists,
        objects.local_path,
        lambda name: objects.put(name, b""),
    ):
        with pytest.raises(InvalidLocation):
            call(name)


def test_of_many_writers_of_a_name_one_wins(objects: Objects) -> None:
    writers = 8
    for round_ in range(5):
        start = threading.Barrier(writers)
        outcomes: list[int] = []

        def write(number: int, name: str = f"race/{round_}", start: threading.Barrier = start) -> None:
            start.wait()
            try:
                objects.put(name, f"{number}".encode() * 10_000)
                outcomes.append(number)  # noqa: B023
            except ObjectExists:
                pass

        threads = [threading.Thread(target=write, args=(number,)) for number in range(writers)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(outcomes) == 1
        assert objects.get(f"race/{round_}") == f"{outcomes[0]}".encode() * 10_000


def test_the_same_location_opened_again_has_the_same_objects(location: Location) -> None:
    open_objects(location).put("a/b", b"1")
    assert open_objects(location).get("a/b") == b"1"
    assert open_objects(location.child("a")).get("b") == b"1"
    assert open_objects(location.child("c")).list() == []


def test_sync_and_sweep_harm_nothing(objects: Objects) -> None:
    objects.put("db/wal/1", b"1")
    objects.sync("db")
    assert objects.sync("db") == 0
    assert objects.sync() == 0
    assert objects.sweep() == 0
    assert limits.STORAGE_LEFTOVER_S_MIN > limits.STORAGE_RETRY_S_MAX
    assert objects.get("db/wal/1") == b"1"
