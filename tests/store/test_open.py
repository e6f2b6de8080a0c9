"""Google Cloud Storage and Azure: opened with options of both spellings; no server for them runs here."""

from __future__ import annotations

import pytest

from penstock.base.errors import StorageDenied, StorageUnavailable
from penstock.store.location import Location
from penstock.store.open import open_objects
from penstock.store.slate import slate_store

_NOWHERE = {"endpoint": "http://127.0.0.1:9", "allow_http": "true"}


@pytest.mark.parametrize(
    ("url", "options"),
    [
        (
            "gs://bucket/x",
            {"base_url": "http://127.0.0.1:9", "google_skip_signature": "true", "allow_http": "true"},
        ),
        ("az://container/x", {"account_name": "a", "account_key": "a2V5", **_NOWHERE}),
        (
            "abfs://container/x",
            {"azure_storage_account_name": "a", "azure_storage_account_key": "a2V5", **_NOWHERE},
        ),
        ("s3://bucket/x", {"aws_access_key_id": "a", "aws_secret_access_key": "b", **_NOWHERE}),
        ("s3://bucket/x", {"access_key_id": "a", "secret_access_key": "b", "token": "t", **_NOWHERE}),
    ],
)
def test_opened_with_options(url: str, options: dict[str, str]) -> None:
    location = Location.parse(url, options)
    objects = open_objects(location, retry_s=0.2)
    with pytest.raises((StorageUnavailable, StorageDenied)) as caught:
        objects.get("a")
    assert url in caught.value.message
    assert slate_store(location)[1] == "x/db"
