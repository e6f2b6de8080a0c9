"""A flow on storage: opening it, committing its epochs, writing its state down, and closing it.

The order of things is what makes it safe. An epoch exists when its record is in the database: one
atomic write. The manifest, written now and then, only shortens recovery, which maps the manifest's
batches and runs the few epochs after it again. A change of the catalog is one write with the manifest
of the same moment, so recovery never runs an epoch under another catalog.
"""

from __future__ import annotations

import json
import threading
import time
import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from penstock.base import faults
from penstock.base.errors import CorruptState, PenstockError, StorageNotFound
from penstock.base.limits import (
    FLUSH_EPOCHS_MAX,
    FLUSH_REPLAY_SECONDS_MAX,
    FLUSH_ROWS_MAX,
)
from penstock.commit import keys
from penstock.commit.collect import Collector
from penstock.commit.files import Files
from penstock.commit.flusher import Captured, Flusher
from penstock.commit.history import History
from penstock.commit.journal import Entry, Journal
from penstock.commit.manifest import FORMAT, ChunkRef, Manifest, check_format
from penstock.commit.once import Once
from penstock.commit.record import EpochRecord, encode_group
from penstock.commit.truth import Truth
from penstock.engine import slots
from penstock.engine.catalog import MaterializedView, Table
from penstock.engine.catalog_codec import encode_catalog, restore_catalog
from penstock.engine.core import Change, Core
from penstock.kernels.hashing import hash_columns
from penstock.state.batch import Batch
from penstock.state.batch_file import FileRef
from penstock.state.packing import unpack
from penstock.store.location import Location
from penstock.zset.zset import ZSet


@dataclass(frozen=True)
class Settings:
    """How a flow is kept on storage."""

    location: Location
    read_only: bool = False
    commit: str = "durable"  # or "visible"
    commit_interval_s: float = 0.1
    retain_s: float = 600.0
    memory_limit: int | None = None
    cache_folder: str | None = None
    cache_limit: int | None = None


class Durable:
    """The storage of one flow, opened for writing."""

    def __init__(self, core: Core, settings: Settings, lock: threading.RLock) -> None:
        self.core = core
        self.settings = settings
        self._lock = lock  # the flow's: whoever holds it sees no epoch half done
        self._catalog_version = 0
        self._time_us = 0
        self._debt_s = 0.0  # what recovery would have to run again
        self._debt_rows = 0
        self._debt_epochs = 0
        self._background: threading.Thread | None = None
        self._background_failure: PenstockError | None = None
        with faults.step("open.fence"):
            self.truth = Truth(settings.location)
        try:
            self._open()
        except BaseException:
            self.truth.close()
            raise

    # -- opening ---------------------------------------------------------------------------

    def _open(self) -> None:
        found = self.truth.get(keys.FORMAT)
        if found is None:
            self._create()
        else:
            check_format(json.loads(found).get("format"))
        with faults.step("open.load"):
            manifest = read_manifest(self.truth)
            self.files = Files(*open_places(self.settings, manifest.parents))
            self._catalog_version = load(self.core, self.truth, self.files, manifest)
        self.once = Once.load(self.truth)
        self.collector = Collector(self.truth, self.files, manifest)
        self.flusher = Flusher(self.truth, self.files, manifest)
        with faults.step("open.replay"):
            for record in read_log(self.truth, manifest.epoch + 1):
                self._replay(record)
        self.journal = Journal(
            self.truth, self._write_delta, self.core.epoch, self.settings.commit_interval_s, self.collector.keep
        )
        self.history = History(self.truth, self.files, lambda: self.flusher.manifest)

    def _create(self) -> None:
        about = {"format": FORMAT, "created_us": _now_us()}
        self.truth.write(
            {
                keys.FORMAT: json.dumps(about).encode(),
                keys.CATALOG: encode_catalog_bytes(self.core, 0),
                keys.MANIFEST: Manifest().encode(),
            }
        )
        self.truth.flush()

    def _replay(self, record: EpochRecord) -> None:
        """Run an epoch again: the same deltas through the same circuit give the same state."""
        began = time.perf_counter()
        core = self.core
        if record.epoch != core.epoch + 1:
            raise CorruptState(f"epoch {record.epoch} follows epoch {core.epoch} in the log")
        changes: dict[str, Change] = {}
        for part in record.parts:
            relation = core.catalog.by_id(part.relation)
            if isinstance(relation, Table):
                rows = self._rows(part, relation)
                changes[relation.name] = as_change(relation, rows)
        if changes:
            core.commit(changes, core.propose(changes))
        else:
            core.epoch += 1
        self._time_us = record.time_us
        self._owe(time.perf_counter() - began, sum(len(d) for d, _ in changes.values()))

    def _rows(self, part: Any, relation: Table | MaterializedView) -> ZSet:
        return read_part(self.files, part, relation.schema.types)

    # -- committing ------------------------------------------------------------------------

    def commit(
        self,
        changes: Mapping[str, Change],
        views: Mapping[str, ZSet],
        began: float,
        note: dict[str, Any] | None = None,
    ) -> None:
        """The epoch that the core has just made, on its way to storage. Called with the flow's lock held."""
        entry = self._entry(changes, views, note or {})
        self.journal.submit(entry)
        self._owe(time.perf_counter() - began, sum(len(d) for d, _ in changes.values()))
        if self._debt_is_due() and self._background is None:
            self._flush_in_background()

    def _entry(self, changes: Mapping[str, Change], views: Mapping[str, ZSet], note: dict[str, Any]) -> Entry:
        catalog = self.core.catalog
        deltas: list[tuple[int, ZSet | Batch]] = []
        for name, (delta, batch) in changes.items():
            deltas.append((catalog.get(name).id, delta if batch is None else batch))
        for name, rows in views.items():
            deltas.append((catalog.get(name).id, rows))
        self._time_us = max(self._time_us + 1, _now_us())
        puts, deletes = self.once.writes(note, self.core.epoch)
        return Entry(self.core.epoch, self._time_us, deltas, note, puts, deletes)

    def _write_delta(self, delta: ZSet | Batch) -> FileRef:
        """A large delta as a file. A table's batch is a file of the table's state at the same time."""
        if isinstance(delta, Batch):
            if not isinstance(delta.ref, FileRef):
                delta.ref = self.files.write(delta.hashes, delta.columns, delta.measures)
            return delta.ref  # type: ignore[return-value]
        return self.files.write(None, delta.columns, (delta.weights,))

    def check(self) -> None:
        """Raise if the flow has stopped; try again what failed in the background."""
        self.journal.check()
        if self._background_failure is not None:
            self._background_failure = None
            self.flush_state()

    def wait(self, epoch: int) -> None:
        """Return when the epoch is on storage."""
        self.journal.wait(epoch)

    # -- writing state down ----------------------------------------------------------------

    def _owe(self, cost_s: float, rows: int) -> None:
        self._debt_s += cost_s
        self._debt_rows += rows
        self._debt_epochs += 1

    def _debt_is_due(self) -> bool:
        return (
            self._debt_s > FLUSH_REPLAY_SECONDS_MAX
            or self._debt_rows > FLUSH_ROWS_MAX
            or self._debt_epochs > FLUSH_EPOCHS_MAX
        )

    def _capture(self) -> Captured:
        with faults.step("flush.capture"):
            self._debt_s, self._debt_rows, self._debt_epochs = 0.0, 0, 0
            return Captured(self.core.epoch, self._time_us, self._catalog_version, slots.capture(self.core))

    def _flush_in_background(self) -> None:
        captured = self._capture()

        def work() -> None:
            try:
                self._flush(captured)
            except PenstockError as error:
                self._background_failure = error
            finally:
                self._background = None

        self._background = threading.Thread(target=work, name="penstock-flush", daemon=True)
        self._background.start()

    def _flush(self, captured: Captured) -> None:
        """Write the state that was captured, and forget what nothing needs any more."""
        self.journal.wait(captured.epoch)  # the log comes first: history has no holes
        trim = self.collector.trim(captured.epoch, self._time_us, self.settings.retain_s, self._retentions())
        moved = self.flusher.flush(captured, trim.puts, trim.deletes, trim.history_from)
        with self._lock:
            slots.swap(self.core, moved)
        self.collector.collect(self.flusher.manifest, trim)

    def _retentions(self) -> list[float]:
        return [r.retain_s for r in self.core.catalog if getattr(r, "retain_s", None) is not None]

    def flush_state(self) -> None:
        """Write everything down now. Called with the flow's lock held."""
        self._join_background()
        self._flush(self._capture())

    def _join_background(self) -> None:
        thread = self._background
        if thread is not None:
            self._lock.release()  # it needs the lock to finish
            try:
                thread.join()
            finally:
                self._lock.acquire()

    def define(self, pending: Sequence[Entry] = ()) -> None:
        """Make a change of the catalog durable, with the state and the epochs that belong to it."""
        self._join_background()
        self.journal.wait(self.core.epoch - len(pending))
        self._catalog_version += 1
        puts = {keys.CATALOG: encode_catalog_bytes(self.core, self._catalog_version)}
        if pending:
            records = [self.journal.record(entry) for entry in pending]
            puts[keys.serial(keys.LOG, self.core.epoch)] = encode_group(records)
            self.collector.keep(records)
        moved = self.flusher.flush(self._capture(), puts, step="define")
        self.journal.durable = self.core.epoch
        slots.swap(self.core, moved)
        self.collector.collect(self.flusher.manifest)

    # -- the end ---------------------------------------------------------------------------

    def close(self, write_state: bool = True) -> None:
        """Bring everything to storage and let go of it."""
        try:
            self._join_background()
            if self.journal.failure is None:
                if write_state and self.core.epoch > self.flusher.manifest.epoch:
                    self.flush_state()
                self.journal.wait(self.core.epoch)
        finally:
            self.journal.close()
            self.truth.close()


# -- shared by writers and readers -----------------------------------------------------------------


def _now_us() -> int:
    return time.time_ns() // 1000


def encode_catalog_bytes(core: Core, version: int) -> bytes:
    value = {"version": version, "catalog": encode_catalog(core)}
    return zlib.compress(json.dumps(value, separators=(",", ":")).encode(), 6)


def read_manifest(truth: Truth) -> Manifest:
    found = truth.get(keys.MANIFEST)
    if found is None:
        raise CorruptState("the flow has no manifest")
    return Manifest.decode(found)


def load(core: Core, truth: Truth, files: Files, manifest: Manifest) -> int:
    """Catalog and state of the manifest into a new core; the catalog's version."""
    found = truth.get(keys.CATALOG)
    if found is None:
        raise CorruptState("the flow has no catalog")
    value = json.loads(zlib.decompress(found))
    restore_catalog(core, value["catalog"])
    types = slots.types_of(core)
    batches: dict[str, list[Batch]] = {}
    for name, refs in manifest.slots.items():
        if name not in types:
            raise CorruptState(f"the manifest has state {name} that the catalog does not know")
        batches[name] = [open_batch(truth, files, ref, types[name]) for ref in refs]
    slots.attach(core, batches)
    core.epoch = manifest.epoch
    return int(value["version"])


def open_batch(truth: Truth, files: Files, ref: Any, types: Sequence[Any]) -> Batch:
    if isinstance(ref, FileRef):
        return files.batch(ref, types)
    assert isinstance(ref, ChunkRef)
    data = truth.get(keys.serial(keys.CHUNK, ref.number))
    if data is None:
        raise CorruptState(f"the manifest names chunk {ref.number}, which is not there")
    hashes, columns, measures = unpack(data, types)
    assert hashes is not None
    batch = Batch(hashes, columns, measures)
    batch.ref = ref
    return batch
