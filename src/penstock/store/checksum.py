"""The checksum of stored bytes: xxh3, 64 bits."""

from __future__ import annotations

import os

import xxhash

from penstock.base.limits import STORAGE_CHUNK_BYTES


def checksum(data: bytes | memoryview) -> int:
    """The checksum of bytes in memory.

    >>> hex(checksum(b"penstock"))
    '0x...'
    """
    return xxhash.xxh3_64_intdigest(data)


def checksum_file(path: str | os.PathLike[str]) -> int:
    """The checksum of a file, read in pieces."""
    digest = xxhash.xxh3_64()
    with open(path, "rb", buffering=0) as file:
        while piece := file.read(STORAGE_CHUNK_BYTES):
            digest.update(piece)
    return digest.intdigest()
