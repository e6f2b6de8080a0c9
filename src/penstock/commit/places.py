"""Where the files of a flow are: enough for another process to read and write them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from penstock.base.limits import CACHE_BYTES_MAX
from penstock.commit.files import Files
from penstock.commit.scratch import Scratch
from penstock.store.cache import LocalCache, cache_folder
from penstock.store.location import Location
from penstock.store.objects import Objects
from penstock.store.open import open_objects


@dataclass(frozen=True)
class Places:
    """A flow's location, those of the flows that it branched from, and where copies of remote files go.

    >>> Places(Location.parse("memory://places")).open(session="s").session
    's'
    """

    location: Location
    parents: Sequence[str] = ()
    cache_folder: str | None = None
    cache_limit: int = CACHE_BYTES_MAX

    def open(self, scratch: Scratch | None = None, session: str | None = None) -> Files:
        """The files. Opening asks nothing of the storage."""
        options = self.location.options
        shared = [self._open_one(Location.parse(url, options)) for url in self.parents]
        return Files(*self._open_one(self.location), shared, scratch, session)

    def _open_one(self, location: Location) -> tuple[Objects, LocalCache | None]:
        """The objects at a location, and local copies of them where it is remote."""
        objects = open_objects(location)
        if not location.is_remote:
            return objects, None
        folder = Path(self.cache_folder) if self.cache_folder else cache_folder(location)
        return objects, LocalCache(objects, folder, self.cache_limit)
