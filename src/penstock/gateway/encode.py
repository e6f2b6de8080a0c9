"""Rows to DataRow messages: a plain loop for few rows, whole columns at a time for many."""

from __future__ import annotations

import struct
from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.base.limits import PLAIN_ROWS_MAX
from penstock.gateway import calendar as cal
from penstock.gateway import types as t
from penstock.gateway.assemble import Column, row_messages
from penstock.gateway.blocks import block
from penstock.gateway.types import ColumnType
from penstock.gateway.values import encoder, raw

_FOUR_DIGIT_YEARS = (-719_162, 2_932_896)  # days of 0001-01-01 and 9999-12-31


def data_rows(
    table: pa.Table, types: Sequence[ColumnType], formats: Sequence[int], kind: bytes = b"D"
) -> bytes:
    """The messages for all rows of a table; `kind` is D for DataRow, d for CopyData in COPY's binary form."""
    if table.num_rows < PLAIN_ROWS_MAX or not types:
        return _plain(table, types, formats, kind)
    arrays = [_whole(column) for column in table.columns]
    cells = [_cells(*item) for item in zip(arrays, types, formats, strict=True)]
    return row_messages(kind, [c for c, _ in cells], [lengths for _, lengths in cells], table.num_rows)


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


def _plain(table: pa.Table, types: Sequence[ColumnType], formats: Sequence[int], kind: bytes) -> bytes:
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
        messages.append(kind + struct.pack(">i", len(body) + 4) + body)
    return b"".join(messages)


# -- columns ---------------------------------------------------------------------------------------


def _cells(array: pa.Array, type: ColumnType, format: int) -> tuple[Column, np.ndarray]:
    """The bytes of a column and their lengths, vectorised where its type allows."""
    if isinstance(array, pa.ExtensionArray):
        array = array.storage
    found = block(array, type) if format else None
    if found is not None:
        return found, found.lengths
    texts = None if type.depth else _binary_texts(array, type) if format else _texts(array, type)
    if texts is None:
        encode = encoder(type, format)
        values = [None if v is None else encode(v) for v in raw(array, type)]
        texts = pa.array(values, pa.large_binary())
    return _without_nulls(texts.cast(pa.large_binary()))


def _without_nulls(texts: pa.Array) -> tuple[pa.Array, np.ndarray]:
    valid = None
    if texts.null_count:
        valid = texts.is_valid().to_numpy(zero_copy_only=False)
        texts = texts.fill_null(b"")
    ends = np.frombuffer(texts.buffers()[1], np.int64)[texts.offset : texts.offset + len(texts) + 1]
    lengths = np.diff(ends)
    return texts, lengths if valid is None else np.where(valid, lengths, -1)


def _texts(array: pa.Array, type: ColumnType) -> pa.Array | None:
    p = pa.types
    if p.is_string(array.type) or p.is_large_string(array.type):
        return array
    if p.is_integer(array.type):
        return array.cast(pa.string())
    if p.is_boolean(array.type):
        return pc.if_else(array, "t", "f")
    if p.is_date32(array.type) and _within(array.view(pa.int32()), *_FOUR_DIGIT_YEARS):
        return array.cast(pa.string())
    if p.is_decimal(array.type):
        texts = array.cast(pa.string())
        # Arrow writes very small numbers with an exponent, which Postgres does not.
        return None if pc.any(pc.match_substring(texts, "E")).as_py() else texts
    if p.is_timestamp(array.type):
        plain = array.cast(pa.timestamp("us", array.type.tz), safe=False).view(pa.int64())
        first, last = (days * cal.DAY_US for days in _FOUR_DIGIT_YEARS)
        if _within(plain, first, last):
            texts = plain.cast(pa.timestamp("us")).cast(pa.string())
            texts = pc.replace_substring_regex(texts, r"\.?0+$", "+00" if type.pg is t.TIMESTAMPTZ else "")
            if type.pg is t.TIMESTAMPTZ:
                missing = pc.invert(pc.ends_with(texts, "+00"))
                texts = pc.if_else(missing, pc.binary_join_element_wise(texts, "+00", ""), texts)
            return texts
    return None


def _within(array: pa.Array, first: int, last: int) -> bool:
    bounds = pc.min_max(array).as_py()
    return bounds["min"] is None or (bounds["min"] >= first and bounds["max"] <= last)


def _binary_texts(array: pa.Array, type: ColumnType) -> pa.Array | None:
    p = pa.types
    if type.pg in (t.TEXT, t.JSON):
        return array if p.is_string(array.type) or p.is_large_string(array.type) else None
    return (
        array if type.pg is t.BYTEA and (p.is_binary(array.type) or p.is_large_binary(array.type)) else None
    )
