"""The store that fails on purpose: each fault does what it says, is counted, and repeats by its seed."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from penstock.base.errors import PenstockError, StorageError, StorageUnavailable
from penstock.store.faulty import FaultyObjects, Rates
from penstock.store.local import LocalObjects
from penstock.store.location import Location
from penstock.store.memory import MemoryObjects, forget


@pytest.fixture
def inner() -> Iterator[MemoryObjects]:
    yield MemoryObjects(Location.parse("memory://faulty-test"))
    forget("faulty-test")


def test_time_outs(inner: MemoryObjects) -> None:
    faulty = FaultyObjects(inner, random.Random(1), Rates(time_out_before=1.0))
    with pytest.raises(StorageUnavailable):
        faulty.put("a", b"1")
    assert not inner.exists("a")
    faulty.rates = Rates(time_out_after=1.0)
    with pytest.raises(StorageUnavailable):
        faulty.put("a", b"1")
    assert inner.get("a") == b"1"
    with pytest.raises(StorageUnavailable):
        faulty.delete(["a"])
    assert not inner.exists("a")
    assert faulty.injected == {"time_out_before": 1, "time_out_after": 2}


def test_false_failure_and_throttling(inner: MemoryObjects) -> None:
    faulty = FaultyObjects(inner, random.Random(1), Rates(false_failure=1.0))
    with pytest.raises(StorageError) as caught:
        faulty.put("a", b"1")
    assert not caught.value.retry
    assert faulty.get("a") == b"1"
    faulty.rates = Rates(throttled=1.0)
    with pytest.raises(StorageUnavailable):
        faulty.get("a")


def test_listings(inner: MemoryObjects) -> None:
    slept: list[float] = []
    faulty = FaultyObjects(inner, random.Random(1), Rates(stale_list=1.0, slow_list=1.0), sleep=slept.append)
    faulty.put("a", b"1")
    assert faulty.list() == []
    faulty.rates = Rates()
    assert [stored.name for stored in faulty.list()] == ["a"]
    faulty.delete(["a"])
    faulty.put("b", b"1")
    faulty.rates = Rates(stale_list=1.0)
    assert [stored.name for stored in faulty.list()] == ["a"]
    faulty.rates = Rates()
    assert [stored.name for stored in faulty.list()] == ["b"]
    assert len(slept) == 1


def test_flipped_and_torn(inner: MemoryObjects, tmp_path: Path) -> None:
    faulty = FaultyObjects(inner, random.Random(1), Rates(flipped=1.0))
    inner.put("a", b"\0" * 100)
    assert sum(byte.bit_count() for byte in faulty.get("a")) == 1
    faulty.fetch("a", tmp_path / "copy")
    assert sum(byte.bit_count() for byte in (tmp_path / "copy").read_bytes()) == 1
    local = FaultyObjects(LocalObjects(Location.parse(tmp_path / "data")), random.Random(1), Rates(torn=1.0))
    local.put("a", b"\0" * 100)
    assert local.size("a") < 100
    assert local.injected == {"torn": 1}


def test_the_same_seed_gives_the_same_faults() -> None:
    def run(seed: int) -> list[str]:
        forget("faulty-seed")
        inner = MemoryObjects(Location.parse("memory://faulty-seed"))
        faulty = FaultyObjects(inner, random.Random(seed), Rates.all(0.2), sleep=lambda _: None)
        seen = []
        for number in range(50):
            try:
                faulty.put(f"{number}", b"1")
                seen.append(repr([stored.name for stored in faulty.list()]))
                seen.append(repr(faulty.get(f"{number}")))
            except PenstockError as error:
                seen.append(error.message)
        forget("faulty-seed")
        return seen

    assert run(1) == run(1)
    assert run(1) != run(2)
