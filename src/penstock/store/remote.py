"""Objects on S3, Google Cloud Storage and Azure: the only door to obstore."""

from __future__ import annotations

import functools
import mmap
import os
import random
import secrets
import time
from collections.abc import Callable, Iterable
from datetime import timedelta
from pathlib import Path
from typing import Any, TypeVar

import obstore
from obstore.exceptions import AlreadyExistsError
from obstore.store import AzureStore, GCSStore, S3Store

from penstock.base.errors import StorageNotFound, StorageUnavailable
from penstock.base.limits import (
    STORAGE_BACKOFF_S_MAX,
    STORAGE_BACKOFF_S_MIN,
    STORAGE_CHUNK_BYTES,
    STORAGE_DELETE_NAMES_MAX,
    STORAGE_MULTIPART_BYTES_MIN,
    STORAGE_PART_BYTES,
    STORAGE_RETRY_S_MAX,
)
from penstock.store.failures import exists, translated
from penstock.store.local import partial
from penstock.store.location import Location, check_name
from penstock.store.objects import Data, Listing, Stored, as_bytes

_STORES: dict[str, Any] = {"s3": S3Store, "gs": GCSStore, "az": AzureStore}
_ATTEMPT = "attempt"  # the name of the metadata that says which call wrote an object

T = TypeVar("T")


class RemoteObjects:
    """Objects in a bucket or container.

    obstore repeats requests that cannot do harm twice. A create whose answer was lost is not among them:
    repeated, it would find its own object and report that the name is taken. So each create carries a
    token in the object's metadata, which tells our own object from another's.
    """

    def __init__(self, location: Location, *, retry_s: float = STORAGE_RETRY_S_MAX) -> None:
        self._url = location.url
        self._retry_s = retry_s
        self.requests = 0
        backoff = {
            "init_backoff": timedelta(seconds=STORAGE_BACKOFF_S_MIN),
            "max_backoff": timedelta(seconds=STORAGE_BACKOFF_S_MAX),
            "base": 2,
        }
        with translated("open", self._url):
            self._store = _STORES[location.scheme](
                location.bucket,
                prefix=location.prefix or None,
                config=dict(location.options),
                retry_config={"backoff": backoff, "retry_timeout": timedelta(seconds=retry_s)},
            )

    @property
    def url(self) -> str:
        return self._url

    def probe(self, *, write: bool = True) -> None:
        # Listing alone: whether writing is allowed shows with the first object, which harms nothing.
        self._again("use", "", lambda: next(iter(obstore.list(self._store, chunk_size=1)), None))

    def put(self, name: str, data: Data) -> None:
        check_name(name)
        view, token = as_bytes(data), secrets.token_hex(8)

        def create() -> None:
            try:
                obstore.put(self._store, name, view, mode="create", attributes={_ATTEMPT: token})
            except AlreadyExistsError:
                self._ours(name, token)

        self._again("write", name, create)

    def put_file(self, name: str, path: str | os.PathLike[str]) -> None:
        with translated("read", str(path)):
            size = os.stat(path).st_size
        if size <= STORAGE_MULTIPART_BYTES_MIN:
            self.put(name, _mapped(path, size))
            return
        # obstore cannot make a multipart upload conditional. Names of large files are unique to the attempt
        # that writes them, so that looking before and after catches a mistake, if not every race.
        if self.exists(name):
            raise exists(self._url, name)
        token = secrets.token_hex(8)

        def upload() -> None:
            obstore.put(
                self._store,
                name,
                Path(path),
                attributes={_ATTEMPT: token},
                use_multipart=True,
                chunk_size=STORAGE_PART_BYTES,
            )
            self._ours(name, token)
            self.requests += size // STORAGE_PART_BYTES + 3  # parts, the end, and who wrote it

        self._again("write", name, upload)

    def replace(self, name: str, data: Data) -> None:
        check_name(name)
        view = as_bytes(data)
        self._again("write", name, lambda: obstore.put(self._store, name, view, use_multipart=False))

    def get(self, name: str) -> bytes:
        check_name(name)
        return self._again("read", name, lambda: obstore.get(self._store, name).bytes().to_bytes())

    def fetch(self, name: str, path: str | os.PathLike[str]) -> None:
        check_name(name)

        def copy() -> None:
            with partial(Path(path)) as (temporary, file):
                for piece in obstore.get(self._store, name).stream(min_chunk_size=STORAGE_CHUNK_BYTES):
                    file.write(piece)
                file.flush()
                os.replace(temporary, path)

        self._again("copy", name, copy)

    def size(self, name: str) -> int:
        check_name(name)
        return int(self._again("read", name, lambda: obstore.head(self._store, name)["size"]))

    def exists(self, name: str) -> bool:
        try:
            self.size(name)
        except StorageNotFound:
            return False
        return True

    def list(self, folder: str = "") -> Listing:
        if folder:
            check_name(folder)

        def listing() -> Listing:
            return [
                Stored(found["path"], found["size"], found["last_modified"].timestamp())
                for piece in obstore.list(self._store, prefix=folder or None)
                for found in piece
            ]

        return sorted(self._again("list", folder, listing))

    def delete(self, names: Iterable[str]) -> None:
        wanted = [check_name(name) for name in names]
        for start in range(0, len(wanted), STORAGE_DELETE_NAMES_MAX):
            piece = wanted[start : start + STORAGE_DELETE_NAMES_MAX]
            try:
                self._again("delete", piece[0], functools.partial(obstore.delete, self._store, piece))
            except StorageNotFound:
                # Stores without a bulk request stop at the first name that is not there.
                for name in piece:
                    self._delete_one(name)

    def local_path(self, name: str) -> Path | None:
        check_name(name)
        return None

    def sync(self, folder: str = "") -> int:
        return 0  # what a remote storage acknowledged is durable

    def sweep(self) -> int:
        return 0  # unfinished multipart uploads are for the bucket's lifecycle rule: obstore cannot list them

    def _delete_one(self, name: str) -> None:
        try:
            self._again("delete", name, lambda: obstore.delete(self._store, name))
        except StorageNotFound as error:
            if "bucket" in error.message:
                raise

    def _ours(self, name: str, token: str) -> None:
        """Return if the object of that name was written by the call with this token."""
        try:
            found = obstore.get(self._store, name, options={"head": True}).attributes.get(_ATTEMPT)
        except FileNotFoundError:
            # S3 answers so while another create of the same name is under way.
            raise StorageUnavailable(
                f"cannot write {name!r} in {self._url}: another write of that name was under way",
                hint="Try again.",
            ) from None
        if found != token:
            raise exists(self._url, name)

    def _again(self, doing: str, name: str, call: Callable[[], T]) -> T:
        """Call until it succeeds, fails for good, or the time for retries is over."""
        deadline = time.monotonic() + self._retry_s
        wait_s = STORAGE_BACKOFF_S_MIN
        while True:
            self.requests += 1
            try:
                with translated(doing, self._url, name):
                    return call()
            except StorageUnavailable:
                pause_s = random.uniform(wait_s / 2, wait_s)
                if time.monotonic() + pause_s >= deadline:
                    raise
            time.sleep(pause_s)
            wait_s = min(2 * wait_s, STORAGE_BACKOFF_S_MAX)


def _mapped(path: str | os.PathLike[str], size: int) -> memoryview:
    """A file's bytes without reading them into memory first; unmapped when the last reference goes."""
    if not size:
        return memoryview(b"")  # an empty file cannot be mapped
    with open(path, "rb") as file:
        return memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))
