"""The flow's files: batches and large deltas, written once under names that no other attempt can use."""

from __future__ import annotations

import itertools
import tempfile
import uuid
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa

from penstock.base.errors import CorruptState, StorageUnavailable
from penstock.base.limits import PUT_ATTEMPTS_MAX
from penstock.state.batch_file import FileRef, MappedFile, StoredBatch, describe, serialise
from penstock.state.measures import Measure
from penstock.store.cache import LocalCache
from penstock.store.failures import translated
from penstock.store.objects import Objects
from penstock.zset.column import Column
from penstock.zset.types import SqlType

FOLDER = "batches"
PARENT = "@"  # "@0/batches/x": a file of the first parent of a branch


class Files:
    """Writes and opens files. The session in a file's name says which writer made it."""

    def __init__(
        self,
        own: Objects,
        cache: LocalCache | None,
        parents: Sequence[tuple[Objects, LocalCache | None]] = (),
    ) -> None:
        self.session = uuid.uuid4().hex[:12]
        self.objects = own
        self._cache = cache
        self._parents = list(parents)
        self._numbers = itertools.count(1)
        self.bytes_written = 0
        self.files_written = 0

    def write(
        self, hashes: np.ndarray | None, columns: Sequence[Column], measures: Sequence[Measure]
    ) -> FileRef:
        """Rows as a new file."""
        data = serialise(hashes, columns, measures)
        name = self._put(data)
        self.bytes_written += data.size
        self.files_written += 1
        return describe(name, data, len(measures[0]))

    def _put(self, data: pa.Buffer) -> str:
        """Write the bytes under a new name; under another one where it is not known whether that happened."""
        for attempt in range(PUT_ATTEMPTS_MAX):
            name = f"{FOLDER}/{self.session}-{next(self._numbers):08d}.arrow"
            try:
                self.objects.put(name, data)
                return name
            except StorageUnavailable:
                if attempt + 1 == PUT_ATTEMPTS_MAX:
                    raise
        raise AssertionError("the loop returns or raises")

    def batch(self, ref: FileRef, types: Sequence[SqlType]) -> StoredBatch:
        return StoredBatch(ref, types, self.open)

    def open(self, ref: FileRef) -> MappedFile:
        """Map a file into memory; from the local cache where the storage is remote."""
        objects, cache, name = self.place(ref.name)
        path = objects.local_path(name)
        if path is None and cache is not None:
            path = cache.hold(name, ref.bytes, ref.checksum)
        if path is None:
            return MappedFile(ref, pa.py_buffer(objects.get(name)))
        return MappedFile(ref, _mapped(objects, name, path, ref.bytes))

    def check(self, ref: FileRef) -> None:
        """Check every byte that storage has of a file, and not those of a local copy."""
        objects, _, name = self.place(ref.name)
        path = objects.local_path(name)
        if path is not None:
            MappedFile(ref, _mapped(objects, name, path, ref.bytes)).check_all()
            return
        with tempfile.TemporaryDirectory(prefix="penstock-") as folder:
            copy = Path(folder) / "copy"
            objects.fetch(name, copy)
            MappedFile(ref, _mapped(objects, name, copy, ref.bytes)).check_all()

    def copy(self, ref: FileRef, target: Objects, name: str) -> None:
        """Copy a file to another storage, checking it on the way."""
        objects, cache, own = self.place(ref.name)
        path = objects.local_path(own)
        if path is None and cache is not None:
            with cache.held(own, ref.bytes, ref.checksum) as held:
                target.put_file(name, held)
            return
        data = pa.py_buffer(objects.get(own)) if path is None else _mapped(objects, own, path, ref.bytes)
        MappedFile(ref, data).check_all()
        target.put(name, data)

    def place(self, name: str) -> tuple[Objects, LocalCache | None, str]:
        if not name.startswith(PARENT):
            return self.objects, self._cache, name
        number, _, rest = name[len(PARENT) :].partition("/")
        objects, cache = self._parents[int(number)]
        return objects, cache, rest

    def sizes(self) -> dict[str, int]:
        """The size of every file that is there, those of parents among them."""
        found = {entry.name: entry.size for entry in self.objects.list(FOLDER)}
        for number, (objects, _) in enumerate(self._parents):
            found.update((f"{PARENT}{number}/{e.name}", e.size) for e in objects.list(FOLDER))
        return found

    def close(self) -> None:
        for cache in (self._cache, *(cache for _, cache in self._parents)):
            if cache is not None:
                cache.close()


def _mapped(objects: Objects, name: str, path: Path, bytes: int) -> pa.Buffer:
    with translated("map", objects.url, name):
        size = path.stat().st_size  # before mapping: an empty file cannot be mapped
        if size != bytes:
            raise CorruptState(
                f'the file "{name}" has {size} bytes instead of {bytes}',
                hint="Restore the flow from a checkpoint.",
            )
        with pa.memory_map(str(path)) as mapped:
            return mapped.read_buffer()


def plain_name(name: str) -> str:
    """A file's own name, without the folder and whichever flow it belongs to: it is unique anyway.

    >>> plain_name("@0/batches/ab-00000001.arrow")
    'ab-00000001.arrow'
    """
    return name.rpartition("/")[2]
