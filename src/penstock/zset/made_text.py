"""Text as compiled code makes it: an Arrow array only when somebody asks for one."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from penstock.native import kernels
from penstock.zset.column import Column
from penstock.zset.types import SqlType

Parts = tuple[
    np.ndarray, bytes, bytes | None, int
]  # offsets, bytes, bitmap of what is there, how many are NULL


class MadeText(Column):
    """Text in memory of its own. Compiled code reads its parts as they are.

    Most text of a delta is sorted, compared, stored and merged, and no view looks at it: an Arrow array for each
    of these steps would cost more than the step.

    >>> from penstock.zset.types import VARCHAR
    >>> text = MadeText(VARCHAR, 2, (np.array([0, 1, 3]), b"xyz", None, 0))
    >>> text, text.values.type
    (Column(VARCHAR, ['x', 'yz']), DataType(large_string))
    """

    __slots__ = ("_array", "_count", "parts")

    parts: Parts

    def __init__(self, type: SqlType, count: int, parts: Parts) -> None:
        self.type = type
        self.valid = None
        self.parts = parts
        self._count = count
        self._array: pa.Array | None = None

    @property
    def values(self) -> Any:
        if self._array is None:
            offsets, data, bits, nulls = self.parts
            buffers = [pa.py_buffer(bits) if nulls else None, pa.py_buffer(offsets), pa.py_buffer(data)]
            self._array = pa.Array.from_buffers(self.type.arrow, self._count, buffers, nulls)
        return self._array

    def __len__(self) -> int:
        return self._count

    def take(self, index: np.ndarray) -> Column:
        try:
            return MadeText(self.type, len(index), kernels.take([self], index)[0])
        except (TypeError, IndexError, AttributeError):  # as take_columns has it; or no compiled code here
            return super().take(index)

    def validity(self) -> np.ndarray | None:
        return None if self.parts[3] == 0 else super().validity()

    def null_count(self) -> int:
        return self.parts[3]

    def nbytes(self) -> int:
        offsets, data, bits, nulls = self.parts
        return offsets.nbytes + len(data) + (len(bits) if bits is not None and nulls else 0)


def made(type: SqlType, count: int, parts: tuple[Any, ...]) -> Column:
    """A column from what compiled code gives: (values, mask), or the parts of text."""
    return Column(type, parts[0], parts[1]) if len(parts) == 2 else MadeText(type, count, parts)
