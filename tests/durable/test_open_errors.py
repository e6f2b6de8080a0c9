"""What can be wrong with the place of a flow: a clear error, and nothing is harmed."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path

import pytest

import penstock
from durable.small_limits import small_limits
from penstock.base.errors import FormatTooNew, StorageFull, StorageNotFound
from penstock.commit import keys
from penstock.commit.manifest import FORMAT
from penstock.commit.truth import Truth
from penstock.store.location import Location
from store.s3_server import S3Server


@pytest.fixture(autouse=True)
def limits() -> Iterator[None]:
    with small_limits(STORAGE_RETRY_S_MAX=3):
        yield


def made(folder: Path) -> None:
    with penstock.Flow(folder) as flow:
        flow.sql("CREATE TABLE t (a BIGINT, text TEXT)")
        flow.sql("CREATE MATERIALIZED VIEW v AS SELECT COUNT(*) AS n FROM t")
        for i in range(20):
            flow.tick("t", [{"a": i, "text": "x" * 100}])


def whole(folder: Path, count: int = 20) -> None:
    with penstock.Flow(folder) as flow:
        assert flow.snapshot("t").num_rows == count
        assert flow.snapshot("v").to_pylist() == [{"n": count}]


def contents(folder: Path) -> dict[str, bytes]:
    return {str(p.relative_to(folder)): p.read_bytes() for p in folder.rglob("*") if p.is_file()}


def test_a_newer_format(tmp_path: Path) -> None:
    made(tmp_path / "flow")
    truth = Truth(Location.parse(tmp_path / "flow"))
    found = truth.get(keys.FORMAT)
    assert found is not None
    truth.write({keys.FORMAT: json.dumps({"format": FORMAT + 1}).encode()})
    truth.flush()
    truth.close()
    batches = contents(tmp_path / "flow" / "batches")
    for options in ({}, {"read_only": True}):
        with pytest.raises(FormatTooNew) as caught:
            penstock.Flow(tmp_path / "flow", **options)  # type: ignore[arg-type]
        assert f"format {FORMAT + 1}" in caught.value.message
        assert "newer penstock" in str(caught.value.hint)
    assert contents(tmp_path / "flow" / "batches") == batches
    truth = Truth(Location.parse(tmp_path / "flow"))
    truth.write({keys.FORMAT: found})
    truth.flush()
    truth.close()
    whole(tmp_path / "flow")


def test_no_such_bucket(s3_server: S3Server, tmp_path: Path) -> None:
    location = s3_server.location("no-such-bucket", "flow")
    for read_only in (False, True):
        with pytest.raises(StorageNotFound, match="no-such-bucket"):
            penstock.Flow(
                location.url,
                storage_options=location.options,
                cache_dir=tmp_path / "cache",
                read_only=read_only,
            )


def test_a_reader_of_nothing(tmp_path: Path) -> None:
    with pytest.raises(StorageNotFound, match="there is no flow"):
        penstock.Flow(tmp_path / "nothing", read_only=True)


def _run(program: str, *arguments: object) -> list[str]:
    """Run a program in a child process, where limits and users may be changed; what it said."""
    paths = os.pathsep.join([str(Path(__file__).parent.parent), *filter(None, sys.path)])
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(program), *map(str, arguments)],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": paths},
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


@pytest.mark.skipif(sys.platform == "win32", reason="needs POSIX permissions")
def test_no_permission(tmp_path: Path) -> None:
    made(tmp_path / "flow")
    before = contents(tmp_path / "flow")
    for folder, _, names in os.walk(tmp_path / "flow"):
        os.chmod(folder, 0o555)
        for name in names:
            os.chmod(os.path.join(folder, name), 0o444)
    os.chmod(tmp_path, 0o755)
    said = _run(
        """
        import os, sys, penstock
        from penstock.base.errors import StorageDenied
        if os.getuid() == 0:
            os.setuid(65534)
        try:
            penstock.Flow(sys.argv[1])
        except StorageDenied as error:
            print(error.message)
        """,
        tmp_path / "flow",
    )
    assert len(said) == 1, said
    assert "permission denied" in said[0]
    assert contents(tmp_path / "flow") == before
    for folder, _, _ in os.walk(tmp_path / "flow"):
        os.chmod(folder, 0o755)
    whole(tmp_path / "flow")


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="needs resource limits")
def test_disk_full(tmp_path: Path) -> None:
    """A limit on the size of files stands in for a full disk: large batches cannot be written any more."""
    made(tmp_path / "flow")
    said = _run(
        """
        import resource, sys, penstock
        from penstock.base.errors import PenstockError
        from durable.small_limits import SMALL, set_limits
        set_limits({**SMALL, "STORAGE_CALL_SECONDS_MAX": 15})
        flow = penstock.Flow(sys.argv[1])
        flow.tick("t", [{"a": 100, "text": "fits"}])
        resource.setrlimit(resource.RLIMIT_FSIZE, (50_000, 50_000))
        for i in range(2):
            try:
                flow.tick("t", [{"a": j, "text": "y" * 1000} for j in range(500)])
                print("accepted")
            except PenstockError as error:
                print(type(error).__name__, error.message)
        try:
            flow.close()
        except PenstockError as error:
            print("closing", error.message)
        """,
        tmp_path / "flow",
    )
    assert said[0].startswith("StorageFull"), said
    assert "no space is left" in said[0]
    assert "accepted" not in said
    whole(tmp_path / "flow", 21)


@pytest.mark.skipif(not os.path.exists("/dev/shm"), reason="needs a small file system")
@pytest.mark.skipif(sys.platform == "win32" or os.geteuid() != 0, reason="only the superuser may mount one")
@pytest.mark.slow
def test_a_disk_that_is_really_full(tmp_path: Path) -> None:
    """SlateDB's own files meet the full disk too."""
    disk = tmp_path / "disk"
    disk.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=2m", "tmpfs", str(disk)], capture_output=True, text=True
    )
    if mounted.returncode:
        pytest.skip(f"cannot mount: {mounted.stderr.strip()}")
    try:
        with small_limits(STORAGE_ASK_AFTER_SECONDS=1):
            flow = penstock.Flow(disk / "flow")
            flow.sql("CREATE TABLE t (a BIGINT, text TEXT)")
            flow.sql("CREATE MATERIALIZED VIEW v AS SELECT COUNT(*) AS n FROM t")
            acknowledged = 0
            with pytest.raises(StorageFull, match="no space is left"):
                for i in range(10_000):
                    flow.tick("t", [{"a": i, "text": os.urandom(200).hex()}])
                    acknowledged = i + 1
            with pytest.raises(StorageFull):  # it has stopped
                flow.tick("t", [{"a": -1, "text": "no"}])
            flow.close()
            subprocess.run(["mount", "-o", "remount,size=64m", str(disk)], check=True)
            with penstock.Flow(disk / "flow") as flow:
                found = sorted(flow.snapshot("t").column("a").to_pylist())
                assert found in (list(range(acknowledged)), list(range(acknowledged + 1)))
                assert flow.snapshot("v").to_pylist() == [{"n": len(found)}]
                flow.tick("t", [{"a": -1, "text": "yes"}])
    finally:
        subprocess.run(["umount", "--lazy", str(disk)], check=True)
