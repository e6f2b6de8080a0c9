"""The manifest: the batches that every arrangement consists of at one epoch."""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from penstock.base.errors import CorruptState, FormatTooNew
from penstock.state.batch_file import FileRef

FORMAT = 1  # of everything on storage: a flow of a later format is not opened


@dataclass(frozen=True)
class ChunkRef:
    """A small batch that stands in the database itself, under this number."""

    number: int
    rows: int
    bytes: int


Ref = FileRef | ChunkRef


def ref_to_json(ref: Ref) -> list[Any]:
    if isinstance(ref, FileRef):
        span = [] if ref.span is None else [list(ref.span)]
        return ["f", ref.name, ref.bytes, ref.rows, ref.checksum, ref.checksums, *span]
    return ["c", ref.number, ref.rows, ref.bytes]


def ref_from_json(value: list[Any]) -> Ref:
    if value[0] == "f":
        span = tuple(value[6]) if len(value) > 6 else None
        return FileRef(value[1], value[2], value[3], value[4], value[5], span)
    if value[0] == "c":
        return ChunkRef(value[1], value[2], value[3])
    raise CorruptState(f"the manifest names a batch of the unknown kind {value[0]!r}")


@dataclass(frozen=True)
class Manifest:
    """What one epoch consists of. `slots` maps the name of a piece of state to its batches, oldest first."""

    epoch: int = 0
    time_us: int = 0
    catalog: int = 0  # the version of the catalog that it belongs to
    history_from: int = 0  # the oldest epoch that can still be read ...
    history_from_us: int = 0  # ... and its time
    next_chunk: int = 1
    slots: dict[str, tuple[Ref, ...]] = field(default_factory=dict)
    writer: str = ""  # the session that wrote it
    parents: tuple[str, ...] = ()  # URLs of flows whose files it shares ...
    pins: tuple[str, ...] = ()  # ... and in each of them the object that keeps those files

    def refs(self) -> Iterator[Ref]:
        for refs in self.slots.values():
            yield from refs

    def files(self) -> dict[str, FileRef]:
        """The files that it names."""
        return {ref.name: ref for ref in self.refs() if isinstance(ref, FileRef)}

    def chunks(self) -> set[int]:
        return {ref.number for ref in self.refs() if isinstance(ref, ChunkRef)}

    def encode(self) -> bytes:
        """
        >>> m = Manifest(3, slots={"1.0": (FileRef("a", 10, 1, 5, "x"), ChunkRef(7, 1, 90))})
        >>> Manifest.decode(m.encode()) == m
        True
        """
        value = {
            "format": FORMAT,
            "epoch": self.epoch,
            "time_us": self.time_us,
            "catalog": self.catalog,
            "history_from": self.history_from,
            "history_from_us": self.history_from_us,
            "next_chunk": self.next_chunk,
            "slots": {name: [ref_to_json(r) for r in refs] for name, refs in self.slots.items()},
            "writer": self.writer,
            "parents": list(self.parents),
            "pins": list(self.pins),
        }
        return zlib.compress(json.dumps(value, separators=(",", ":")).encode(), 1)

    @staticmethod
    def decode(data: bytes) -> Manifest:
        try:
            value = json.loads(zlib.decompress(data))
        except (ValueError, zlib.error) as error:
            raise CorruptState(f"the manifest is not readable: {error}") from None
        check_format(value.get("format"))
        slots = {name: tuple(ref_from_json(r) for r in refs) for name, refs in value["slots"].items()}
        return Manifest(
            value["epoch"], value["time_us"], value["catalog"], value["history_from"],
            value["history_from_us"], value["next_chunk"], slots, value["writer"], tuple(value["parents"]), tuple(value["pins"]),
        )  # fmt: skip


def check_format(found: object) -> None:
    """Refuse what a later version of penstock wrote."""
    if not isinstance(found, int):
        raise CorruptState(f"the flow's format is {found!r}, which is not a number")
    if found > FORMAT:
        raise FormatTooNew(
            f"the flow was written in format {found}; this penstock reads up to format {FORMAT}",
            hint="Use a newer penstock. Nothing has been changed.",
        )
