"""Answers that need no DuckDB as results: encoded from the state's own columns, and what is the same each time kept."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from penstock.base.limits import ENCODE_ROWS_MAX
from penstock.engine.at_once import Found
from penstock.engine.point_read import PointRead
from penstock.gateway import backend as b
from penstock.gateway.encode import data_rows
from penstock.gateway.portals import Portal
from penstock.gateway.result import Result, answer_types, check_announced, fields, spread
from penstock.gateway.types import ColumnType, column_type
from penstock.gateway.values import Encoder, encoder, raw
from penstock.zset.column import Column
from penstock.zset.interchange import to_arrow

_COUNT = struct.Struct(">H").pack
_LENGTH = struct.Struct(">i").pack
_NULL = b"\xff\xff\xff\xff"
_NO_ROWS = pa.table({})


@dataclass(frozen=True)
class Shape:
    """What all answers to one statement have in common, for the formats of one Bind."""

    read: PointRead | None  # another one, when what is defined has changed: its columns may be others
    names: list[str]
    types: list[ColumnType]
    formats: list[int]
    encoders: list[Encoder]
    description: bytes
    fixed: bytes | None  # the rows, if they are always the same


def at_once_result(portal: Portal, found: Found | pa.Table) -> Result:
    """The rows of `Session.at_once` as a result."""
    shapes, formats = portal.prepared.shapes, portal.formats
    shape = shapes.get(formats)
    if shape is None or (isinstance(found, Found) and found.read is not shape.read):
        shape = shapes[formats] = _shape(portal, found)
    return AtOnceResult(shape, found)


def _shape(portal: Portal, found: Found | pa.Table) -> Shape:
    if isinstance(found, Found):
        schema = found.read.schema
        names, types = list(schema.names), [column_type(t.duck) for t in schema.types]
    else:
        names, types = found.column_names, answer_types(found)
    check_announced(portal.announced, types)
    each = spread(portal.formats, len(types))
    columns = list(zip(names, types, strict=True))
    return Shape(
        found.read if isinstance(found, Found) else None, names, types, each,
        [encoder(t, f) for t, f in zip(types, each, strict=True)],
        b.row_description(fields(columns, each)), None if isinstance(found, Found) else data_rows(found, types, each),
    )  # fmt: skip


class AtOnceResult(Result):
    """It becomes an Arrow table only where somebody wants it in portions."""

    def __init__(self, shape: Shape, found: Found | pa.Table) -> None:
        self._shape = shape
        self._found = found
        self._table: pa.Table | None = None
        self.names, self.types, self.formats = shape.names, shape.types, shape.formats
        self.more, self.at, self._place, self._portion = None, 0, 0, ENCODE_ROWS_MAX

    @property
    def description(self) -> bytes:
        return self._shape.description

    @property
    def table(self) -> pa.Table:
        if self._table is None:
            found = self._found
            self._table = found.table if isinstance(found, Found) else found
        return self._table

    @table.setter
    def table(self, table: pa.Table) -> None:
        self._table = table

    @property
    def at_hand(self) -> float:
        if self._table is not None:
            return super().at_hand
        return len(self._found.rows) if isinstance(self._found, Found) else self._found.num_rows

    def close(self) -> None:
        self._table = _NO_ROWS

    def fetch(self, count: int | None) -> Iterator[bytes]:
        found = self._found
        if count is not None or self._table is not None:
            yield from super().fetch(count)
        elif self._shape.fixed is not None:
            assert not isinstance(found, Found)
            self.at, self._table = found.num_rows, _NO_ROWS  # they are given
            yield self._shape.fixed
        elif (found.rows.weights != 1).any():
            yield from super().fetch(count)
        else:
            self.at, self._table = len(found.rows), _NO_ROWS
            yield self._encoded(found.rows.columns)

    def _encoded(self, columns: tuple[Column, ...]) -> bytes:
        head = _COUNT(len(columns))
        encoded = []
        for column, type, encode in zip(columns, self.types, self._shape.encoders, strict=True):
            encoded.append([None if v is None else encode(v) for v in _values(column, type)])
        messages = []
        for row in zip(*encoded, strict=True):
            parts = [head]
            for value in row:
                parts += (_NULL,) if value is None else (_LENGTH(len(value)), value)
            body = b"".join(parts)
            messages.append(b"D" + _LENGTH(len(body) + 4) + body)
        return b"".join(messages)


def _values(column: Column, type: ColumnType) -> list[Any]:
    """The values as encoders take them."""
    if column.type.kind == "arrow" or column.type.id == "DECIMAL":
        return raw(to_arrow(column), type)
    values: list[Any] = column.values.tolist()
    if column.valid is None:
        return values
    return [v if there else None for v, there in zip(values, column.valid.tolist(), strict=True)]
