"""The local cache: one fetch for many threads, checked bytes, bounded space, warm after a restart."""

from __future__ import annotations

import os
import random
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from penstock.base.errors import CorruptState, StorageFull, StorageNotFound, StorageUnavailable
from penstock.store.cache import LocalCache, cache_folder
from penstock.store.checksum import checksum
from penstock.store.faulty import FaultyObjects, Rates
from penstock.store.location import Location
from penstock.store.memory import MemoryObjects, forget


@pytest.fixture
def remote() -> Iterator[MemoryObjects]:
    yield MemoryObjects(Location.parse("memory://cache-test"))
    forget("cache-test")


def _data(number: int, size: int = 1_000) -> bytes:
    return random.Random(number).randbytes(size)


def _fill(remote: MemoryObjects, count: int) -> None:
    for number in range(count):
        remote.put(f"b/{number}", _data(number))


def _hold(cache: LocalCache, number: int) -> Path:
    return cache.hold(f"b/{number}", 1_000, checksum(_data(number)))


def test_fetched_once(remote: MemoryObjects, tmp_path: Path) -> None:
    _fill(remote, 2)
    cache = LocalCache(remote, tmp_path)
    with cache.held("b/0", 1_000, checksum(_data(0))) as path:
        assert path.read_bytes() == _data(0)
        assert _hold(cache, 0) == path
        cache.release("b/0")
    _hold(cache, 1)
    assert cache.fetches == 2
    assert cache.bytes == 2_000
    cache.close()


def test_many_threads_fetch_once(remote: MemoryObjects, tmp_path: Path) -> None:
    _fill(remote, 5)
    slow = MemoryObjects(Location.parse("memory://cache-test"))
    fetch = slow.fetch
    slow.fetch = lambda name, path: (time.sleep(0.02), fetch(name, path))[1]  # type: ignore[method-assign]
    cache = LocalCache(slow, tmp_path)
    wrong: list[int] = []

    def read(seed: int) -> None:
        for number in random.Random(seed).sample(range(5), 5):
            found = _hold(cache, number).read_bytes()
            wrong.extend([number] if found != _data(number) else [])

    threads = [threading.Thread(target=read, args=(seed,)) for seed in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong
    assert cache.fetches == 5
    cache.close()


def test_the_least_recently_used_go_first(remote: MemoryObjects, tmp_path: Path) -> None:
    _fill(remote, 5)
    cache = LocalCache(remote, tmp_path, 3_000)
    for number in (0, 1, 2, 0, 3):
        _hold(cache, number)
        cache.release(f"b/{number}")
    assert sorted(path.name for path in cache.folder.iterdir()) == [".lock", "b+0", "b+2", "b+3"]
    assert cache.evictions == 1
    cache.close()


def test_what_is_held_stays(remote: MemoryObjects, tmp_path: Path) -> None:
    _fill(remote, 6)
    cache = LocalCache(remote, tmp_path, 2_500)
    held = [_hold(cache, number) for number in range(4)]  # more than the limit, all of it held
    assert all(path.exists() for path in held)
    _hold(cache, 4)
    cache.release("b/4")
    assert not (cache.folder / "b+4").exists()
    assert cache.bytes == 4_000
    _hold(cache, 0)
    for number in range(4):
        cache.release(f"b/{number}")
    assert held[0].exists()  # held twice
    assert cache.bytes <= 2_500
    assert cache.bytes == sum(path.stat().st_size for path in cache.folder.iterdir())
    cache.forget("b/0")
    assert held[0].exists()
    cache.release("b/0")
    cache.forget("b/0")
    assert not held[0].exists()
    cache.close()


def test_never_beyond_the_limit_and_what_is_held(remote: MemoryObjects, tmp_path: Path) -> None:
    _fill(remote, 20)
    cache = LocalCache(remote, tmp_path, 5_000)
    rng = random.Random(1)
    held: list[int] = []
    for _ in range(300):
        if held and rng.random() < 0.5:
            cache.release(f"b/{held.pop(rng.randrange(len(held)))}")
        else:
            number = rng.randrange(20)
            assert _hold(cache, number).read_bytes() == _data(number)
            held.append(number)
        on_disk = sum(path.stat().st_size for path in cache.folder.iterdir())
        assert on_disk == cache.bytes
        assert on_disk <= max(5_000, 1_000 * len(set(held)))
        assert all((cache.folder / f"b+{number}").exists() for number in held)
    cache.close()


def test_warm_after_a_restart(remote: MemoryObjects, tmp_path: Path) -> None:
    _fill(remote, 4)
    first = LocalCache(remote, tmp_path)
    for number in range(4):
        _hold(first, number)
    first.close()
    os.truncate(first.folder / "b+1", 10)
    (first.folder / "b+2").write_bytes(_data(99))
    (first.folder / ".b+9.part-00").write_bytes(b"half")
    second = LocalCache(remote, tmp_path)
    assert second.folder == first.folder
    for number in range(4):
        assert _hold(second, number).read_bytes() == _data(number)
    assert second.fetches == 2  # the two that were damaged
    assert second.bytes == 4_000
    assert not (first.folder / ".b+9.part-00").exists()
    second.close()
    third = LocalCache(remote, tmp_path, 2_000)
    assert third.bytes == 2_000
    third.close()


def test_two_caches_share_no_folder(remote: MemoryObjects, tmp_path: Path) -> None:
    first, second = LocalCache(remote, tmp_path), LocalCache(remote, tmp_path)
    assert first.folder != second.folder
    first.close()
    third = LocalCache(remote, tmp_path)
    assert third.folder == first.folder
    second.close()
    third.close()


def test_a_corrupt_object_is_named(remote: MemoryObjects, tmp_path: Path) -> None:
    _fill(remote, 1)
    cache = LocalCache(remote, tmp_path)
    with pytest.raises(CorruptState) as caught:
        cache.hold("b/0", 1_000, 12345)
    assert "'b/0'" in caught.value.message
    assert "checksum" in caught.value.message
    with pytest.raises(CorruptState) as caught:
        cache.hold("b/0", 999, checksum(_data(0)))
    assert "1000 bytes instead of 999" in caught.value.message
    with pytest.raises(StorageNotFound):
        cache.hold("missing", 1, 1)
    assert cache.bytes == 0
    assert [path.name for path in cache.folder.iterdir()] == [".lock"]
    assert _hold(cache, 0).read_bytes() == _data(0)
    cache.close()


def test_through_faults(remote: MemoryObjects, tmp_path: Path) -> None:
    """A flipped bit on the way is never handed out."""
    _fill(remote, 10)
    rates = Rates(flipped=0.3, time_out_before=0.1, throttled=0.1, time_out_after=0.1)
    faulty = FaultyObjects(remote, random.Random(2), rates)
    cache = LocalCache(faulty, tmp_path, 3_000)
    answers = 0
    for round_ in range(100):
        number = round_ % 10
        try:
            assert _hold(cache, number).read_bytes() == _data(number)
            cache.release(f"b/{number}")
            answers += 1
        except (StorageUnavailable, CorruptState):
            pass
    assert answers > 30
    assert faulty.injected["flipped"] > 10
    cache.close()


def test_adopt(remote: MemoryObjects, tmp_path: Path) -> None:
    cache = LocalCache(remote, tmp_path / "cache")
    (tmp_path / "made").write_bytes(_data(0))
    remote.put_file("b/0", tmp_path / "made")
    path = cache.adopt("b/0", tmp_path / "made", 1_000)
    assert path.read_bytes() == _data(0)
    assert _hold(cache, 0) == path
    assert cache.fetches == 0
    assert cache.bytes == 1_000
    cache.close()


def test_a_full_disk_is_cleared_of_what_is_not_held(remote: MemoryObjects, tmp_path: Path) -> None:
    _fill(remote, 4)

    class SmallDisk(MemoryObjects):
        def fetch(self, name: str, path: str | os.PathLike[str]) -> None:
            if sum(file.stat().st_size for file in Path(path).parent.iterdir()) >= 2_000:
                raise StorageFull("full")
            super().fetch(name, path)

    cache = LocalCache(SmallDisk(Location.parse("memory://cache-test")), tmp_path)
    for number in range(4):
        _hold(cache, number)
        if number != 1:
            cache.release(f"b/{number}")
    assert sorted(path.name for path in cache.folder.iterdir()) == [".lock", "b+1", "b+3"]
    _hold(cache, 3)
    with pytest.raises(StorageFull) as caught:
        _hold(cache, 0)
    assert str(cache.folder) in caught.value.message
    assert cache.bytes == 2_000
    cache.close()


def test_the_default_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", "/somewhere")
    one, other = cache_folder(Location.parse("s3://b/one")), cache_folder(Location.parse("s3://b/other"))
    assert one.parent == other.parent == Path("/somewhere/penstock")
    assert one != other
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", "/home/somebody")
    assert cache_folder(Location.parse("s3://b/one")).parent == Path("/home/somebody/.cache/penstock")
