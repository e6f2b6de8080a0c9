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
from penstock.gateway.portals import Prepared
from penstock.gateway.result import Result, answer_types, check_announced, fields, spread
from penstock.gateway.types import ColumnType, column_type
from penstock.gateway.values import Encoder, encoder, raw
from penstock.state.finder import Piece
from penstock.zset.column import Column
from penstock.zset.few import value_at
from penstock.zset.interchange import to_arrow
from penstock.zset.types import SqlType

_COUNT = struct.Struct(">H").pack
_LENGTH = struct.Struct(">i").pack
_HEAD = struct.Struct(">ciH").pack
_NULL = b"\xff\xff\xff\xff"
_NO_ROWS = pa.table({})


# Where a column stands, how its values become bytes, and its type where `value_at` gives something else than the values.
Cell = tuple[int, Encoder, ColumnType | None]


@dataclass(frozen=True, slots=True)
class Shape:
    """What all answers to one statement have in common, for the formats of one Bind."""

    names: list[str]
    types: list[ColumnType]
    formats: list[int]
    cells: list[Cell]  # of a point read
    description: bytes
    fixed: bytes | None  # the rows, if they are always the same
    source: object  # of what: another catalog has other columns

    def one(self, found: Found | pa.Table) -> bytes | None:
        """DataRow, if it is one row and at hand."""
        if isinstance(found, Found):
            return None if found.one is None else self.row(*found.one)
        return self.fixed if found.num_rows == 1 else None

    def row(self, piece: Piece, row: int) -> bytes:
        """DataRow for one row as it lies in the state."""
        columns, cells = piece.columns, self.cells
        parts, size = [b""], 6 + 4 * len(cells)
        for position, encode, type in cells:
            column = columns[position]
            value = value_at(column, row) if type is None else _values(column.slice(row, row + 1), type)[0]
            if value is None:
                parts.append(_NULL)
            else:
                cell = encode(value)
                size += len(cell)
                parts += (_LENGTH(len(cell)), cell)
        parts[0] = _HEAD(b"D", size, len(cells))
        return b"".join(parts)

    def rows(self, columns: tuple[Column, ...]) -> bytes:
        """DataRow for each row of these columns."""
        head = _COUNT(len(columns))
        encoded = []
        for column, type, (_, encode, _) in zip(columns, self.types, self.cells, strict=True):
            encoded.append([None if v is None else encode(v) for v in _values(column, type)])
        messages = []
        for row in zip(*encoded, strict=True):
            parts = [head]
            for value in row:
                parts += (_NULL,) if value is None else (_LENGTH(len(value)), value)
            body = b"".join(parts)
            messages.append(b"D" + _LENGTH(len(body) + 4) + body)
        return b"".join(messages)


def shape_of(prepared: Prepared, formats: tuple[int, ...], found: Found | pa.Table, described: bool) -> Shape:
    """How an answer of `Session.at_once` is given. It is worked out anew when the catalog has changed."""
    shape: Shape | None = prepared.shapes.get(formats)
    source = found.read if isinstance(found, Found) else found
    if shape is None or shape.source is not source:
        shape = prepared.shapes[formats] = _shape(prepared, formats, found, source, described)
    return shape


def _shape(
    prepared: Prepared,
    formats: tuple[int, ...],
    found: Found | pa.Table,
    source: PointRead | pa.Table,
    described: bool,
) -> Shape:
    if isinstance(found, Found):
        schema = found.read.schema
        names, types = list(schema.names), [column_type(t.duck) for t in schema.types]
    else:
        names, types = found.column_names, answer_types(found)
    check_announced(prepared.announced(described), types)
    each = spread(formats, len(types))
    columns = list(zip(names, types, strict=True))
    cells: list[Cell] = []
    if isinstance(found, Found):
        ours = found.read.schema.types
        for position, type, format, inner in zip(found.read.shown, types, each, ours, strict=True):
            cells.append((position, encoder(type, format), None if _is_plain(inner) else type))
    return Shape(
        names, types, each, cells, b.row_description(fields(columns, each)),
        None if isinstance(found, Found) else data_rows(found, types, each), source,
    )  # fmt: skip


class AtOnceResult(Result):
    """The rows of `Session.at_once`. They become an Arrow table only where somebody wants them in portions."""

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
        found = self._found
        if not isinstance(found, Found):
            return int(found.num_rows)
        return 1 if found.one is not None else len(found.rows)

    def close(self) -> None:
        self._table = _NO_ROWS

    def fetch(self, count: int | None) -> Iterator[bytes]:
        rows = self.all_rows() if count is None else None
        if rows is None:
            yield from super().fetch(count)
        else:
            yield rows

    def all_rows(self) -> bytes | None:
        """DataRow messages for all rows; None if some are gone, or they have to be put together in another way."""
        if self._table is not None:
            return None
        found, shape = self._found, self._shape
        if not isinstance(found, Found):
            assert shape.fixed is not None
            rows, count = shape.fixed, found.num_rows
        elif found.one is not None:
            rows, count = shape.row(*found.one), 1
        else:
            zset = found.rows
            if (zset.weights != 1).any():
                return None
            rows, count = shape.rows(zset.columns), len(zset)
        self.at, self._table = count, _NO_ROWS  # they are given
        return rows


def _is_plain(type: SqlType) -> bool:
    """Whether `value_at` gives what the encoders take."""
    return type.id == "VARCHAR" if type.kind == "arrow" else type.id != "DECIMAL"


def _values(column: Column, type: ColumnType) -> list[Any]:
    """The values as encoders take them."""
    if column.type.kind == "arrow" or column.type.id == "DECIMAL":
        return raw(to_arrow(column), type)
    values: list[Any] = column.values.tolist()
    if column.valid is None:
        return values
    return [v if there else None for v, there in zip(values, column.valid.tolist(), strict=True)]
