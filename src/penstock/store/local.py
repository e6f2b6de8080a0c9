"""Objects as files in a folder: whole under their names or not there, and on the disk when put returns."""

from __future__ import annotations

import os
import secrets
import shutil
import sys
import threading
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

from penstock.base.limits import STORAGE_CHUNK_BYTES, STORAGE_LEFTOVER_S_MIN
from penstock.store.failures import exists, translated
from penstock.store.location import Location, check_name, is_name
from penstock.store.objects import Data, Listing, Stored, as_bytes

_PARTIAL = ".part-"
_PROBE_BYTES = 4096  # a block: the least that a file takes


class LocalObjects:
    """Files below a folder.

    An object is written under a temporary name, synced, and then linked to its own: link, unlike rename,
    fails if the name is taken, so that of two writers of one name exactly one wins.
    """

    def __init__(self, location: Location) -> None:
        self._root = location.path
        self._url = location.url
        self._synced: set[str] = set()
        self._synced_folders: set[str] = set()
        self._lock = threading.Lock()

    @property
    def url(self) -> str:
        return self._url

    def probe(self, *, write: bool = True) -> None:
        with translated("use", self._url):
            if not write:
                os.scandir(self._root).close()
                return
            make_folder(self._root)
            with partial(self._root / "probe") as (_, file):
                file.write(bytes(_PROBE_BYTES))  # an empty file fits on a disk that is full
                file.flush()

    def put(self, name: str, data: Data) -> None:
        path = self._path(name)
        with translated("write", self._url, name):
            make_folder(path.parent)
            with partial(path) as (temporary, file):
                file.write(as_bytes(data))
                self._publish(name, temporary, file, path)

    def put_file(self, name: str, path: str | os.PathLike[str]) -> None:
        target = self._path(name)
        with translated("write", self._url, name):
            make_folder(target.parent)
            with open(path, "rb") as source, partial(target) as (temporary, file):
                shutil.copyfileobj(source, file, STORAGE_CHUNK_BYTES)
                self._publish(name, temporary, file, target)

    def replace(self, name: str, data: Data) -> None:
        path = self._path(name)
        with translated("write", self._url, name):
            make_folder(path.parent)
            with partial(path) as (temporary, file):
                file.write(as_bytes(data))
                _flush(file)
                os.replace(temporary, path)
            sync_folder(path.parent)

    def get(self, name: str) -> bytes:
        with translated("read", self._url, name):
            return self._path(name).read_bytes()

    def fetch(self, name: str, path: str | os.PathLike[str]) -> None:
        with translated("copy", self._url, name), open(self._path(name), "rb") as source:
            with partial(Path(path)) as (temporary, file):
                shutil.copyfileobj(source, file, STORAGE_CHUNK_BYTES)
                file.flush()
                os.replace(temporary, path)

    def size(self, name: str) -> int:
        with translated("read", self._url, name):
            return self._path(name).stat().st_size

    def exists(self, name: str) -> bool:
        with translated("read", self._url, name):
            try:
                self._path(name).stat()
            except FileNotFoundError:
                return False
            return True

    def list(self, folder: str = "") -> Listing:
        found = []
        with translated("list", self._url, folder):
            for name, entry in self._files(folder):
                with suppress(FileNotFoundError):  # deleted while we look
                    stat = entry.stat()
                    found.append(Stored(name, stat.st_size, stat.st_mtime))
        return sorted(found)

    def delete(self, names: Iterable[str]) -> None:
        for name in names:
            with translated("delete", self._url, name), suppress(FileNotFoundError):
                self._path(name).unlink()

    def local_path(self, name: str) -> Path | None:
        return self._path(name)

    def sync(self, folder: str = "") -> int:
        # The object_store crate's local files, which SlateDB writes, are never synced by it (0 fsync calls
        # in a trace of 0.17.0): without this a loss of power could take acknowledged writes.
        with self._lock, translated("sync", self._url, folder):
            present = {name for name, _ in self._files(folder)}
            new = present - self._synced
            for name in new:
                with suppress(FileNotFoundError):
                    _sync_file(self._root / name)
            self._sync_folders({name.rpartition("/")[0] for name in new})
            start = f"{folder}/" if folder else ""
            self._synced = {name for name in self._synced if not name.startswith(start)} | present
            return len(new)

    def sweep(self) -> int:
        before = time.time() - STORAGE_LEFTOVER_S_MIN
        removed = 0
        with translated("sweep", self._url):
            for _, entry in _walk(self._root, ""):
                if entry.name.startswith(".") and _PARTIAL in entry.name:
                    with suppress(FileNotFoundError):
                        if entry.stat().st_mtime < before:
                            os.unlink(entry)
                            removed += 1
        return removed

    def _path(self, name: str) -> Path:
        return self._root / check_name(name)

    def _files(self, folder: str) -> Iterator[tuple[str, os.DirEntry[str]]]:
        start = _walk(self._path(folder), f"{folder}/") if folder else _walk(self._root, "")
        return ((name, entry) for name, entry in start if is_name(entry.name))

    def _sync_folders(self, folders: set[str]) -> None:
        """Sync folders with new files, and those above one that is met for the first time."""
        for folder in folders:
            sync_folder(self._root / folder)
            while folder and folder not in self._synced_folders:
                self._synced_folders.add(folder)
                folder = folder.rpartition("/")[0]
                sync_folder(self._root / folder)

    def _publish(self, name: str, temporary: Path, file: BinaryIO, path: Path) -> None:
        _flush(file)
        try:
            os.link(temporary, path)
        except FileExistsError:
            raise exists(self._url, name) from None
        sync_folder(path.parent)


@contextmanager
def partial(path: Path) -> Iterator[tuple[Path, BinaryIO]]:
    """A new file beside the path, under a name that no object has; gone at the end unless it was renamed."""
    temporary = path.with_name(f".{path.name}{_PARTIAL}{secrets.token_hex(8)}")
    try:
        with open(temporary, "xb") as file:
            yield temporary, file
    finally:
        with suppress(FileNotFoundError):
            temporary.unlink()


def make_folder(folder: Path) -> None:
    """Make a folder and those above it, each one's entry synced, or a file in it could be lost with it."""
    missing = []
    while not folder.is_dir():
        missing.append(folder)
        folder = folder.parent
    for folder in reversed(missing):
        folder.mkdir(exist_ok=True)
        sync_folder(folder.parent)


def sync_folder(folder: Path) -> None:
    """Make the names in a folder survive a loss of power."""
    if sys.platform == "win32":
        return  # folders cannot be opened there, and NTFS journals names by itself
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _sync_file(path: Path) -> None:
    handle = os.open(path, os.O_RDWR if sys.platform == "win32" else os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _flush(file: BinaryIO) -> None:
    file.flush()
    os.fsync(file.fileno())


def _walk(folder: str | Path, prefix: str) -> Iterator[tuple[str, os.DirEntry[str]]]:
    """Every file below a folder, with its name as an object; a folder that is not there has none."""
    try:
        entries = list(os.scandir(folder))
    except FileNotFoundError:
        return
    for entry in entries:
        if entry.is_dir(follow_symlinks=False):
            yield from _walk(entry.path, f"{prefix}{entry.name}/")
        else:
            yield prefix + entry.name, entry
