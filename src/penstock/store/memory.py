"""Objects in this process's memory: one store for each name, for tests and for trying things out."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from penstock.base.errors import StorageNotFound
from penstock.store.failures import exists, translated
from penstock.store.local import partial
from penstock.store.location import Location, check_name
from penstock.store.objects import Data, Listing, Stored, as_bytes


@dataclass
class Shared:
    """What every opener of one `memory://name` in this process sees."""

    lock: threading.Lock = field(default_factory=threading.Lock)
    objects: dict[str, tuple[bytes, float]] = field(default_factory=dict)
    slate: object = (
        None  # SlateDB's own store of that name, made by store/slate.py when it is first asked for
    )


_SHARED: dict[str, Shared] = {}
_SHARED_LOCK = threading.Lock()


def shared(location: Location) -> Shared:
    """The one store of that name in this process, made when it is first asked for."""
    with _SHARED_LOCK:
        return _SHARED.setdefault(location.bucket, Shared())


def forget(name: str) -> None:
    """Drop the store `memory://name`: the next one to open it finds it empty."""
    with _SHARED_LOCK:
        _SHARED.pop(name, None)


class MemoryObjects:
    """Objects in a dict.

    >>> first = MemoryObjects(Location.parse("memory://example"))
    >>> first.put("a/b", b"123")
    >>> MemoryObjects(Location.parse("memory://example")).get("a/b")
    b'123'
    >>> forget("example")
    """

    def __init__(self, location: Location) -> None:
        self._url = location.url
        self._prefix = f"{location.prefix}/" if location.prefix else ""
        self._shared = shared(location)

    @property
    def url(self) -> str:
        return self._url

    def probe(self, *, write: bool = True) -> None:
        pass  # memory is always there

    def put(self, name: str, data: Data) -> None:
        key, value = self._key(name), bytes(as_bytes(data))
        with self._shared.lock:
            if key in self._shared.objects:
                raise exists(self._url, name)
            self._shared.objects[key] = (value, time.time())

    def put_file(self, name: str, path: str | os.PathLike[str]) -> None:
        with translated("write", self._url, name):
            self.put(name, Path(path).read_bytes())

    def replace(self, name: str, data: Data) -> None:
        key, value = self._key(name), bytes(as_bytes(data))
        with self._shared.lock:
            self._shared.objects[key] = (value, time.time())

    def get(self, name: str) -> bytes:
        key = self._key(name)
        with self._shared.lock:
            found = self._shared.objects.get(key)
        if found is None:
            raise StorageNotFound(
                f"cannot read {name!r} in {self._url}: there is no such object",
                hint="It may have been deleted.",
            )
        return found[0]

    def fetch(self, name: str, path: str | os.PathLike[str]) -> None:
        data = self.get(name)
        with translated("copy", self._url, name), partial(Path(path)) as (temporary, file):
            file.write(data)
            file.flush()
            os.replace(temporary, path)

    def size(self, name: str) -> int:
        return len(self.get(name))

    def exists(self, name: str) -> bool:
        key = self._key(name)
        with self._shared.lock:
            return key in self._shared.objects

    def list(self, folder: str = "") -> Listing:
        start = f"{self._key(folder)}/" if folder else self._prefix
        with self._shared.lock:
            return sorted(
                Stored(key[len(self._prefix) :], len(data), modified)
                for key, (data, modified) in self._shared.objects.items()
                if key.startswith(start)
            )

    def delete(self, names: Iterable[str]) -> None:
        keys = [self._key(name) for name in names]
        with self._shared.lock:
            for key in keys:
                self._shared.objects.pop(key, None)

    def local_path(self, name: str) -> Path | None:
        check_name(name)
        return None

    def sync(self, folder: str = "") -> int:
        return 0  # nothing here survives the process

    def sweep(self) -> int:
        return 0  # a put is one step

    def _key(self, name: str) -> str:
        return self._prefix + check_name(name)
