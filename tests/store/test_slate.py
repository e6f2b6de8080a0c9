"""SlateDB on the same locations: it opens, writes, fences, and through faults keeps what it acknowledged."""

from __future__ import annotations

import asyncio
import os
import random
from pathlib import Path

import pytest
from slatedb.uniffi import CloseReason, Db, DbBuilder, Error, Settings

from penstock.base.errors import InvalidLocation, StorageError
from penstock.store.location import Location
from penstock.store.memory import forget
from penstock.store.open import open_objects
from penstock.store.slate import slate_store
from store.fault_proxy import FaultProxy, ProxyRates
from store.s3_server import S3Server

_WAIT_S = 60


async def _open(location: Location) -> Db:
    store, path = slate_store(location)
    settings = Settings.default()
    settings.set("flush_interval", '"5ms"')
    builder = DbBuilder(path, store)
    builder.with_settings(settings)
    return await asyncio.wait_for(builder.build(), _WAIT_S)


async def _put(db: Db, key: bytes, value: bytes) -> None:
    handle = await db.put(key, value)
    await asyncio.wait_for(handle.await_durable(), _WAIT_S)


def test_what_is_durable_is_there_again(location: Location) -> None:
    async def steps() -> None:
        first = await _open(location)
        await _put(first, b"k", b"v")
        await first.shutdown()
        second = await _open(location)
        assert await second.get(b"k") == b"v"
        await second.shutdown()

    asyncio.run(steps())
    if location.scheme != "memory":  # there SlateDB has a store of its own
        names = [stored.name for stored in open_objects(location).list("db")]
        assert any(name.startswith("db/wal/") for name in names)
        assert any(name.startswith("db/manifest/") for name in names)
    if location.scheme == "file":
        assert os.listdir(location.path) == ["db"]
        assert os.listdir(location.path.parent) == [location.path.name]  # and nothing under an escaped name


def test_a_second_writer_fences_the_first(location: Location) -> None:
    async def steps() -> None:
        first = await _open(location)
        await _put(first, b"k", b"first")
        second = await _open(location)
        with pytest.raises(Error.Closed) as caught:
            await _put(first, b"k", b"too late")
        assert caught.value.reason == CloseReason.FENCED
        assert await second.get(b"k") == b"first"
        await _put(second, b"k", b"second")
        await second.shutdown()
        third = await _open(location)
        assert await third.get(b"k") == b"second"
        await third.shutdown()

    asyncio.run(steps())


def test_one_memory_store_for_each_name() -> None:
    one, other = Location.parse("memory://slate-one"), Location.parse("memory://slate-other")
    assert slate_store(one)[0] is slate_store(Location.parse("memory://slate-one"))[0]
    assert slate_store(one)[0] is not slate_store(other)[0]
    before = slate_store(one)[0]
    forget("slate-one")
    assert slate_store(one)[0] is not before
    forget("slate-one")
    forget("slate-other")


def test_the_environment_counts(s3: Location, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ENDPOINT", s3.options["endpoint"])
    monkeypatch.setenv("AWS_REGION", "us-east-1")
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "key")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret")
    monkeypatch.setenv("AWS_ALLOW_HTTP", "true")
    plain = Location.parse(s3.url)
    open_objects(plain).put("a", b"1")

    async def steps() -> None:
        db = await _open(plain)
        await _put(db, b"k", b"v")
        await db.shutdown()

    asyncio.run(steps())
    assert open_objects(s3).get("a") == b"1"
    assert open_objects(s3).list("db") != []


def test_refused(tmp_path: Path) -> None:
    with pytest.raises((InvalidLocation, StorageError)) as caught:
        slate_store(Location.parse("s3://bucket", {"regoin": "x"}))
    assert "regoin" in caught.value.message
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(StorageError):
        slate_store(Location.parse(tmp_path / "file"))


@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(1, 5))])
def test_nothing_acknowledged_is_lost_through_faults(s3: Location, s3_server: S3Server, seed: int) -> None:
    rates = ProxyRates(slow_down=0.1, closed_before=0.1, closed_after=0.1, delayed=0.1)
    proxy = FaultProxy(s3_server.port, random.Random(seed), rates)
    through = s3_server.location(s3.bucket, s3.prefix, endpoint=proxy.endpoint)
    acknowledged: dict[bytes, bytes] = {}

    async def steps() -> None:
        rng = random.Random(seed)
        db = await _open(through)
        for number in range(20):
            if number % 8 == 7:
                db = await _open(through)  # as after a crash: the old one is not closed
            key, value = f"{rng.randrange(20)}".encode(), f"{number}".encode()
            await _put(db, key, value)
            acknowledged[key] = value
        check = await _open(s3)
        for key, value in acknowledged.items():
            assert await check.get(key) == value
        await check.shutdown()

    asyncio.run(steps())
    assert all(proxy.injected[fault] for fault in ("slow_down", "closed_before", "closed_after", "delayed"))
    proxy.close()


def test_two_writers_race_through_faults(s3: Location, s3_server: S3Server) -> None:
    """Whoever was fenced, whatever either was told is durable stays so."""
    proxy = FaultProxy(s3_server.port, random.Random(7), ProxyRates(closed_after=0.1, slow_down=0.1))
    through = s3_server.location(s3.bucket, s3.prefix, endpoint=proxy.endpoint)
    acknowledged: list[bytes] = []
    reasons: set[CloseReason] = set()

    async def write(writer: int) -> None:
        db: Db | None = None
        for number in range(6):
            try:
                db = db or await _open(through)
                key = f"{writer}-{number}".encode()
                await _put(db, key, b"v")
                acknowledged.append(key)
            except Error.Closed as error:
                reasons.add(error.reason)
                db = None

    async def steps() -> None:
        await (await _open(s3)).shutdown()
        for _ in range(20):  # one of them may be through before the other has opened: then nobody is fenced
            await asyncio.gather(write(1), write(2))
            if reasons:
                break
        check = await _open(s3)
        for key in acknowledged:
            assert await check.get(key) == b"v", key
        await check.shutdown()

    asyncio.run(steps())
    assert acknowledged
    assert reasons == {CloseReason.FENCED}
    proxy.close()


def test_two_create_at_once(location: Location) -> None:
    """One of two that create the same database at the same instant is told so, and may open it then."""

    async def steps() -> None:
        found = await asyncio.gather(_open(location), _open(location), return_exceptions=True)
        for one in found:
            if isinstance(one, BaseException):
                assert isinstance(one, (Error.Data, Error.Closed)), one
        assert any(isinstance(one, Db) for one in found)
        db = await _open(location)
        await _put(db, b"k", b"v")
        await db.shutdown()

    asyncio.run(steps())
