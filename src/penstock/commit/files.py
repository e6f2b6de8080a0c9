"""The flow's files: batches and large deltas, written once under names that no other attempt can use."""

from __future__ import annotations

import itertools
import tempfile
import threading
import uuid
import weakref
from collections import deque
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa

from penstock.base.errors import CorruptState, StorageNotFound, StorageUnavailable
from penstock.base.limits import PUT_ATTEMPTS_MAX, SCRATCH_BYTES_MIN
from penstock.commit.scratch import Scratch
from penstock.state.batch_file import FileRef, MappedFile, StoredBatch, describe, serialise, write
from penstock.state.measures import Measure
from penstock.store.cache import LocalCache
from penstock.store.failures import translated
from penstock.store.objects import Objects, Remote
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
        scratch: Scratch | None = None,
        session: str | None = None,
    ) -> None:
        self.session = session or new_session()
        self.objects = own
        self._cache = cache
        self._parents = list(parents)
        self._scratch = scratch  # where a file is made before it is put, so that it takes no memory
        self._numbers = itertools.count(1)
        self._mapped: deque[weakref.ref[StoredBatch]] = deque()  # those from a cache, oldest first
        self._lock = threading.Lock()
        self.bytes_written = 0
        self.files_written = 0
        self.files_opened = 0

    def under(self, session: str) -> Files:
        """The same files, for a writer of another name; storage and local copies are shared."""
        return Files(self.objects, self._cache, self._parents, self._scratch, session)

    @property
    def requests(self) -> int:
        """Requests to remote storage, those for files of parents among them."""
        every = [self.objects, *(objects for objects, _ in self._parents)]
        return sum(objects.requests for objects in every if isinstance(objects, Remote))

    @property
    def bytes_fetched(self) -> int:
        """Of files that were copied here to be read."""
        caches = [self._cache, *(cache for _, cache in self._parents)]
        return sum(cache.fetched_bytes for cache in caches if cache is not None)

    def write(
        self, hashes: np.ndarray | None, columns: Sequence[Column], measures: Sequence[Measure]
    ) -> FileRef:
        """Rows as a new file."""
        size = sum(c.nbytes() for c in columns)
        if self._scratch is None or size < SCRATCH_BYTES_MIN:
            data = serialise(hashes, columns, measures)
            name = self._put(lambda name: self.objects.put(name, data))
            return self._written(describe(name, data, len(measures[0]), hashes))
        with self._scratch.file() as path:
            with pa.OSFile(str(path), "wb") as sink:
                write(sink, hashes, columns, measures)
            name = self._put(lambda name: self.objects.put_file(name, path))
            with pa.memory_map(str(path)) as mapped:
                return self._written(describe(name, mapped.read_buffer(), len(measures[0]), hashes))

    def _written(self, ref: FileRef) -> FileRef:
        self.bytes_written += ref.bytes
        self.files_written += 1
        return ref

    def _put(self, put: Callable[[str], None]) -> str:
        """Write the bytes under a new name; under another one where it is not known whether that happened."""
        for attempt in range(PUT_ATTEMPTS_MAX):
            name = f"{FOLDER}/{self.session}-{next(self._numbers):08d}.arrow"
            try:
                put(name)
                return name
            except StorageUnavailable:
                if attempt + 1 == PUT_ATTEMPTS_MAX:
                    raise
        raise AssertionError("the loop returns or raises")

    def batch(self, ref: FileRef, types: Sequence[SqlType]) -> StoredBatch:
        return StoredBatch(ref, types, self._open_batch)

    def _open_batch(self, batch: StoredBatch) -> MappedFile:
        cache = self.place(batch.ref.name)[1]
        if cache is None:
            return self.open(batch.ref)
        self._make_room(batch.ref.bytes, cache)
        file = self.open(batch.ref)
        with self._lock:
            self._mapped.append(weakref.ref(batch))
        return file

    def _make_room(self, size: int, cache: LocalCache) -> None:
        """Let go of the batches that were mapped longest ago, so that the cache may drop their files."""
        while cache.bytes + size > cache.limit_bytes:
            with self._lock:
                if not self._mapped:
                    return
                oldest = self._mapped.popleft()()
            if oldest is not None:
                oldest.release()

    def open(self, ref: FileRef) -> MappedFile:
        """Map a file into memory; from the local cache where the storage is remote."""
        self.files_opened += 1
        objects, cache, name = self.place(ref.name)
        path = objects.local_path(name)
        if path is not None:
            return MappedFile(ref, _mapped(objects, name, path, ref.bytes))
        if cache is None:
            return MappedFile(ref, pa.py_buffer(objects.get(name)))
        path = cache.hold(name, ref.bytes, ref.checksum)
        try:
            file = MappedFile(ref, _mapped(objects, name, path, ref.bytes))
        except BaseException:
            cache.release(name)
            raise
        weakref.finalize(file, cache.release, name)
        return file

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

    def size(self, name: str) -> int | None:
        """The size of a file; None if it is not there."""
        objects, _, own = self.place(name)
        try:
            return objects.size(own)
        except StorageNotFound:
            return None

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


def new_session(of: str | None = None) -> str:
    """A name that no other writer has; `of` another one, whose files these count as."""
    mine = uuid.uuid4().hex[:12]
    return mine if of is None else f"{of}-{mine}"


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
