"""From storage to a core: catalog, manifest and log, read by whoever opens a flow, writer or reader."""

from __future__ import annotations

import json
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from penstock.base.errors import CorruptState, FlowNotFound, StorageError, StorageNotFound
from penstock.base.limits import CACHE_BYTES_MAX
from penstock.commit import keys
from penstock.commit.files import Files
from penstock.commit.history import read_parts
from penstock.commit.manifest import Manifest, Ref, check_format
from penstock.commit.places import Places
from penstock.commit.record import EpochRecord
from penstock.commit.scratch import Scratch
from penstock.commit.truth import Truth
from penstock.engine import slots
from penstock.engine.catalog import MaterializedView, Table
from penstock.engine.catalog_codec import encode_catalog, restore_catalog
from penstock.engine.core import Core
from penstock.engine.epochs import Change
from penstock.kernels.hashing import hash_columns
from penstock.state.batch import Batch
from penstock.state.batch_file import FileRef
from penstock.state.packing import unpack
from penstock.store.cache import cache_folder
from penstock.store.location import Location
from penstock.store.open import open_objects
from penstock.zset.column import is_in_order
from penstock.zset.types import SqlType
from penstock.zset.zset import ZSet

DATABASE = "db"  # SlateDB's folder


@dataclass(frozen=True)
class Settings:
    """How a flow is kept on storage."""

    location: Location
    commit: str = "durable"  # or "visible": when a tick returns
    commit_interval_s: float = 0.1
    retain_s: float = 600.0
    memory_limit: int | None = None
    sync: bool = True  # in a folder: survive a loss of power, too
    cache_folder: str | None = None
    cache_limit: int = CACHE_BYTES_MAX


def probe(settings: Settings, write: bool = True) -> None:
    """Fail clearly, at once, if the storage is not there or refuses us."""
    open_objects(settings.location).probe(write=write)


def places_of(settings: Settings, parents: Sequence[str]) -> Places:
    return Places(settings.location, tuple(parents), settings.cache_folder, settings.cache_limit)


def open_files(settings: Settings, parents: Sequence[str]) -> Files:
    """The flow's files, and those of the flows that it branched from."""
    return places_of(settings, parents).open(scratch_of(settings))


def scratch_of(settings: Settings) -> Scratch | None:
    """Where a flow with a memory limit puts what is on its way to storage: beside its files, or its cache."""
    location = settings.location
    if settings.memory_limit is None or location.scheme == "memory":
        return None
    if location.scheme == "file":
        return Scratch(location.path / "scratch")
    folder = Path(settings.cache_folder) if settings.cache_folder else cache_folder(location)
    return Scratch(folder / "scratch")


def open_reader(location: Location) -> Truth:
    """The database of a flow that is there, for reading. It disturbs no writer, and makes nothing."""
    absent = FlowNotFound(
        f"there is no flow at {location.url}", hint="A flow is made by opening it for writing."
    )
    if location.scheme == "file" and not location.path.is_dir():
        raise absent  # and no folder appears where somebody mistyped a name
    objects = open_objects(location)
    objects.probe(write=False)
    try:
        truth = Truth(location, read_only=True)
    except StorageError:
        if location.scheme == "memory" or not objects.list(DATABASE):
            raise absent from None
        raise  # it is there, and cannot be read
    try:
        if not read_format(truth):
            raise absent
    except BaseException:
        truth.close()
        raise
    return truth


def read_format(truth: Truth) -> bool:
    """Whether there is a flow; raises if it is one of a later format."""
    found = truth.get(keys.FORMAT)
    if found is not None:
        check_format(json.loads(found).get("format"))
    return found is not None


def flow_id(truth: Truth) -> str:
    """What tells a flow from others. One that was made before flows had it is told by the time it was made."""
    about = json.loads(truth.get(keys.FORMAT) or b"{}")
    return str(about.get("flow") or f"{about.get('created_us', 0):012x}")


def read_manifest(truth: Truth) -> Manifest:
    found = truth.get(keys.MANIFEST)
    if found is None:
        raise CorruptState("the flow has no manifest", hint="Restore it from a checkpoint.")
    return Manifest.decode(found)


def catalog_bytes(core: Core, version: int) -> bytes:
    value = {"version": version, "catalog": encode_catalog(core)}
    return zlib.compress(json.dumps(value, separators=(",", ":")).encode(), 6)


def read_catalog(truth: Truth) -> tuple[int, Any]:
    """The catalog's version and contents."""
    found = truth.get(keys.CATALOG)
    if found is None:
        raise CorruptState("the flow has no catalog", hint="Restore it from a checkpoint.")
    value = json.loads(zlib.decompress(found))
    return value["version"], value["catalog"]


def read_chunks(truth: Truth) -> dict[int, bytes]:
    """The small batches that stand in the database."""
    rows = truth.scan(keys.CHUNK, keys.after(keys.CHUNK))
    return {keys.number_of(key): value for key, value in rows}


def load(
    core: Core, catalog: Any, manifest: Manifest, chunks: Mapping[int, bytes], files: Files, kept: bool
) -> dict[str, list[Batch]]:
    """Fill a new core; the batches of each piece of state. Files are named, not read: that takes the same
    time whatever their size. `kept` says that the core will be written on."""
    restore_catalog(core, catalog)
    types = slots.types_of(core)
    unknown = [name for name in manifest.slots if name not in types]
    if unknown:
        raise CorruptState(f"the manifest has state that the catalog does not know: {', '.join(unknown)}")
    runs = {
        name: [stored_batch(ref, types[name], chunks, files) for ref in refs]
        for name, refs in manifest.slots.items()
    }
    slots.attach(core, runs, kept)
    core.epoch = manifest.epoch
    return runs


def stored_batch(ref: Ref, types: Sequence[SqlType], chunks: Mapping[int, bytes], files: Files) -> Batch:
    """The batch that a manifest names; a file is opened when its rows are first used."""
    if isinstance(ref, FileRef):
        return files.batch(ref, types)
    if ref.number not in chunks:
        raise CorruptState(f"the manifest names chunk {ref.number}, which is not there")
    hashes, columns, measures = unpack(chunks[ref.number], types)
    assert hashes is not None
    batch = Batch(hashes, columns, measures)
    batch.ref = ref
    return batch


def check_files(manifest: Manifest, files: Files) -> None:
    """Every file that the manifest names must be there, with its size."""
    found = files.sizes()
    for ref in manifest.files().values():
        size = found.get(ref.name)
        if size is None:
            size = files.size(ref.name)  # a listing may be behind
        if size is None:
            raise StorageNotFound(
                f'the file "{ref.name}" of the flow is not there', hint="Restore the flow from a checkpoint."
            )
        if size != ref.bytes:
            raise CorruptState(
                f'the file "{ref.name}" has {size} bytes instead of {ref.bytes}',
                hint="Restore the flow from a checkpoint.",
            )


def changes_of(core: Core, record: EpochRecord, files: Files) -> dict[str, Change]:
    """What an epoch of the log changed in tables, as the core takes it."""
    changes: dict[str, Change] = {}
    for id in {part.relation: None for part in record.parts}:
        relation = core.catalog.by_id(id)
        if isinstance(relation, Table):
            rows = read_parts(files, record.parts_of(id), relation.schema.types)
            changes[relation.name] = as_change(relation, rows)
    return changes


def views_of(core: Core, record: EpochRecord, files: Files) -> dict[str, ZSet]:
    """What an epoch of the log changed in materialized views."""
    found: dict[str, ZSet] = {}
    for id in {part.relation: None for part in record.parts}:
        relation = core.catalog.by_id(id)
        if isinstance(relation, MaterializedView):
            found[relation.name] = read_parts(files, record.parts_of(id), relation.schema.types)
    return found


def as_change(table: Table, rows: ZSet) -> Change:
    """Rows of the log were accepted before. Each piece of them stands in the order of the table's key."""
    if table.keyed is None:
        return rows, None
    hashes = hash_columns([rows.columns[k] for k in table.key], len(rows))
    if not is_in_order(hashes):
        order = np.argsort(
            hashes, kind="stable"
        )  # of one key the row that goes stays before the one that comes
        rows, hashes = rows.take(order), hashes[order]
    return rows, Batch(hashes, rows.columns, (rows.weights,))
