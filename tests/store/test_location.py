"""Locations: what is understood, and what is refused with a hint."""

from __future__ import annotations

import os
import pickle
from pathlib import Path

import pytest

from penstock.base.errors import InvalidLocation
from penstock.store.location import Location


@pytest.mark.parametrize(
    ("url", "scheme", "bucket", "prefix"),
    [
        ("s3://bucket", "s3", "bucket", ""),
        ("s3://bucket/", "s3", "bucket", ""),
        ("s3a://bucket/a/b/", "s3", "bucket", "a/b"),
        ("S3://my.bucket-1/a b", "s3", "my.bucket-1", "a b"),
        ("gs://bucket/a", "gs", "bucket", "a"),
        ("gcs://bucket/a", "gs", "bucket", "a"),
        ("az://container/a", "az", "container", "a"),
        ("abfss://container/a", "az", "container", "a"),
        ("memory://name", "memory", "name", ""),
        ("/abs/path", "file", "", "/abs/path"),
        ("/abs/../path/", "file", "", "/path"),
        ("file:///abs/path", "file", "", "/abs/path"),
        ("file:///abs/with%20space%23", "file", "", "/abs/with space#"),
        ("file://localhost/abs", "file", "", "/abs"),
    ],
)
def test_urls(url: str, scheme: str, bucket: str, prefix: str) -> None:
    found = Location.parse(url)
    assert (found.scheme, found.url, found.bucket, found.prefix) == (scheme, url, bucket, prefix)


def test_paths(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for given in ("./data", "data", Path("data"), tmp_path / "data", "file://" + str(tmp_path / "data")):
        assert Location.parse(given).path == Path(os.path.realpath(tmp_path)) / "data"
    monkeypatch.setenv("HOME", str(tmp_path))
    assert Location.parse("~/data").path == tmp_path / "data"


def test_azure_account_in_url() -> None:
    found = Location.parse("abfss://container@account.dfs.core.windows.net/a")
    assert (found.bucket, found.prefix, dict(found.options)) == (
        "container",
        "a",
        {"account_name": "account"},
    )


@pytest.mark.parametrize(
    ("url", "message"),
    [
        ("", "empty"),
        ("  ", "empty"),
        ("hdfs://host/x", "'hdfs' is not a kind of storage"),
        ("s3:/bucket/x", "neither a URL nor a path"),
        ("s3://", "no valid bucket"),
        ("s3:///x", "no valid bucket"),
        ("az://", "no valid container"),
        ("memory://", "no valid name"),
        ("s3://bucket/a//b", "cannot be part"),
        ("s3://bucket/../b", "cannot be part"),
        ("s3://bucket/a%20b", "cannot be part"),
        ("s3://bucket/a?region=x", "query or fragment"),
        ("s3://bucket/a#b", "query or fragment"),
        ("file://host/x", "names a host"),
        ("file://", "empty"),
        ("s3://[x/y", "not a URL"),
        ("a\0b", "zero byte"),
        ("abfss://container@account.example.com/x", "not an Azure storage account"),
    ],
)
def test_refused(url: str, message: str) -> None:
    with pytest.raises(InvalidLocation) as caught:
        Location.parse(url)
    assert message in caught.value.message
    assert caught.value.hint


def test_a_password_is_refused_and_not_repeated() -> None:
    for url in ("s3://key:hunter2@bucket/x", "s3://hunter2@bucket/x"):
        with pytest.raises(InvalidLocation) as caught:
            Location.parse(url)
        assert "hunter2" not in str(caught.value)


def test_options() -> None:
    found = Location.parse(
        "s3://bucket", {"Region": "eu-west-1", "allow_http": True, "secret_access_key": "hunter2"}
    )
    assert dict(found.options) == {
        "region": "eu-west-1",
        "allow_http": "true",
        "secret_access_key": "hunter2",
    }
    assert "hunter2" not in repr(found)
    assert pickle.loads(pickle.dumps(found)) == found
    assert hash(found) == hash(found.child("x").parse(found))
    assert found.child("x").options == found.options
    for url in ("./data", "memory://name"):
        with pytest.raises(InvalidLocation):
            Location.parse(url, {"region": "x"})
    with pytest.raises(InvalidLocation):
        Location.parse("s3://bucket", {"region": None})
    with pytest.raises(InvalidLocation):
        Location.parse(3)  # type: ignore[arg-type]
