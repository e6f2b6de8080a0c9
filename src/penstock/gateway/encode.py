"""Rows to DataRow messages: a plain loop for few rows, whole columns at a time for many."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.base.limits import PLAIN_ROWS_MAX
from penstock.gateway import calendar as cal
from penstock.gateway import types as t
from penstock.gateway.types import ColumnType
from penstock.gateway.values import encoder, raw

_HEAD_BYTES = 7  # D, the length, the number of columns
_FOUR_DIGIT_YEARS = (-719_162, 2_932_896)  # days of 0001-01-01 and 9999-12-31


@dataclass(frozen=True)
class Cells:
    """The values of a column: their bytes one after the other, and how many each has; -1 is NULL."""

    data: np.ndarray
    lengths: np.ndarray


def data_rows(table: pa.Table, types: Sequence[ColumnType], formats: Sequence[int]) -> bytes:
    """The messages for all rows of a table."""
    if table.num_rows < PLAIN_ROWS_MAX or not types:
        return _plain(table, types, formats)
    arrays = [_whole(column) for column in table.columns]
    cells = [column_cells(*item) for item in zip(arrays, types, formats, strict=True)]
    return _assembled(cells, table.num_rows)


def _whole(column: pa.ChunkedArray) -> pa.Array:
    array = column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()
    return pa.concat_arrays(array.chunks) if isinstance(array, pa.ChunkedArray) else array


def encoded_columns(
    table: pa.Table, types: Sequence[ColumnType], formats: Sequence[int]
) -> list[list[bytes | None]]:
    """The bytes of each value, column by column."""
    columns: list[list[bytes | None]] = []
    for column, type, format in zip(table.columns, types, formats, strict=True):
        encode = encoder(type, format)
        columns.append([None if v is None else encode(v) for v in raw(_whole(column), type)])
    return columns


def _plain(table: pa.Table, types: Sequence[ColumnType], formats: Sequence[int]) -> bytes:
    columns = encoded_columns(table, types, formats)
    count = struct.pack(">H", len(columns))
    messages = []
    for i in range(table.num_rows):
        parts = [count]
        for column in columns:
            value = column[i]
            if value is None:
                parts.append(b"\xff\xff\xff\xff")
            else:
                parts += (struct.pack(">i", len(value)), value)
        body = b"".join(parts)
        messages.append(b"D" + struct.pack(">i", len(body) + 4) + body)
    return b"".join(messages)


# -- columns ---------------------------------------------------------------------------------------


def column_cells(array: pa.Array, type: ColumnType, format: int) -> Cells:
    """The bytes of a column, vectorised where its type allows."""
    if isinstance(array, pa.ExtensionArray):
        array = array.storage
    if not type.depth:
        found = _binary(array, type) if format else _text(array, type)
        if found is not None:
            return found
    encode = encoder(type, format)
    values = [None if v is None else encode(v) for v in raw(array, type)]
    lengths = np.fromiter((-1 if v is None else len(v) for v in values), np.int64, len(values))
    return Cells(np.frombuffer(b"".join(v for v in values if v is not None), np.uint8), lengths)


def _strings(array: pa.Array) -> Cells:
    """Texts as they lie in Arrow's buffers."""
    valid = None
    if array.null_count:
        valid = array.is_valid().to_numpy(zero_copy_only=False)
        array = array.fill_null("")
    array = array.cast(pa.large_string())
    _, offsets_buffer, data_buffer = array.buffers()
    if not len(array) or data_buffer is None:
        return Cells(
            np.zeros(0, np.uint8),
            np.where(valid, 0, -1) if valid is not None else np.zeros(len(array), np.int64),
        )
    offsets = np.frombuffer(offsets_buffer, np.int64, array.offset + len(array) + 1)[array.offset :]
    lengths = np.diff(offsets)
    data = np.frombuffer(data_buffer, np.uint8)[offsets[0] : offsets[-1]]
    return Cells(data, lengths if valid is None else np.where(valid, lengths, -1))


def _text(array: pa.Array, type: ColumnType) -> Cells | None:
    p = pa.types
    if p.is_string(array.type) or p.is_large_string(array.type):
        return _strings(array)
    if p.is_integer(array.type):
        return _strings(array.cast(pa.string()))
    if p.is_boolean(array.type):
        return _strings(pc.if_else(array, "t", "f"))
    if p.is_decimal(array.type):
        texts = array.cast(pa.string())
        # Arrow writes very small numbers with an exponent, which Postgres does not.
        return None if pc.any(pc.match_substring(texts, "E")).as_py() else _strings(texts)
    if p.is_date32(array.type) and _within(array.view(pa.int32()), *_FOUR_DIGIT_YEARS):
        return _strings(array.cast(pa.string()))
    if p.is_timestamp(array.type):
        plain = array.cast(pa.timestamp("us", array.type.tz), safe=False).view(pa.int64())
        first, last = (days * cal.DAY_US for days in _FOUR_DIGIT_YEARS)
        if _within(plain, first, last):
            texts = plain.cast(pa.timestamp("us")).cast(pa.string())
            texts = pc.replace_substring_regex(texts, r"\.?0+$", "+00" if type.pg is t.TIMESTAMPTZ else "")
            if type.pg is t.TIMESTAMPTZ:
                missing = pc.invert(pc.ends_with(texts, "+00"))
                texts = pc.if_else(missing, pc.binary_join_element_wise(texts, "+00", ""), texts)
            return _strings(texts)
    return None


def _within(array: pa.Array, first: int, last: int) -> bool:
    bounds = pc.min_max(array).as_py()
    return bounds["min"] is None or (bounds["min"] >= first and bounds["max"] <= last)


_FIXED = {t.INT2: ">i2", t.INT4: ">i4", t.INT8: ">i8", t.FLOAT4: ">f4", t.FLOAT8: ">f8", t.TIME: ">i8"}


def _binary(array: pa.Array, type: ColumnType) -> Cells | None:
    p = pa.types
    if type.pg in (t.TEXT, t.JSON):
        is_text = p.is_string(array.type) or p.is_large_string(array.type)
        return _strings(array) if is_text else None
    valid = None
    if array.null_count:
        valid = array.is_valid().to_numpy(zero_copy_only=False)
    if type.pg is t.BOOL:
        values = array.fill_null(False).to_numpy(zero_copy_only=False).astype(np.uint8)
    elif type.pg in _FIXED and not p.is_null(array.type):
        if type.pg is t.TIME:
            array = array.cast(pa.time64("us"), safe=False).view(pa.int64())
        values = array.fill_null(0).to_numpy(zero_copy_only=False).astype(_FIXED[type.pg])
    else:
        return None
    kept = values if valid is None else values[valid]
    lengths = np.full(len(values), values.dtype.itemsize, np.int64)
    return Cells(kept.view(np.uint8), lengths if valid is None else np.where(valid, lengths, -1))


# -- messages --------------------------------------------------------------------------------------


def _assembled(columns: Sequence[Cells], rows: int) -> bytes:
    """Every value to its place in one buffer."""
    sizes = np.full(rows, _HEAD_BYTES + 4 * len(columns), np.int64)
    for cells in columns:
        sizes += np.maximum(cells.lengths, 0)
    ends = np.cumsum(sizes)
    starts = ends - sizes
    out = np.empty(int(ends[-1]), np.uint8)
    out[starts] = ord("D")
    _put(out, starts + 1, (sizes - 1).astype(">i4"))
    _put(out, starts + 5, np.full(rows, len(columns), ">u2"))
    places = starts + _HEAD_BYTES
    for cells in columns:
        _put(out, places, cells.lengths.astype(">i4"))
        places = places + 4
        lengths = np.maximum(cells.lengths, 0)
        if len(cells.data):
            before = np.cumsum(lengths) - lengths
            out[np.repeat(places - before, lengths) + np.arange(len(cells.data))] = cells.data
        places = places + lengths
    return out.tobytes()


def _put(out: np.ndarray, places: np.ndarray, values: np.ndarray) -> None:
    """Numbers of a fixed width, byte by byte."""
    width = values.dtype.itemsize
    pieces = np.ascontiguousarray(values).view(np.uint8).reshape(-1, width)
    for i in range(width):
        out[places + i] = pieces[:, i]
