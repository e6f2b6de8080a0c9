"""Local copies of remote objects, fetched once, checked, and bounded in bytes."""

from __future__ import annotations

import hashlib
import os
import sys
import threading
from collections import OrderedDict
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

from penstock.base.errors import CorruptState, StorageError, StorageFull
from penstock.base.limits import CACHE_BYTES_MAX, CACHE_FOLDERS_MAX
from penstock.store.checksum import checksum_file
from penstock.store.failures import translated
from penstock.store.location import Location, check_name
from penstock.store.objects import Objects

_FETCHES_MAX = 2  # a copy that is wrong is fetched once more: the fault may have been on the way


def cache_folder(location: Location) -> Path:
    """The default folder for a location's copies, in the user's cache folder."""
    base = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    # Two servers may have buckets of one name.
    servers = sorted(
        value for key, value in location.options.items() if "endpoint" in key or key.endswith("account_name")
    )
    root = " ".join([f"{location.scheme}://{location.bucket}/{location.prefix}", *servers])
    return Path(base) / "penstock" / hashlib.blake2b(root.encode(), digest_size=8).hexdigest()


@dataclass
class _Copy:
    """One object in the cache, or on its way there."""

    size: int
    holders: int = 0
    verified: bool = False  # a file of an earlier process is checked when it is first used
    lock: threading.Lock = field(default_factory=threading.Lock)  # one thread fetches, others wait


class LocalCache:
    """Files that stay while they are held, and after that as long as there is room, oldest use first out.

    The bytes in the folder are at most the limit, or what is held where that is more.
    """

    def __init__(self, objects: Objects, folder: Path, limit_bytes: int = CACHE_BYTES_MAX) -> None:
        self._objects = objects
        self._limit_bytes = limit_bytes
        self._copies: OrderedDict[str, _Copy] = OrderedDict()  # by last use, oldest first
        self._lock = threading.Lock()
        self.fetches = 0
        self.fetched_bytes = 0
        self.evictions = 0
        with translated("use the cache folder", str(folder)):
            self._folder, self._claim = _claim(folder)
            self._recover()

    @property
    def folder(self) -> Path:
        """The folder that this cache has for itself."""
        return self._folder

    @property
    def limit_bytes(self) -> int:
        return self._limit_bytes

    @property
    def bytes(self) -> int:
        """Bytes in the folder, or on their way there."""
        with self._lock:
            return self._bytes()

    def hold(self, name: str, size: int, checksum: int) -> Path:
        """The object's local file, fetched if need be; it stays until it is released as often as held."""
        check_name(name)
        with self._lock:
            copy = self._copies.setdefault(name, _Copy(size))
            copy.holders += 1
            if not copy.verified:
                copy.size = size  # what an earlier process left may be shorter
            self._copies.move_to_end(name)
            self._evict()
        try:
            with copy.lock:
                path = self._file(name)
                if not copy.verified:
                    self._ready(name, path, size, checksum)
                    copy.verified = True
            with suppress(FileNotFoundError):
                os.utime(path)  # the order of use, for the next process
            return path
        except BaseException:
            self.release(name)
            raise

    def release(self, name: str) -> None:
        """Give back what `hold` gave: the file may now be removed when room is needed."""
        with self._lock:
            copy = self._copies[name]
            assert copy.holders > 0, name
            copy.holders -= 1
            if not copy.holders and not copy.verified and not self._file(name).exists():
                del self._copies[name]  # its fetch failed
            self._evict()

    @contextmanager
    def held(self, name: str, size: int, checksum: int) -> Iterator[Path]:
        """The object's local file, for the length of a `with` block."""
        path = self.hold(name, size, checksum)
        try:
            yield path
        finally:
            self.release(name)

    def adopt(self, name: str, path: Path, size: int) -> Path:
        """Move a local file that was just uploaded as `name` into the cache, held, instead of fetching it."""
        check_name(name)
        with self._lock:
            copy = self._copies.setdefault(name, _Copy(size))
            copy.holders += 1
            self._copies.move_to_end(name)
            self._evict()
        try:
            with copy.lock, translated("use the cache folder", str(self._folder), name):
                os.replace(path, self._file(name))
                copy.verified = True
                return self._file(name)
        except BaseException:
            self.release(name)
            raise

    def forget(self, name: str) -> None:
        """Remove the copy of an object that was deleted, unless it is held."""
        with self._lock:
            copy = self._copies.get(name)
            if copy is not None and not copy.holders:
                self._remove(name)

    def close(self) -> None:
        """Leave the folder to the next process; the files stay."""
        self._claim.close()

    def _ready(self, name: str, path: Path, size: int, checksum: int) -> None:
        if path.exists() and self._fits(path, size, checksum):
            return
        for _ in range(_FETCHES_MAX):
            with suppress(FileNotFoundError):
                path.unlink()
            self._fetch(name, path)
            if self._fits(path, size, checksum):
                return
        found = path.stat().st_size
        path.unlink()
        what = f"it has {found} bytes instead of {size}" if found != size else "its checksum is wrong"
        raise CorruptState(
            f"the object {name!r} in {self._objects.url} is corrupt: {what}",
            hint="Restore the flow from a checkpoint; `penstock verify` shows what else is damaged.",
        )

    def _fetch(self, name: str, path: Path) -> None:
        self.fetches += 1
        while True:
            try:
                self._objects.fetch(name, path)
                self.fetched_bytes += path.stat().st_size
                return
            except StorageFull:
                with self._lock:
                    freed = self._evict(0)
                if not freed:
                    raise StorageFull(
                        f"cannot copy {name!r} to the cache folder {self._folder}: no space is left",
                        hint="Free space on that disk, or choose a cache folder on another one.",
                    ) from None

    def _fits(self, path: Path, size: int, checksum: int) -> bool:
        with translated("read", str(path)):
            return path.stat().st_size == size and checksum_file(path) == checksum

    def _evict(self, limit_bytes: int | None = None) -> int:
        """Remove what was not used for longest until the rest is within the limit; how many files it was."""
        limit_bytes = self._limit_bytes if limit_bytes is None else limit_bytes
        total = self._bytes()
        before = self.evictions
        for name in [name for name, copy in self._copies.items() if not copy.holders]:
            if total <= limit_bytes:
                break
            total -= self._copies[name].size
            self._remove(name)
            self.evictions += 1
        return self.evictions - before

    def _remove(self, name: str) -> None:
        with suppress(FileNotFoundError):
            self._file(name).unlink()
        del self._copies[name]

    def _bytes(self) -> int:
        return sum(copy.size for copy in self._copies.values())

    def _file(self, name: str) -> Path:
        # "+" is in no object's name, so that the way back is unambiguous.
        return self._folder / name.replace("/", "+")

    def _recover(self) -> None:
        """Take over what an earlier process left, in its order of use."""
        found = []
        for entry in os.scandir(self._folder):
            if entry.name.startswith("."):
                if entry.name != ".lock":
                    os.unlink(entry)  # a fetch that was interrupted
            elif entry.is_file():
                stat = entry.stat()
                found.append((stat.st_mtime_ns, entry.name.replace("+", "/"), stat.st_size))
        for _, name, size in sorted(found):
            self._copies[name] = _Copy(size)
        with self._lock:
            self._evict()


def _claim(folder: Path) -> tuple[Path, IO[bytes]]:
    """The first folder below this one that no living process uses, and the lock that keeps it ours.

    Processes share none, or one would remove files that another has been handed.
    """
    for number in range(CACHE_FOLDERS_MAX):
        mine = folder / str(number)
        mine.mkdir(parents=True, exist_ok=True)
        lock = (mine / ".lock").open("ab")  # it stays open as long as the cache
        if _locked(lock):
            return mine, lock
        lock.close()
    raise StorageError(
        f"{CACHE_FOLDERS_MAX} processes use the cache folder {folder} already", hint="Choose another folder."
    )


def _locked(lock: IO[bytes]) -> bool:
    """Lock a file until it is closed or the process ends; False if another has it."""
    try:
        if sys.platform == "win32":
            import msvcrt

            msvcrt.locking(lock.fileno(), msvcrt.LK_NBLCK, 1)
        else:
            import fcntl

            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True
