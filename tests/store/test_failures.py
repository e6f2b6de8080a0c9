"""Storage that is full, forbidden, missing or silent: a clear error, and nothing harmed."""

from __future__ import annotations

import os
import random
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from penstock.base.errors import (
    InvalidLocation,
    StorageDenied,
    StorageError,
    StorageFull,
    StorageNotFound,
    StorageUnavailable,
)
from penstock.store.failures import translated
from penstock.store.location import Location
from penstock.store.open import open_objects
from store.fault_proxy import FaultProxy, ProxyRates
from store.s3_server import S3Server


def test_missing_bucket(s3_server: S3Server, tmp_path: Path) -> None:
    objects = open_objects(s3_server.location("no-such-bucket"), retry_s=2)
    (tmp_path / "file").write_bytes(b"1")
    for call in (
        objects.probe,
        lambda: objects.put("a", b"1"),
        lambda: objects.put_file("a", tmp_path / "file"),
        lambda: objects.get("a"),
        lambda: objects.list(),
        lambda: objects.delete(["a"]),
    ):
        with pytest.raises(StorageNotFound) as caught:
            call()
        assert "bucket" in caught.value.message
        assert "s3://no-such-bucket" in caught.value.message
        assert "Create it" in str(caught.value.hint)


def test_s3_denies(s3: Location, s3_server: S3Server) -> None:
    proxy = FaultProxy(s3_server.port, random.Random(1), ProxyRates(denied=1.0))
    objects = open_objects(s3_server.location(s3.bucket, endpoint=proxy.endpoint), retry_s=2)
    for call in (
        objects.probe,
        lambda: objects.put("a", b"1"),
        lambda: objects.get("a"),
        lambda: objects.exists("a"),
        lambda: objects.list(),
        lambda: objects.delete(["a"]),
    ):
        with pytest.raises(StorageDenied) as caught:
            call()
        assert "permission denied" in caught.value.message
        assert "Debug source" not in caught.value.message
        assert not caught.value.retry
    proxy.close()


def test_nobody_listens() -> None:
    options = {
        "endpoint": "http://127.0.0.1:9",
        "access_key_id": "a",
        "secret_access_key": "b",
        "allow_http": "true",
    }
    objects = open_objects(Location.parse("s3://bucket", options), retry_s=0.5)
    with pytest.raises(StorageUnavailable) as caught:
        objects.probe()
    assert caught.value.retry
    assert "endpoint" in str(caught.value.hint)


def test_unknown_option() -> None:
    with pytest.raises(InvalidLocation) as caught:
        open_objects(Location.parse("s3://bucket", {"regoin": "x"}))
    assert "regoin" in caught.value.message


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs /dev/full")
def test_a_full_device() -> None:
    with pytest.raises(StorageFull) as caught:
        with translated("write", "/data", "a"):
            with open("/dev/full", "wb") as file:
                file.write(b"1" * 100_000)
    assert "no space is left" in caught.value.message


def _run(program: str, *arguments: object) -> str:
    """Run a program in a child process, where limits and users may be changed."""
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", textwrap.dedent(program), *map(str, arguments)],
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.skipif(sys.platform == "win32", reason="needs resource limits")
def test_disk_full(tmp_path: Path) -> None:
    """A limit on the size of files stands in for a full disk: writing fails half-way."""
    (tmp_path / "large").write_bytes(b"x" * 500_000)
    said = _run(
        """
        import resource, sys
        from penstock.base.errors import StorageFull
        from penstock.store.cache import LocalCache
        from penstock.store.checksum import checksum
        from penstock.store.location import Location
        from penstock.store.memory import MemoryObjects
        from penstock.store.open import open_objects
        root = sys.argv[1]
        objects = open_objects(Location.parse(root + "/data"))
        objects.put("marker", b"old")
        remote = MemoryObjects(Location.parse("memory://disk-full"))
        remote.put("large", b"x" * 500_000)
        cache = LocalCache(remote, __import__("pathlib").Path(root) / "cache")
        resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))
        for call in (
            lambda: objects.put("large", b"x" * 500_000),
            lambda: objects.put_file("large", root + "/large"),
            lambda: objects.replace("marker", b"x" * 500_000),
            lambda: cache.hold("large", 500_000, checksum(b"x" * 500_000)),
        ):
            try:
                call()
            except StorageFull as error:
                print(error.message)
        objects.put("small", b"fits")
        print([stored.name for stored in objects.list()], objects.get("marker"), cache.bytes)
        """,
        tmp_path,
    ).splitlines()
    assert len(said) == 5
    assert all("no space is left" in line for line in said[:4])
    assert str(tmp_path / "cache") in said[3]
    assert said[4] == "['marker', 'small'] b'old' 0"
    assert sorted(os.listdir(tmp_path / "data")) == ["marker", "small"]  # nothing half-written is left


@pytest.mark.skipif(sys.platform == "win32", reason="needs POSIX permissions")
def test_folder_denied(tmp_path: Path) -> None:
    open_objects(Location.parse(tmp_path / "data")).put("a", b"1")
    os.chmod(tmp_path / "data", 0)
    said = _run(
        """
        import os, sys
        from penstock.base.errors import StorageDenied
        from penstock.store.open import open_objects
        from penstock.store.location import Location
        objects = open_objects(Location.parse(sys.argv[1]))
        if os.getuid() == 0:
            os.setuid(65534)  # the superuser may do everything
        for call in (
            objects.probe, lambda: objects.put("b", b"1"), lambda: objects.get("a"), lambda: objects.exists("a"),
            objects.list, lambda: objects.delete(["a"]),
        ):
            try:
                call()
            except StorageDenied as error:
                print(error.message)
        """,
        tmp_path / "data",
    ).splitlines()
    os.chmod(tmp_path / "data", 0o700)
    assert len(said) == 6
    assert all("permission denied" in line and str(tmp_path / "data") in line for line in said)
    assert open_objects(Location.parse(tmp_path / "data")).get("a") == b"1"


def test_a_file_where_a_folder_should_be(tmp_path: Path) -> None:
    (tmp_path / "data").write_bytes(b"1")
    objects = open_objects(Location.parse(tmp_path / "data"))
    for call in (objects.probe, lambda: objects.put("a", b"1")):
        with pytest.raises(StorageError) as caught:
            call()
        assert "a file" in caught.value.message
