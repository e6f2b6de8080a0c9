"""The keys of the database: what is kept under which name. All of it belongs to one flow."""

from __future__ import annotations

FORMAT = b"format"  # the version of all that follows; written first, never changed
CATALOG = b"catalog"  # tables, views and the circuit
MANIFEST = b"manifest"  # the batches of every arrangement at one epoch
WRITER = b"writer"  # the session of the process that opened it last
SERIAL_LENGTH = 8

LOG = b"log/"  # + the last epoch of a group: the deltas of its epochs
LOG_FILES = b"logfiles/"  # + an epoch: the files that its record names
CHUNK = b"chunk/"  # + a number: a batch that is too small to be a file
OFFSET = b"offset/"  # + a table's id: how far its source has been read
ONCE = b"once/"  # + a key that a caller gave: the epoch that it made
DIGEST = b"digest/"  # + a table's id: of its last delta, where repetitions are dropped
AUDIT = b"audit/"  # + a number: what the flow did and why

PREFIXES = (LOG, LOG_FILES, CHUNK, OFFSET, ONCE, DIGEST, AUDIT)


def serial(prefix: bytes, number: int) -> bytes:
    """A key that sorts by its number.

    >>> serial(LOG, 9) < serial(LOG, 10) < serial(LOG, 300)
    True
    """
    return prefix + number.to_bytes(SERIAL_LENGTH, "big")


def number_of(key: bytes) -> int:
    return int.from_bytes(key[-SERIAL_LENGTH:], "big")


def after(prefix: bytes) -> bytes:
    """The first key beyond all that begin with the prefix."""
    return prefix[:-1] + bytes((prefix[-1] + 1,))
