"""A store that fails on purpose, as storage does: for tests, and for `make soak`."""

from __future__ import annotations

import os
import random
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from penstock.base.errors import StorageError, StorageUnavailable
from penstock.store.objects import Data, Listing, Objects

_RECENT_MAX = 8  # objects that a stale listing has not seen yet


@dataclass(frozen=True)
class Rates:
    """How often each fault happens, from 0 to 1 of the calls that can meet it."""

    time_out_before: float = 0.0  # the request never arrived
    time_out_after: float = 0.0  # it was carried out, and the answer lost
    throttled: float = 0.0  # refused, try later
    false_failure: float = 0.0  # a put succeeded but reported a failure
    slow_list: float = 0.0
    stale_list: float = 0.0  # a listing from before the last puts and deletes
    torn: float = 0.0  # a local file is cut short after it was put
    flipped: float = 0.0  # one bit is wrong in what is read

    @classmethod
    def all(cls, rate: float) -> Rates:
        """Every fault at the same rate."""
        return cls(**dict.fromkeys(cls.__dataclass_fields__, rate))


class FaultyObjects:
    """Objects with faults injected at the given rates; `injected` counts them by name.

    >>> from penstock.store.location import Location
    >>> from penstock.store.memory import MemoryObjects, forget
    >>> inner = MemoryObjects(Location.parse("memory://faulty-example"))
    >>> faulty = FaultyObjects(inner, random.Random(1), Rates(time_out_after=1.0))
    >>> faulty.put("a", b"1")
    Traceback (most recent call last):
    ...
    penstock.base.errors.StorageUnavailable: cannot write 'a' in memory://faulty-example: timed out (injected)
    HINT: Try again.
    >>> inner.get("a"), faulty.injected["time_out_after"]
    (b'1', 1)
    >>> forget("faulty-example")
    """

    def __init__(
        self,
        inner: Objects,
        rng: random.Random,
        rates: Rates,
        *,
        slow_s: float = 0.05,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self.injected: Counter[str] = Counter()
        self._inner = inner
        self._rng = rng
        self.rates = rates  # may be exchanged while it runs
        self._slow_s = slow_s
        self._sleep = sleep
        self._recent: list[str] = []
        self._listed: dict[str, Listing] = {}
        self._lock = threading.Lock()

    @property
    def url(self) -> str:
        return self._inner.url

    def probe(self, *, write: bool = True) -> None:
        with self._request("use", ""):
            self._inner.probe(write=write)

    def put(self, name: str, data: Data) -> None:
        with self._request("write", name):
            self._inner.put(name, data)
            self._written(name)

    def put_file(self, name: str, path: str | os.PathLike[str]) -> None:
        with self._request("write", name):
            self._inner.put_file(name, path)
            self._written(name)

    def replace(self, name: str, data: Data) -> None:
        with self._request("write", name):
            self._inner.replace(name, data)

    def get(self, name: str) -> bytes:
        with self._request("read", name):
            data = self._inner.get(name)
            return self._flip(data) if data and self._strikes("flipped") else data

    def fetch(self, name: str, path: str | os.PathLike[str]) -> None:
        with self._request("copy", name):
            self._inner.fetch(name, path)
            if os.path.getsize(path) and self._strikes("flipped"):
                # Under its own name at once: no one has been told of the file yet.
                Path(path).write_bytes(self._flip(Path(path).read_bytes()))

    def size(self, name: str) -> int:
        with self._request("read", name):
            return self._inner.size(name)

    def exists(self, name: str) -> bool:
        with self._request("read", name):
            return self._inner.exists(name)

    def list(self, folder: str = "") -> Listing:
        if self._strikes("slow_list"):
            self._sleep(self._slow_s)
        with self._request("list", folder):
            stale = self._strikes("stale_list")
            if stale and folder in self._listed:
                return self._listed[folder]
            now = self._inner.list(folder)
            if stale:
                return [stored for stored in now if stored.name not in self._recent]
            self._listed[folder] = now
            return now

    def delete(self, names: Iterable[str]) -> None:
        wanted = [*names]
        with self._request("delete", wanted[0] if wanted else ""):
            self._inner.delete(wanted)

    def local_path(self, name: str) -> Path | None:
        return self._inner.local_path(name)

    def sync(self, folder: str = "") -> int:
        return self._inner.sync(folder)

    def sweep(self) -> int:
        return self._inner.sweep()

    @contextmanager
    def _request(self, doing: str, name: str) -> Iterator[None]:
        """A request that may fail before or after it is carried out."""
        what = f"cannot {doing} {name!r} in {self.url}"
        if self._strikes("throttled"):
            raise StorageUnavailable(f"{what}: too many requests (injected)", hint="Try again.")
        if self._strikes("time_out_before"):
            raise StorageUnavailable(f"{what}: timed out (injected)", hint="Try again.")
        yield
        if self._strikes("time_out_after"):
            raise StorageUnavailable(f"{what}: timed out (injected)", hint="Try again.")
        if doing == "write" and self._strikes("false_failure"):
            raise StorageError(f"{what}: failed (injected)", hint="Nothing is known of the outcome.")

    def _written(self, name: str) -> None:
        with self._lock:
            self._recent = [*self._recent, name][-_RECENT_MAX:]
        path = self._inner.local_path(name)
        if path is not None and (size := path.stat().st_size) and self._strikes("torn"):
            os.truncate(path, self._draw(size))

    def _strikes(self, fault: str) -> bool:
        with self._lock:
            struck = self._rng.random() < getattr(self.rates, fault)
            if struck:
                self.injected[fault] += 1
            return struck

    def _draw(self, bound: int) -> int:
        with self._lock:
            return self._rng.randrange(bound)

    def _flip(self, data: bytes) -> bytes:
        bit = self._draw(8 * len(data))
        wrong = bytearray(data)
        wrong[bit // 8] ^= 1 << (bit % 8)
        return bytes(wrong)
