"""What is on storage of a flow: epochs, relations, arrangements and their batches, objects and their sizes.

It reads beside a writer and disturbs it in nothing; the writer may go on, so the parts are of about
the same moment and not of exactly one.
"""

from __future__ import annotations

import json
import time
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from penstock.base.errors import CorruptState, PenstockError, StorageNotFound
from penstock.base.limits import READER_LOAD_ATTEMPTS_MAX, READER_POLL_MS
from penstock.commit import keys
from penstock.commit.files import FOLDER as BATCHES
from penstock.commit.history import read_log, read_parts
from penstock.commit.manifest import Manifest, Ref
from penstock.commit.pins import pinned
from penstock.commit.record import EpochRecord, files_from_json
from penstock.commit.truth import Truth
from penstock.engine import opening, slots
from penstock.engine.catalog import MaterializedView, Table, View
from penstock.engine.catalog_codec import restore_catalog
from penstock.engine.core import Core
from penstock.engine.opening import DATABASE, Settings
from penstock.state.batch import Batch
from penstock.state.batch_file import FileRef
from penstock.store.location import Location
from penstock.store.objects import Stored


@dataclass(frozen=True)
class BatchInfo:
    """One batch: in a file, or as a chunk in the database."""

    kind: str  # "file" or "chunk"
    name: str
    rows: int
    bytes: int


@dataclass(frozen=True)
class ArrangementInfo:
    """A piece of state, as of the manifest."""

    slot: str
    name: str
    batches: tuple[BatchInfo, ...]

    @property
    def rows(self) -> int:
        return sum(b.rows for b in self.batches)

    @property
    def bytes(self) -> int:
        return sum(b.bytes for b in self.batches)


@dataclass(frozen=True)
class RelationInfo:
    """A table or view; `rows` is None where they were not counted."""

    kind: str
    name: str
    rows: int | None
    since: int | None  # the epoch at which it was made


@dataclass(frozen=True)
class ObjectsInfo:
    """Objects of one kind."""

    kind: str
    count: int
    bytes: int


@dataclass(frozen=True)
class Inspection:
    """What `penstock inspect` shows."""

    url: str
    format: int
    created_us: int | None
    epoch: int  # the last that readers see
    epoch_time_us: int
    written_epoch: int  # the last whose state is written down: those after it are run again on opening
    history_from: int
    history_from_us: int
    parents: tuple[str, ...]
    relations: tuple[RelationInfo, ...]
    arrangements: tuple[ArrangementInfo, ...]
    objects: tuple[ObjectsInfo, ...]
    unnamed: tuple[tuple[str, int], ...]  # files that nothing names, and their bytes


def inspect(location: Location, count_rows: bool = True) -> Inspection:
    """Look at a flow. Counting rows reads the weights of every batch of tables and views."""
    truth = opening.open_reader(location)
    try:
        return _Inspecting(location, truth, count_rows).result()
    finally:
        truth.close()


class _Inspecting:
    def __init__(self, location: Location, truth: Truth, count_rows: bool) -> None:
        self._location = location
        self._truth = truth
        self._count_rows = count_rows

    def result(self) -> Inspection:
        manifest, catalog = self._together()
        about = json.loads(self._truth.get(keys.FORMAT) or b"{}")
        log = list(read_log(self._truth, manifest.epoch + 1))
        self._files = opening.open_files(Settings(self._location), manifest.parents)
        core = Core()
        try:
            restore_catalog(core, catalog)
            names = {slot: piece.name for slot, piece in slots.pieces(core)}
            counts = self._counted(core, manifest, log) if self._count_rows else {}
            relations = tuple(
                RelationInfo(r.kind, r.name, counts.get(r.id), None if isinstance(r, View) else r.since)
                for r in core.catalog
            )
            listing = self._files.objects.list()
        finally:
            core.close()
            self._files.close()
        arrangements = tuple(
            ArrangementInfo(slot, names.get(slot, slot), tuple(_batch_info(r) for r in refs))
            for slot, refs in manifest.slots.items()
        )
        return Inspection(
            self._location.url,
            about.get("format"),
            about.get("created_us"),
            log[-1].epoch if log else manifest.epoch,
            log[-1].time_us if log else manifest.time_us,
            manifest.epoch,
            manifest.history_from,
            manifest.history_from_us,
            manifest.parents,
            relations,
            arrangements,
            _by_kind(listing),
            self._unnamed(manifest, listing),
        )

    def _together(self) -> tuple[Manifest, Any]:
        """A manifest and the catalog that it belongs to; a writer may be between the two."""
        for _ in range(READER_LOAD_ATTEMPTS_MAX):
            manifest = opening.read_manifest(self._truth)
            version, catalog = opening.read_catalog(self._truth)
            if version == manifest.catalog:
                return manifest, catalog
            time.sleep(READER_POLL_MS / 1000)
        raise CorruptState("the catalog and the manifest do not belong together")

    def _counted(self, core: Core, manifest: Manifest, log: Sequence[EpochRecord]) -> dict[int, int]:
        """The rows of each table and materialized view, by its number."""
        types = slots.types_of(core)
        chunks = opening.read_chunks(self._truth)
        counts: dict[int, int] = {}
        for relation in core.catalog.stored():
            slot = _slot(relation)
            try:
                batches: list[Batch] = [
                    opening.stored_batch(ref, types[slot], chunks, self._files)
                    for ref in manifest.slots.get(slot, ())
                ]
                total = sum(int(b.weights.sum()) for b in batches)
                for record in log:
                    parts = record.parts_of(relation.id)
                    if parts:
                        total += int(read_parts(self._files, parts, relation.schema.types).weights.sum())
            except (CorruptState, StorageNotFound):
                continue  # `verify` names what is wrong
            counts[relation.id] = total
        return counts

    def _unnamed(self, manifest: Manifest, listing: Sequence[Stored]) -> tuple[tuple[str, int], ...]:
        named = set(manifest.files())
        for _, value in self._truth.scan(keys.LOG_FILES, keys.after(keys.LOG_FILES)):
            named.update(files_from_json(value))
        try:
            named |= pinned(self._files.objects)
        except PenstockError:
            return ()  # a pin that cannot be read: nothing can be said to be of no use
        return tuple(
            (e.name, e.size) for e in listing if e.name.startswith(f"{BATCHES}/") and e.name not in named
        )


def _slot(relation: Table | MaterializedView) -> str:
    if isinstance(relation, Table) and relation.key_node is not None:
        return f"n{relation.key_node}.0"
    return f"r{relation.id}"


def _batch_info(ref: Ref) -> BatchInfo:
    if isinstance(ref, FileRef):
        return BatchInfo("file", ref.name, ref.rows, ref.bytes)
    return BatchInfo("chunk", str(ref.number), ref.rows, ref.bytes)


def _by_kind(listing: Sequence[Stored]) -> tuple[ObjectsInfo, ...]:
    """Objects by the folder that they are in, SlateDB's by the folders that it has."""
    counts: Mapping[str, list[int]] = defaultdict(lambda: [0, 0])
    for entry in listing:
        parts = entry.name.split("/")
        kind = "/".join(parts[:2]) if parts[0] == DATABASE and len(parts) > 2 else parts[0]
        counts[kind][0] += 1
        counts[kind][1] += entry.size
    return tuple(ObjectsInfo(kind, count, size) for kind, (count, size) in sorted(counts.items()))
