"""Columns to Arrow and back: the only file that knows how each representation maps."""

from __future__ import annotations

import uuid
from decimal import Context, Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.base.errors import NumericOutOfRange, TypeMismatch
from penstock.zset import types as t
from penstock.zset.column import Column, narrow, with_nulls
from penstock.zset.types import SqlType

_MASK64 = (1 << 64) - 1
_DIGITS = Context(prec=76)  # Python's own 28 are too few for decimals of 38
_QUANTA = [Decimal(1).scaleb(-scale) for scale in range(39)]


def sql_type_of(arrow: pa.DataType) -> SqlType:
    """The SQL type that an Arrow type stands for.

    >>> sql_type_of(pa.int64()), sql_type_of(pa.decimal128(12, 2)).duck
    (SqlType(id='BIGINT', width=0, scale=0, children=()), 'DECIMAL(12,2)')
    """
    p = pa.types
    if isinstance(arrow, pa.BaseExtensionType):
        if arrow.extension_name == "arrow.uuid":
            return t.UUID
        if arrow.extension_name == "arrow.json":
            return t.JSON
        return sql_type_of(arrow.storage_type)
    if p.is_decimal(arrow):
        if arrow.precision > 38:
            raise TypeMismatch(f"{arrow} has more than 38 digits", hint="Use decimal128(38, s) or less.")
        return t.decimal(arrow.precision, arrow.scale)
    if p.is_integer(arrow):
        return t.by_name(_INTEGER_NAMES[arrow.bit_width, p.is_signed_integer(arrow)])  # type: ignore[return-value]
    if p.is_dictionary(arrow):
        return sql_type_of(arrow.value_type)
    if p.is_timestamp(arrow):
        return t.TIMESTAMP if arrow.tz is None else t.TIMESTAMPTZ
    if p.is_list(arrow) or p.is_large_list(arrow) or p.is_fixed_size_list(arrow):
        return t.list_of(sql_type_of(arrow.value_type))
    if p.is_map(arrow):
        return t.map_of(sql_type_of(arrow.key_type), sql_type_of(arrow.item_type))
    if p.is_struct(arrow):
        return t.struct_of(tuple((f.name, sql_type_of(f.type)) for f in arrow))
    for test, found in _SIMPLE:
        if test(arrow):
            return found
    raise TypeMismatch(f"Arrow type {arrow} has no SQL type here", hint="Cast the column first.")


_INTEGER_NAMES = {
    (8, True): "TINYINT", (16, True): "SMALLINT", (32, True): "INTEGER", (64, True): "BIGINT",
    (8, False): "UTINYINT", (16, False): "USMALLINT", (32, False): "UINTEGER", (64, False): "UBIGINT",
}  # fmt: skip
_SIMPLE = (
    (pa.types.is_boolean, t.BOOLEAN),
    (pa.types.is_float16, t.FLOAT),
    (pa.types.is_float32, t.FLOAT),
    (pa.types.is_float64, t.DOUBLE),
    (pa.types.is_date, t.DATE),
    (pa.types.is_time, t.TIME),
    (pa.types.is_string, t.VARCHAR),
    (pa.types.is_large_string, t.VARCHAR),
    (pa.types.is_string_view, t.VARCHAR),
    (pa.types.is_binary, t.BLOB),
    (pa.types.is_large_binary, t.BLOB),
    (pa.types.is_fixed_size_binary, t.BLOB),
    (pa.types.is_binary_view, t.BLOB),
    (pa.types.is_interval, t.INTERVAL),
    (pa.types.is_duration, t.INTERVAL),
    (pa.types.is_null, t.NULL),
)


def from_arrow(array: pa.Array | pa.ChunkedArray, type: SqlType) -> Column:
    """An Arrow array of any fitting type as a column of the SQL type; raises pa.ArrowInvalid if it does not fit."""
    if isinstance(array, pa.ChunkedArray):
        array = array.combine_chunks() if array.num_chunks != 1 else array.chunk(0)
    if isinstance(array, pa.ExtensionArray):
        array = _from_uuid(array) if array.type.extension_name == "arrow.uuid" else array.storage
    if array.type != type.arrow:
        array = _cast(array, type)
    if type.kind == "arrow":
        return Column(type, array)
    if len(array) == 0:
        return Column(type, np.zeros(0, type.numpy))
    valid = None if array.null_count == 0 else array.is_valid().to_numpy(zero_copy_only=False)
    return with_nulls(type, _fixed_values(array, type), valid)


def _cast(array: pa.Array, type: SqlType) -> pa.Array:
    if pa.types.is_string(array.type) and type.id == "VARCHAR":
        return _widened(array)
    if type.id == "UUID" and pa.types.is_fixed_size_binary(array.type):
        return _from_uuid(array)
    if type.id == "DECIMAL" and pa.types.is_integer(array.type):
        array = array.cast(pa.decimal128(38, 0)).cast(pa.decimal128(38, type.scale))
    if type.id == "DECIMAL" and (pa.types.is_floating(array.type) or pa.types.is_string(array.type)):
        return _decimals(array.to_pylist(), type)
    if pa.types.is_duration(array.type):
        nanos = array.cast(pa.duration("ns")).cast(pa.int64()).to_pylist()
        return pa.array([None if n is None else pa.MonthDayNano([0, 0, n]) for n in nanos], type.arrow)
    return array.cast(type.arrow)


def _widened(array: pa.Array) -> pa.Array:
    """Texts with 64-bit offsets, over the same bytes: a third of what Arrow's cast takes for a small delta.

    >>> _widened(pa.array(["a", "bc", None, "d"])[1:]).to_pylist()
    ['bc', None, 'd']
    """
    validity, offsets, data = array.buffers()
    if not len(array) or data is None:  # Arrow allows the buffers to be missing then
        return array.cast(pa.large_string())
    wide = np.frombuffer(offsets, np.int32, len(array) + array.offset + 1).astype(np.int64)
    buffers = [validity, pa.py_buffer(wide), data]
    return pa.Array.from_buffers(pa.large_string(), len(array), buffers, array.null_count, array.offset)


def _decimals(values: list[Any], type: SqlType) -> pa.Array:
    """Floats and texts as decimals, rounded to the scale as SQL does (half away from zero)."""
    return pa.array([None if v is None else rounded(v, type) for v in values], type.arrow)


def rounded(value: float | str, type: SqlType) -> Decimal:
    """A number as a decimal of the type's scale. Raises ArithmeticError if it is none, or far too large.

    >>> rounded(1.005, t.decimal(6, 2))
    Decimal('1.01')
    """
    number = Decimal(str(value))
    if not number.is_finite():
        raise ArithmeticError(f"{value} is no number")
    return number.quantize(_QUANTA[type.scale], "ROUND_HALF_UP", _DIGITS)


def _from_uuid(array: pa.Array) -> pa.Array:
    storage = array.storage if isinstance(array, pa.ExtensionArray) else array
    texts = [None if v is None else str(uuid.UUID(bytes=v)) for v in storage.to_pylist()]
    return pa.array(texts, pa.large_string())


def _fixed_values(array: pa.Array, type: SqlType) -> np.ndarray:
    """The bare values of an array of exactly the type's Arrow type; anything may stand under a NULL."""
    if type.id == "BOOLEAN":
        return array.fill_null(False).to_numpy(zero_copy_only=False)
    if type.id in ("DECIMAL", "HUGEINT"):
        return _decimal_values(array, type)
    return np.frombuffer(array.buffers()[1], type.numpy, len(array) + array.offset)[array.offset :]


def _decimal_values(array: pa.Array, type: SqlType) -> np.ndarray:
    halves = np.frombuffer(array.buffers()[1], np.int64, 2 * (len(array) + array.offset))[2 * array.offset :]
    low, high = halves[0::2], halves[1::2]
    if array.null_count:
        valid = array.is_valid().to_numpy(zero_copy_only=False)
        low, high = np.where(valid, low, 0), np.where(valid, high, 0)
    if (high == low >> 63).all():
        return np.ascontiguousarray(low)
    wide = np.empty(len(array), object)
    wide[:] = [(int(h) << 64) | (int(lo) & _MASK64) for h, lo in zip(high, low, strict=True)]
    _check_digits(wide.tolist(), type)  # Arrow does not look, and DuckDB's HUGEINT goes a little beyond
    return wide


def to_arrow(column: Column) -> pa.Array:
    """The column as an Arrow array of its type's Arrow type."""
    type = column.type
    if type.kind == "arrow":
        return column.values
    count = len(column)
    validity = None
    null_count = 0
    if column.valid is not None:
        null_count = int(count - np.count_nonzero(column.valid))
        validity = pa.py_buffer(np.packbits(column.valid, bitorder="little"))
    if type.id == "BOOLEAN":
        bits = pa.py_buffer(np.packbits(column.values, bitorder="little"))
        return pa.Array.from_buffers(type.arrow, count, [validity, bits], null_count)
    values = np.ascontiguousarray(column.values)
    if type.id in ("DECIMAL", "HUGEINT"):
        values = _decimal_halves(values, type)
    return pa.Array.from_buffers(type.arrow, count, [validity, pa.py_buffer(values)], null_count)


def _decimal_halves(values: np.ndarray, type: SqlType) -> np.ndarray:
    halves = np.empty(2 * len(values), np.int64)
    values = narrow(values)
    if values.dtype != object:
        halves[0::2] = values
        halves[1::2] = values >> 63
        return halves
    wide = values.tolist()
    _check_digits(wide, type)
    for i, value in enumerate(wide):
        low = value & _MASK64
        halves[2 * i] = low - (1 << 64) if low >> 63 else low
        halves[2 * i + 1] = value >> 64
    return halves


def _check_digits(values: list[int], type: SqlType) -> None:
    """Raise if a value has more digits than its type."""
    bound = 10**38 if type.id == "HUGEINT" else 10**type.width
    for value in values:
        if not -bound < value < bound:
            raise NumericOutOfRange(f"a value of {len(str(abs(value)))} digits does not fit {type}")


def export_type(type: SqlType) -> pa.DataType:
    """The Arrow type that users get: plain `string` and `list`, since few tools want the large ones."""
    return _plain(type.arrow)


def _plain(arrow: pa.DataType) -> pa.DataType:
    if pa.types.is_large_string(arrow):
        return pa.string()
    if pa.types.is_large_binary(arrow):
        return pa.binary()
    if pa.types.is_large_list(arrow):
        return pa.list_(_plain(arrow.value_type))
    if pa.types.is_struct(arrow):
        return pa.struct([pa.field(f.name, _plain(f.type)) for f in arrow])
    return arrow


def export(column: Column) -> pa.Array | pa.ChunkedArray:
    """The column as users get it."""
    array = to_arrow(column)
    if column.type.kind != "arrow":
        return array  # numbers have no larger type
    plain = export_type(column.type)
    if array.type == plain:
        return array
    if array.nbytes > 2**31 - 1:
        return array  # too long for 32-bit offsets: the large type it is
    return pc.cast(array, plain)


def export_weights(weights: np.ndarray) -> pa.Array:
    """Weights as users get them: what pa.array gives, at a third of what that takes for a few."""
    return pa.Array.from_buffers(
        pa.int64(), len(weights), [None, pa.py_buffer(np.ascontiguousarray(weights))], 0
    )
