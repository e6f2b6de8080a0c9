"""Whether a tick has been applied before: by the offset of its source, or by the key that it came with."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from penstock.base.errors import InvalidDelta
from penstock.commit.once import Offset, Once
from penstock.engine.catalog import Table
from penstock.sql.tokens import fold


class Applied:
    """What one tick says about itself. `epoch` is the one that its key made before, if it did."""

    def __init__(self, once: Once, offset: Offset | Mapping[str, Offset] | None, key: str | None) -> None:
        self._once = once
        self._offset = {fold(n): o for n, o in offset.items()} if isinstance(offset, Mapping) else offset
        self._key = key
        self._offsets: dict[int, Offset] = {}
        self.epoch = None if key is None else once.epoch_of_key(key)

    def check(self, tables: Iterable[str]) -> None:
        """Raise if an offset is given for what has no delta: it would be lost."""
        if isinstance(self._offset, Mapping):
            idle = self._offset.keys() - {fold(name) for name in tables}
            for name in sorted(idle):
                raise InvalidDelta(
                    f'"{name}" has an offset but no delta', hint=f'Give it an empty one: {{"{name}": []}}.'
                )

    def has(self, table: Table) -> bool:
        """Whether the table's source was read up to this tick's offset; if not, it will be."""
        if self._offset is None:
            return False
        offset: Any = self._offset
        if isinstance(offset, Mapping):
            if fold(table.name) not in offset:
                raise InvalidDelta(
                    f'"{table.name}" has a delta but no offset',
                    hint="Give the offset of each, or one for all.",
                )
            offset = offset[fold(table.name)]
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
