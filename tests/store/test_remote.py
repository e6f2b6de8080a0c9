"""S3 through a bad network: each put takes effect once and says so, whatever happens to the answer."""

from __future__ import annotations

import random
import threading
import time
from pathlib import Path

import pytest

from penstock.base.errors import ObjectExists, StorageUnavailable
from penstock.store.location import Location
from penstock.store.open import open_objects
from store.fault_proxy import FaultProxy, ProxyRates
from store.s3_server import S3Server


@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(1, 5))])
def test_everything_succeeds_in_the_end(s3: Location, s3_server: S3Server, seed: int, tmp_path: Path) -> None:
    rates = ProxyRates(slow_down=0.15, closed_before=0.15, closed_after=0.15, delayed=0.1)
    proxy = FaultProxy(s3_server.port, random.Random(seed), rates)
    objects = open_objects(s3_server.location(s3.bucket, s3.prefix, endpoint=proxy.endpoint))
    for number in range(12):
        data = bytes([number]) * 1_000
        objects.put(f"a/{number}", data)  # also where its answer was lost: that is no ObjectExists
        assert objects.get(f"a/{number}") == data
        with pytest.raises(ObjectExists):
            objects.put(f"a/{number}", data)
        objects.fetch(f"a/{number}", tmp_path / "copy")
        assert (tmp_path / "copy").read_bytes() == data
    assert len(objects.list("a")) == 12
    objects.delete([f"a/{number}" for number in range(8)])
    assert len(objects.list("a")) == 4
    assert all(proxy.injected[fault] for fault in ("slow_down", "closed_before", "closed_after", "delayed"))
    proxy.close()


@pytest.mark.parametrize("fault", ["closed_after", "closed_before", "slow_down", "delayed"])
def test_a_put_whose_answer_is_lost_succeeds(s3: Location, s3_server: S3Server, fault: str) -> None:
    """Also where the client gave up waiting, and the first request arrives after the second."""
    rates = ProxyRates(**{fault: 1.0}, writes_only=True, faults_max=1)
    proxy = FaultProxy(s3_server.port, random.Random(1), rates, delay_s=1.0)
    through = s3_server.location(s3.bucket, s3.prefix, endpoint=proxy.endpoint)
    objects = open_objects(Location.parse(through, {"timeout": "400ms"}))
    objects.put("a", b"1")
    assert proxy.injected == {fault: 1}
    with pytest.raises(ObjectExists):
        objects.put("a", b"2")
    if fault == "delayed":
        time.sleep(1.2)  # until the request that was given up has arrived as well
    assert objects.get("a") == b"1"
    assert len(objects.list()) == 1
    proxy.close()


def test_one_winner_although_answers_are_lost(s3: Location, s3_server: S3Server) -> None:
    rates = ProxyRates(closed_after=0.3, slow_down=0.1, writes_only=True)
    proxy = FaultProxy(s3_server.port, random.Random(3), rates)
    objects = open_objects(s3_server.location(s3.bucket, s3.prefix, endpoint=proxy.endpoint))
    for round_ in range(5):
        won: list[int] = []
        start = threading.Barrier(4)

        def write(
            number: int, name: str = f"race/{round_}", won: list[int] = won, start: threading.Barrier = start
        ):
            start.wait()
            try:
                objects.put(name, bytes([number]))
                won.append(number)
            except ObjectExists:
                pass

        threads = [threading.Thread(target=write, args=(number,)) for number in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(won) == 1
        assert objects.get(f"race/{round_}") == bytes(won)
    assert proxy.injected["closed_after"]
    proxy.close()


def test_a_large_file_through_faults(
    s3: Location, s3_server: S3Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("penstock.store.remote.STORAGE_MULTIPART_BYTES_MIN", 1_000)
    monkeypatch.setattr("penstock.store.remote.STORAGE_PART_BYTES", 5 * 1024 * 1024)
    rates = ProxyRates(slow_down=0.1, closed_before=0.1, closed_after=0.1)
    proxy = FaultProxy(s3_server.port, random.Random(5), rates)
    objects = open_objects(s3_server.location(s3.bucket, s3.prefix, endpoint=proxy.endpoint))
    (tmp_path / "large").write_bytes(random.Random(1).randbytes(12 * 1024 * 1024))
    objects.put_file("large", tmp_path / "large")
    objects.fetch("large", tmp_path / "copy")
    assert (tmp_path / "copy").read_bytes() == (tmp_path / "large").read_bytes()
    proxy.close()


def test_a_storage_that_only_throttles_is_given_up(s3: Location, s3_server: S3Server) -> None:
    proxy = FaultProxy(s3_server.port, random.Random(1), ProxyRates(slow_down=1.0))
    objects = open_objects(s3_server.location(s3.bucket, s3.prefix, endpoint=proxy.endpoint), retry_s=0.5)
    for call in (objects.probe, lambda: objects.put("a", b"1"), lambda: objects.get("a"), objects.list):
        with pytest.raises(StorageUnavailable) as caught:
            call()
        assert caught.value.retry
        assert "overloaded" in caught.value.message
    assert proxy.requests > 8
    proxy.close()
    assert open_objects(s3).list() == []
