"""From a location to the objects that are kept there."""

from __future__ import annotations

from penstock.base.limits import STORAGE_RETRY_S_MAX
from penstock.store.local import LocalObjects
from penstock.store.location import Location
from penstock.store.memory import MemoryObjects
from penstock.store.objects import Objects


def open_objects(location: Location, *, retry_s: float = STORAGE_RETRY_S_MAX) -> Objects:
    """The objects at a location; nothing is asked of the storage yet (see `Objects.probe`).

    >>> open_objects(Location.parse("memory://example")).list()
    []
    """
    if location.scheme == "file":
        return LocalObjects(location)
    if location.scheme == "memory":
        return MemoryObjects(location)
    # Imported here: flows in memory or in a folder do not pay for loading it.
    from penstock.store.remote import RemoteObjects

    return RemoteObjects(location, retry_s=retry_s)
