"""What has been applied already: source offsets, and the keys that callers gave to their ticks.

Both are written together with the epoch that they belong to, so after a crash they are known
exactly when that epoch is there.
"""

from __future__ import annotations

import json
from typing import Any

import xxhash

from penstock.base.errors import InvalidDelta
from penstock.base.limits import IDEMPOTENCY_KEY_BYTES_MAX, IDEMPOTENCY_KEYS_MAX
from penstock.commit import keys
from penstock.commit.truth import Truth
from penstock.state.packing import pack
from penstock.zset.zset import ZSet

Offset = int | str


class Once:
    """Offsets by table, and keys in the order in which they came, the oldest forgotten first."""

    def __init__(self) -> None:
        self.offsets: dict[int, Offset] = {}
        self._keys: dict[str, int] = {}
        self._digests: dict[int, str] = {}  # by table: of its last delta, where it drops repetitions
        self.repetitions: dict[int, int] = {}  # by table: deltas dropped since the flow was opened

    @staticmethod
    def load(truth: Truth) -> Once:
        once = Once()
        for key, value in truth.scan(keys.OFFSET, keys.after(keys.OFFSET)):
            once.offsets[keys.number_of(key)] = json.loads(value)
        for key, value in truth.scan(keys.DIGEST, keys.after(keys.DIGEST)):
            once._digests[keys.number_of(key)] = value.decode()
        found = [
            (int(value), key[len(keys.ONCE) :].decode())
            for key, value in truth.scan(keys.ONCE, keys.after(keys.ONCE))
        ]
        once._keys = {name: epoch for epoch, name in sorted(found)}
        return once

    def epoch_of_key(self, key: str) -> int | None:
        """The epoch that this key made; None if it is new."""
        if not isinstance(key, str) or not key or len(key.encode()) > IDEMPOTENCY_KEY_BYTES_MAX:
            raise InvalidDelta(f"an idempotency key is text of 1 to {IDEMPOTENCY_KEY_BYTES_MAX} bytes")
        return self._keys.get(key)

    def has_offset(self, table: int, offset: Offset) -> bool:
        """Whether the table's source has been read up to this offset already."""
        if not isinstance(offset, (int, str)) or isinstance(offset, bool):
            raise InvalidDelta(f"an offset is a whole number or text, not {type(offset).__name__}")
        last = self.offsets.get(table)
        if last is None:
            return False
        if isinstance(last, str) or isinstance(offset, str):
            if type(last) is not type(offset):
                raise InvalidDelta(f"the offset {offset!r} is not of the kind of the last one, {last!r}")
            return last == offset
        return offset <= last

    def repeats(self, table: int, rows: ZSet, note: dict[str, Any]) -> bool:
        """Whether a delta is, byte for byte, the one before it; if not, its digest is added to the note."""
        digest = xxhash.xxh3_128_hexdigest(pack(None, rows.columns, (rows.weights,)))
        if self._digests.get(table) == digest:
            return True
        note.setdefault("digests", {})[table] = digest
        return False

    def count(self, table: int) -> None:
        """A delta of this table was dropped."""
        self.repetitions[table] = self.repetitions.get(table, 0) + 1

    def writes(self, note: dict[str, Any], epoch: int) -> tuple[dict[bytes, bytes], list[bytes]]:
        """Take note of what comes with an epoch: the puts and deletes to be written with it."""
        puts: dict[bytes, bytes] = {}
        deletes: list[bytes] = []
        for table, offset in note.get("offsets", {}).items():
            self.offsets[int(table)] = offset
            puts[keys.serial(keys.OFFSET, int(table))] = json.dumps(offset).encode()
        for table, digest in note.get("digests", {}).items():
            self._digests[int(table)] = digest
            puts[keys.serial(keys.DIGEST, int(table))] = digest.encode()
        key = note.get("key")
        if key is not None:
            self._keys[key] = epoch
            puts[keys.ONCE + key.encode()] = str(epoch).encode()
            while len(self._keys) > IDEMPOTENCY_KEYS_MAX:
                oldest = next(iter(self._keys))
                del self._keys[oldest]
                deletes.append(keys.ONCE + oldest.encode())
        return puts, deletes


def read_offset(truth: Truth, table: int) -> Offset | None:
    """What storage says of how far a table's source has been read."""
    found = truth.get(keys.serial(keys.OFFSET, table))
    offset: Offset | None = None if found is None else json.loads(found)
    return offset
