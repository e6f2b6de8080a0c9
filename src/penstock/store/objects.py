"""What a store of immutable objects can do, whatever it is kept on."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple, Protocol, runtime_checkable

# bytes, a memoryview, or anything with the buffer protocol, such as a pyarrow.Buffer.
Data = Any


class Stored(NamedTuple):
    """One object in a listing."""

    name: str
    size: int  # bytes
    modified: float  # seconds since 1970, by the storage's clock


# Said by name, since inside these classes `list` is a method.
Listing = list[Stored]


@runtime_checkable
class Remote(Protocol):
    """Objects that are reached by requests, each of which takes a while and is charged for."""

    @property
    def requests(self) -> int:
        """Those made so far; what the library below repeats by itself is not known here."""


class Objects(Protocol):
    """Objects under one location, each written once; calls block, and any thread may make them.

    Names are those that `check_name` takes. A call that ends with StorageUnavailable may have been
    carried out or not; every other error means that it was not.
    """

    @property
    def url(self) -> str:
        """Where the objects are, for messages."""

    def probe(self, *, write: bool = True) -> None:
        """Fail clearly if the storage is not there or refuses us; a folder is made, unless only read."""

    def put(self, name: str, data: Data) -> None:
        """Create an object; ObjectExists if there is one of that name. It is durable when this returns."""

    def put_file(self, name: str, path: str | os.PathLike[str]) -> None:
        """Create an object from a local file, in parts where it is large; otherwise as `put`."""

    def replace(self, name: str, data: Data) -> None:
        """Create or overwrite an object: only for small markers that are read afresh each time."""

    def get(self, name: str) -> bytes:
        """The whole object."""

    def fetch(self, name: str, path: str | os.PathLike[str]) -> None:
        """Copy the object into a local file, which appears whole or not at all."""

    def size(self, name: str) -> int:
        """Bytes in the object."""

    def exists(self, name: str) -> bool:
        """Whether there is an object of that name."""

    def list(self, folder: str = "") -> Listing:
        """Every object below a folder, ordered by name."""

    def delete(self, names: Iterable[str]) -> None:
        """Delete objects; those that are not there are no error."""

    def local_path(self, name: str) -> Path | None:
        """The object's own file, where it is one on this machine: to memory-map it without a copy."""

    def sync(self, folder: str = "") -> int:
        """Make files below a folder that others wrote (SlateDB) survive a loss of power; how many it was."""

    def sweep(self) -> int:
        """Remove what puts that were interrupted long ago left behind; how many files it was."""


def as_bytes(data: Data) -> memoryview:
    """The bytes of any buffer, without a copy where it is contiguous.

    >>> as_bytes(b"abc").nbytes
    3
    """
    view = memoryview(data)
    return view.cast("B") if view.contiguous else memoryview(view.tobytes())
