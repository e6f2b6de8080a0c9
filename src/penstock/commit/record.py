"""The log of epochs: for each its time and what changed in every table and view.

Epochs that were committed together are one value in the database, under the number of the last of
them. The deltas of tables are what recovery runs again; those of views are history for readers.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import xxhash

from penstock.base.errors import CorruptState
from penstock.commit import keys
from penstock.commit.manifest import ref_from_json, ref_to_json
from penstock.state.batch_file import FileRef

VERSION = 1
_GROUP = struct.Struct("<BI")  # version, epochs
_EPOCH = struct.Struct("<QqII")  # number, microseconds since 1970, parts, bytes of the note
_PART = struct.Struct("<IBI")  # relation, whether it is a file, bytes
_SUM_AND_TIME = struct.Struct("<qQ")  # at the end: the last epoch's time, and the checksum of all before
_SUM = struct.Struct("<Q")


@dataclass(frozen=True)
class Part:
    """Rows of one relation's delta: packed, or the file that has them."""

    relation: int
    packed: bytes = b""
    file: FileRef | None = None


@dataclass(frozen=True)
class EpochRecord:
    """One epoch."""

    epoch: int
    time_us: int
    parts: tuple[Part, ...]
    note: dict[str, Any] = field(default_factory=dict)  # offsets and keys that came with it

    def parts_of(self, relation: int) -> list[Part]:
        """A relation's delta: in one piece, or in as many as there were tasks."""
        return [p for p in self.parts if p.relation == relation]


def encode_group(records: Sequence[EpochRecord]) -> bytes:
    """Epochs as one value.

    >>> one = EpochRecord(7, 1_000_000, (Part(1, b"rows"),))
    >>> list(decode_group(encode_group([one]))) == [one]
    True
    """
    pieces = [_GROUP.pack(VERSION, len(records))]
    for record in records:
        note = json.dumps(record.note, separators=(",", ":")).encode() if record.note else b""
        pieces.append(_EPOCH.pack(record.epoch, record.time_us, len(record.parts), len(note)))
        pieces.append(note)
        for part in record.parts:
            data = part.packed if part.file is None else json.dumps(ref_to_json(part.file)).encode()
            pieces.append(_PART.pack(part.relation, part.file is not None, len(data)))
            pieces.append(data)
    pieces.append(struct.pack("<q", records[-1].time_us))
    body = b"".join(pieces)
    return body + _SUM.pack(xxhash.xxh3_64_intdigest(body))


def log_writes(records: Sequence[EpochRecord]) -> dict[bytes, bytes]:
    """What to put into the database for epochs that are committed together."""
    puts = {keys.serial(keys.LOG, records[-1].epoch): encode_group(records)}
    for record in records:
        names = [part.file.name for part in record.parts if part.file is not None]
        if names:
            puts[keys.serial(keys.LOG_FILES, record.epoch)] = json.dumps(names).encode()
    return puts


def files_from_json(value: bytes) -> list[str]:
    """The names that `log_writes` put under an epoch."""
    names: list[str] = json.loads(value)
    return names


def group_time(data: bytes) -> int:
    """The time of a group's last epoch."""
    return int(_SUM_AND_TIME.unpack(data[-_SUM_AND_TIME.size :])[0])


def decode_group(data: bytes) -> Iterator[EpochRecord]:
    body = data[: -_SUM.size]
    if len(data) < _GROUP.size + _SUM.size or _SUM.unpack(data[-_SUM.size :])[0] != xxhash.xxh3_64_intdigest(
        body
    ):
        raise CorruptState("a record of the log of epochs does not have its checksum")
    version, count = _GROUP.unpack_from(body)
    if version != VERSION:
        raise CorruptState(f"a record of the log of epochs has the format {version}, not {VERSION}")
    at = _GROUP.size
    for _ in range(count):
        epoch, time_us, parts, length = _EPOCH.unpack_from(body, at)
        at += _EPOCH.size
        note = json.loads(body[at : at + length]) if length else {}
        at += length
        found = []
        for _ in range(parts):
            relation, is_file, size = _PART.unpack_from(body, at)
            at += _PART.size
            value = body[at : at + size]
            at += size
            if is_file:
                ref = ref_from_json(json.loads(value))
                assert isinstance(ref, FileRef)
                found.append(Part(relation, b"", ref))
            else:
                found.append(Part(relation, value))
        yield EpochRecord(epoch, time_us, tuple(found), note)
