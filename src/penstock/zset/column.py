"""One column of a Z-set: its values and which of them are NULL.

A `Column` holds a numpy array for fixed-width and wide types (with a mask, or None where nothing
is NULL) and a pyarrow array for the others (which knows its own NULLs). The value under a NULL in
a numpy array is always zero, so that equality and hashing never see leftovers.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.zset.types import SqlType

_INT64 = pa.int64()
_TEXTS = (pa.large_string(), pa.large_binary())
INT64_MIN, INT64_MAX = -(2**63), 2**63 - 1

# One row of a short array is taken as a slice: a tenth of the cost of take. A slice keeps the whole
# array in memory, so not of long ones.
_SLICED_ROWS_MAX = 1024


# The array itself, where its offsets, bytes and validity bits lie (0: there are none), the first row in them, and
# the number of rows. The array is among them so that nobody has the addresses of memory that has gone.
TextBuffers = tuple[pa.Array, int, int, int, int, int]


class Column:
    """Values of one SQL type. Never changed after it is made."""

    __slots__ = ("_text", "type", "valid", "values")

    parts: Any = None  # of text that compiled code has made (zset/made_text.py)
    _text: TextBuffers  # what text_buffers() has told: of text that compiled code has seen

    def __init__(self, type: SqlType, values: Any, valid: np.ndarray | None = None) -> None:
        self.type = type
        self.values = values  # np.ndarray, or pa.Array where type.kind == "arrow"
        self.valid = valid  # np.ndarray of bool, True where a value is there; None: nowhere NULL

    def __len__(self) -> int:
        return len(self.values)

    def take(self, index: np.ndarray) -> Column:
        """The rows at these positions."""
        if self.type.kind == "arrow":
            if len(index) == 1 and len(self.values) <= _SLICED_ROWS_MAX:
                at = int(index[0])
                return Column(self.type, self.values.slice(at, 1))
            return Column(self.type, take_arrow(self.values, as_indices(index)))
        valid = self.valid
        return Column(self.type, self.values[index], None if valid is None else valid[index])

    def filter(self, mask: np.ndarray) -> Column:
        """The rows where the mask is true."""
        if self.type.kind == "arrow":
            return Column(self.type, self.values.filter(pa.array(mask)))
        valid = self.valid
        return Column(self.type, self.values[mask], None if valid is None else valid[mask])

    def slice(self, start: int, stop: int) -> Column:
        """Rows start to stop, without a copy."""
        if self.type.kind == "arrow":
            return Column(self.type, self.values.slice(start, max(0, stop - start)))
        valid = self.valid
        return Column(self.type, self.values[start:stop], None if valid is None else valid[start:stop])

    def validity(self) -> np.ndarray | None:
        """True where a value is there; None where nothing is NULL, whatever the representation."""
        if self.type.kind != "arrow":
            return self.valid
        if self.values.null_count == 0:
            return None
        return self.values.is_valid().to_numpy(zero_copy_only=False)

    def null_count(self) -> int:
        """How many values of an Arrow column are NULL."""
        return int(self.values.null_count)

    def is_null(self) -> np.ndarray:
        """True where the value is NULL."""
        valid = self.validity()
        return np.zeros(len(self), np.bool_) if valid is None else ~valid

    def text_buffers(self) -> TextBuffers:
        """For compiled code: where text lies. Raises TypeError if the values are of another kind."""
        array = self.values
        arrow = self.type.arrow
        if arrow not in _TEXTS or not isinstance(array, pa.Array) or array.type != arrow:
            raise TypeError(f"{self.type} is not held as text")
        validity, offsets, data = array.buffers()
        if offsets is not None and offsets.address % 8:
            raise TypeError("offsets that lie across words")
        self._text = (
            array,
            offsets.address if offsets is not None else 0,
            data.address if data is not None else 0,
            validity.address if validity is not None and array.null_count else 0,
            array.offset,
            len(array),
        )
        return self._text

    def __reduce__(self) -> tuple[Any, ...]:
        # A copy has memory of its own: the addresses in `_text` must not go with it.
        return Column, (self.type, self.values, self.valid)

    def nbytes(self) -> int:
        """Bytes of memory that the values take."""
        if self.type.kind == "arrow":
            return int(self.values.nbytes)
        size = self.values.nbytes + (0 if self.valid is None else self.valid.nbytes)
        if self.values.dtype == object:
            size += 40 * len(self.values)  # the integers themselves
        return int(size)

    def settle(self) -> None:
        """Hold on to no more than the column's own rows: for columns that are kept."""

    def to_pylist(self) -> list[Any]:
        """Python values as pyarrow gives them: for messages and tests, never for work."""
        from penstock.zset.interchange import to_arrow

        return to_arrow(self).to_pylist()

    def __repr__(self) -> str:
        return f"Column({self.type}, {self.to_pylist()!r})"


# Called without pyarrow's Python wrappers, which cost as much as taking a hundred rows does.
_ARRAY_TAKE = pc.get_function("array_take")
_TAKE_OPTIONS = pc.TakeOptions(boundscheck=True)


def take_arrow(values: pa.Array, indices: pa.Array) -> pa.Array:
    """The rows of an Arrow array at these positions."""
    return _ARRAY_TAKE.call([values, indices], _TAKE_OPTIONS)


def as_indices(index: np.ndarray) -> pa.Array:
    """Positions in the form that Arrow takes, without a copy where possible."""
    if index.dtype != np.int64 or not index.flags.c_contiguous:
        return pa.array(index)
    return pa.Array.from_buffers(_INT64, len(index), [None, pa.py_buffer(index)], 0)


def concat(columns: Sequence[Column]) -> Column:
    """One column below the other. All have the same type.

    >>> from penstock.zset.types import BIGINT
    >>> concat([from_pylist(BIGINT, [1]), from_pylist(BIGINT, [None, 3])])
    Column(BIGINT, [1, None, 3])
    """
    if len(columns) == 1:
        return columns[0]
    type = columns[0].type
    if type.kind == "arrow":
        return Column(type, pa.concat_arrays([c.values for c in columns]))
    values = np.concatenate([c.values for c in columns])
    if all(c.valid is None for c in columns):
        return Column(type, values)
    return Column(type, values, np.concatenate([_mask(c) for c in columns]))


def _mask(column: Column) -> np.ndarray:
    return np.ones(len(column.values), np.bool_) if column.valid is None else column.valid


def with_nulls(type: SqlType, values: np.ndarray, valid: np.ndarray | None) -> Column:
    """A numpy column in normal form: zero under every NULL, no mask where nothing is NULL."""
    if valid is None or valid.all():
        return Column(type, values)
    return Column(type, np.where(valid, values, _zero(values)), valid)


def _zero(values: np.ndarray) -> Any:
    return 0 if values.dtype == object else values.dtype.type(0)


def narrow(values: np.ndarray) -> np.ndarray:
    """Python integers as int64 where every one fits: the common and the fast case."""
    if values.dtype != object:
        return values
    if len(values) and (min(values) < INT64_MIN or max(values) > INT64_MAX):
        return values
    return values.astype(np.int64)


def nulls(type: SqlType, count: int) -> Column:
    """A column of NULLs."""
    if type.kind == "arrow":
        return Column(type, pa.nulls(count, type.arrow))
    return Column(type, np.zeros(count, type.numpy), np.zeros(count, np.bool_))


def empty(type: SqlType) -> Column:
    """A column without rows."""
    if type.kind == "arrow":
        return Column(type, pa.array([], type.arrow))
    return Column(type, np.zeros(0, type.numpy))


def constant(type: SqlType, value: Any, count: int) -> Column:
    """The same value (in the form that `plan.expr.Const` holds) in every row.

    >>> from penstock.zset.types import VARCHAR, decimal
    >>> constant(VARCHAR, "x", 2)
    Column(VARCHAR, ['x', 'x'])
    >>> constant(decimal(12, 2), 150, 1)
    Column(DECIMAL(12,2), [Decimal('1.50')])
    """
    if value is None:
        return nulls(type, count)
    if type.kind == "arrow":
        return Column(type, pa.repeat(pa.scalar(_arrow_value(type, value), type.arrow), count))
    if type.kind == "wide" and not INT64_MIN <= value <= INT64_MAX:
        values = np.empty(count, object)
        values[:] = value
        return Column(type, values)
    return Column(type, np.full(count, value, type.numpy))


def _arrow_value(type: SqlType, value: Any) -> Any:
    if value is None:
        return None
    if type.id == "INTERVAL":
        months, days, micros = value
        return pa.MonthDayNano([months, days, micros * 1000])
    if type.id in ("LIST", "ARRAY"):
        return [_logical_value(type.children[0][1], v) for v in value]
    if type.id == "STRUCT":
        return {n: _logical_value(t, v) for (n, t), v in zip(type.children, value, strict=True)}
    if type.id == "MAP":
        (_, key), (_, item) = type.children
        return [(_logical_value(key, k), _logical_value(item, v)) for k, v in value]
    return value


def _logical_value(type: SqlType, value: Any) -> Any:
    """A value inside a nested one, in the form that pyarrow takes for it."""
    if type.kind == "arrow":
        return _arrow_value(type, value)
    return constant(type, value, 1).to_pylist()[0]


def from_pylist(type: SqlType, values: Sequence[Any]) -> Column:
    """A column from Python values (Decimal, date, datetime, ...) as pyarrow reads them."""
    from penstock.zset.interchange import from_arrow

    return from_arrow(pa.array(values, type.arrow), type)


def is_in_order(values: np.ndarray) -> bool:
    """True where a numpy array ascends."""
    return bool((values[1:] >= values[:-1]).all())


def equal_rows(left: Column, right: Column) -> np.ndarray:
    """Row by row: the same value, or NULL on both sides. NaN equals NaN, -0.0 equals 0.0."""
    if left.type.kind == "arrow":
        return _equal_arrow(left.values, right.values)
    a, b = left.values, right.values
    same = a == b
    if same.dtype == object:
        same = same.astype(np.bool_)
    if a.dtype.kind == "f":
        same |= (a != a) & (b != b)
    if left.valid is not None or right.valid is not None:
        same &= _mask(left) == _mask(right)
    return same


def same_value(left: Column, i: int, right: Column, j: int) -> bool:
    """`equal_rows` for one row of each: a tick of one row asks this often."""
    if left.type.kind == "arrow":
        return bool(equal_rows(left.slice(i, i + 1), right.slice(j, j + 1))[0])
    valid = left.valid is None or bool(left.valid[i])
    if valid != (right.valid is None or bool(right.valid[j])):
        return False
    a, b = left.values[i], right.values[j]
    return bool(a == b or (a != a and b != b))


def _equal_arrow(a: pa.Array, b: pa.Array) -> np.ndarray:
    if pa.types.is_nested(a.type) or pa.types.is_interval(a.type) or pa.types.is_null(a.type):
        pairs = zip(a.to_pylist(), b.to_pylist(), strict=True)
        # By their text too, as they are hashed: Python takes no NaN inside a list for equal to another.
        return np.array([x == y or repr(x) == repr(y) for x, y in pairs], np.bool_)
    same = pc.equal(a, b)
    if same.null_count:
        both = pc.and_(a.is_null(), b.is_null())
        same = pc.if_else(both, True, same).fill_null(False)
    return same.to_numpy(zero_copy_only=False)
