"""Flows on every kind of storage: the fixtures of the store's own tests."""

from store.conftest import location, s3, s3_server

__all__ = ["location", "s3", "s3_server"]
