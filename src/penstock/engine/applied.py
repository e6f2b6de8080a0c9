"""Whether a tick has been applied before: by the offset of its source, or by the key that it came with."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from penstock.base.errors import InvalidDelta
from penstock.commit.once import Offset, Once
from penstock.engine.catalog import Table


class Applied:
    """What one tick says about itself. `epoch` is the one that its key made before, if it did."""

    def __init__(self, once: Once, offset: Offset | Mapping[str, Offset] | None, key: str | None) -> None:
        self._once = once
        self._offset = offset
        self._key = key
        self._offsets: dict[int, Offset] = {}
        self.epoch = None if key is None else once.epoch_of_key(key)

    def has(self, table: Table) -> bool:
        """Whether the table's source was read up to this tick's offset; if not, it will be."""
        if self._offset is None:
            return False
        offset: Any = self._offset
        if isinstance(offset, Mapping):
            if table.name not in offset:
                raise InvalidDelta(f'the offsets name no offset of "{table.name}"')
            offset = offset[table.name]
        if self._once.has_offset(table.id, offset):
            return True
        self._offsets[table.id] = offset
        return False

    def note(self, note: dict[str, Any]) -> None:
        """Add to an epoch's note what must be remembered with it."""
        if self._offsets:
            note["offsets"] = self._offsets
        if self._key is not None:
            note["key"] = self._key
