"""A checkpoint: one epoch of a flow as a list of immutable files and a document that names them.

Checkpoints at one place share their files, so that taking one costs the new files alone; a full one
has a folder of its own and needs nothing else. The document is written last: without it there is no
checkpoint, whatever files have been copied.
"""

from __future__ import annotations

import base64
import json
import time
import uuid
import zlib
from collections.abc import Mapping
from dataclasses import dataclass, replace

import xxhash

from penstock.base import faults
from penstock.base.errors import CorruptState, StorageNotFound
from penstock.commit import keys
from penstock.commit.copying import Progress, copy_files
from penstock.commit.files import FOLDER, Files, plain_name
from penstock.commit.manifest import FORMAT, Manifest, check_format
from penstock.commit.truth import Truth
from penstock.state.batch_file import FileRef
from penstock.store.objects import Objects

CHECKPOINTS = "checkpoints"
# What of the database belongs to a checkpoint, beside the manifest and the catalog.
_COPIED = (keys.CHUNK, keys.OFFSET, keys.ONCE, keys.DIGEST)


@dataclass(frozen=True)
class Checkpoint:
    """What a checkpoint, a restore or a branch did."""

    epoch: int
    name: str  # of the checkpoint's document, or the URL of the flow that was made
    files: int  # that it consists of
    files_copied: int
    bytes_copied: int


@dataclass(frozen=True)
class Image:
    """A flow at one epoch: all of the database that is needed, and the files that it names."""

    manifest: Manifest
    rows: Mapping[bytes, bytes]  # catalog, chunks, offsets

    def encode(self, folder: str) -> bytes:
        value = {
            "format": FORMAT,
            "epoch": self.manifest.epoch,
            "folder": folder,
            "manifest": _text(self.manifest.encode()),
            "rows": {_text(key): _text(data) for key, data in self.rows.items()},
        }
        body = json.dumps(value, sort_keys=True).encode()
        return json.dumps({"checksum": xxhash.xxh3_64_hexdigest(body)}).encode() + b"\n" + zlib.compress(body)

    @staticmethod
    def decode(data: bytes, name: str) -> tuple[Image, str]:
        """The image, and the folder of its files."""
        try:
            head, _, rest = data.partition(b"\n")
            body = zlib.decompress(rest)
            wanted = json.loads(head)["checksum"]
        except (ValueError, KeyError, TypeError, zlib.error):
            raise CorruptState(f'the checkpoint "{name}" is not readable') from None
        if xxhash.xxh3_64_hexdigest(body) != wanted:
            raise CorruptState(f'the checkpoint "{name}" does not have its checksum')
        value = json.loads(body)
        check_format(value["format"])
        rows = {_bytes(key): _bytes(data) for key, data in value["rows"].items()}
        return Image(Manifest.decode(_bytes(value["manifest"])), rows), value["folder"]


def _text(data: bytes) -> str:
    return base64.b64encode(data).decode()


def _bytes(text: str) -> bytes:
    return base64.b64decode(text)


def take_image(truth: Truth, manifest: Manifest) -> Image:
    """What the database has of the manifest's epoch. Nothing may be written meanwhile."""
    catalog = truth.get(keys.CATALOG)
    if catalog is None:
        raise CorruptState("the flow has no catalog")
    rows = {keys.CATALOG: catalog}
    for prefix in _COPIED:
        rows.update(truth.scan(prefix, keys.after(prefix)))
    return Image(replace(manifest, history_from=manifest.epoch, history_from_us=manifest.time_us), rows)


def write_checkpoint(
    image: Image, source: Files, target: Objects, full: bool, progress: Progress | None = None
) -> Checkpoint:
    """Copy what the target does not have, then write the document that makes it a checkpoint."""
    # In the order of epochs, and of time where an epoch has several.
    number = f"{image.manifest.epoch:020d}-{time.time_ns() // 1000:017d}-{uuid.uuid4().hex[:8]}"
    folder = f"{CHECKPOINTS}/{number}/{FOLDER}" if full else FOLDER
    files = image.manifest.files()
    wanted = {f"{folder}/{plain_name(name)}": ref for name, ref in files.items()}
    copied, size = copy_files(source, target, wanted, "checkpoint.copy", progress)
    name = f"{CHECKPOINTS}/{number}.json"
    own = replace(image, manifest=_renamed(image.manifest, lambda name: f"{FOLDER}/{plain_name(name)}"))
    with faults.step("checkpoint.write"):
        target.put(name, own.encode(folder))
    return Checkpoint(image.manifest.epoch, name, len(files), copied, size)


def list_checkpoints(target: Objects) -> list[tuple[int, str]]:
    """The checkpoints at a place, oldest first: epoch and name."""
    names = [e.name for e in target.list(CHECKPOINTS) if e.name.endswith(".json") and e.name.count("/") == 1]
    return sorted((int(name.split("/")[1].split("-")[0]), name) for name in names)


def read_checkpoint(target: Objects, epoch: int | None) -> tuple[Image, str]:
    """The newest checkpoint, or that of an epoch, with the folder of its files."""
    found = list_checkpoints(target)
    wanted = [name for number, name in found if epoch is None or number == epoch]
    if not wanted:
        have = ", ".join(str(number) for number, _ in found[-10:])
        which = "" if epoch is None else f" of epoch {epoch}"
        raise StorageNotFound(
            f"there is no checkpoint{which} at {target.url}",
            hint=f"There are those of {have}." if have else None,
        )
    return Image.decode(target.get(wanted[-1]), wanted[-1])


def restore_image(
    image: Image,
    source: Objects,
    folder: str,
    truth: Truth,
    target: Objects,
    progress: Progress | None = None,
) -> Checkpoint:
    """Make a flow of a checkpoint: its files first, then one write that makes it exist."""
    files = image.manifest.files()
    places = {name: replace(ref, name=f"{folder}/{plain_name(name)}") for name, ref in files.items()}
    copied, size = copy_files(Files(source, None), target, places, "restore.copy", progress)
    with faults.step("restore.write"):
        install_image(image, truth)
    return Checkpoint(image.manifest.epoch, target.url, len(files), copied, size)


def install_image(image: Image, truth: Truth) -> None:
    """Write an image into an empty database, as one."""
    # Another flow from here on: what becomes of it is its own.
    about = {"format": FORMAT, "created_us": image.manifest.time_us, "flow": uuid.uuid4().hex[:12]}
    truth.write(
        {**image.rows, keys.FORMAT: json.dumps(about).encode(), keys.MANIFEST: image.manifest.encode()}
    )
    truth.flush()


def branched(image: Image, parents: tuple[str, ...], pins: tuple[str, ...]) -> Image:
    """The same image for a flow beside this one, which shares the files under their parent's number."""

    def shared(name: str) -> str:
        if not name.startswith("@"):
            return f"@0/{name}"
        number, _, rest = name[1:].partition("/")
        return f"@{int(number) + 1}/{rest}"

    return replace(image, manifest=replace(_renamed(image.manifest, shared), parents=parents, pins=pins))


def _renamed(manifest: Manifest, rename) -> Manifest:  # type: ignore[no-untyped-def]
    slots = {
        name: tuple(replace(r, name=rename(r.name)) if isinstance(r, FileRef) else r for r in refs)
        for name, refs in manifest.slots.items()
    }
    return replace(manifest, slots=slots, parents=())
