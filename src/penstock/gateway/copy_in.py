"""A COPY FROM STDIN that is going on: data comes, rows are gathered and become changes of the transaction."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Protocol

import pyarrow as pa

from penstock.base.limits import COPY_ROWS_MAX
from penstock.engine.session import Session
from penstock.gateway.copy_binary import BinaryReader
from penstock.gateway.copy_command import Copy
from penstock.gateway.copying import LineReader
from penstock.gateway.decode import array_items, binary_text, bytea
from penstock.gateway.errors import NotSupported
from penstock.gateway.types import BYTEA, ColumnType, column_type
from penstock.sql.binding import blob_text
from penstock.sql.tokens import quote
from penstock.zset.types import SqlType

_LISTS = ("LIST", "ARRAY")


class Reader(Protocol):
    """Rows from pieces of data: of texts, or of bytes."""

    def feed(self, data: bytes) -> Iterator[list[Any]]: ...

    def finish(self) -> Iterator[list[Any]]: ...


class CopyIn:
    """It is a part of the open transaction, or one of its own."""

    def __init__(self, session: Session, command: Copy, extended: bool) -> None:
        assert command.table is not None
        self.extended = extended  # it came with Execute, and not with Query
        self.format = int(command.options.format == "binary")
        self.types = [_copied_type(t) for t in session.columns_to_copy(command.table, command.columns)]
        self._session = session
        self._table = command.table
        self._columns = command.columns
        width = len(self.types)
        names = self._names() if command.options.match else ()
        self._reader: Reader = (
            BinaryReader(width) if self.format else LineReader(command.options, width, names)
        )
        self._rows: list[list[Any]] = []
        self._count = 0
        self._alone = session.transaction is None
        if self._alone:
            session.begin()

    def feed(self, data: bytes) -> None:
        for row in self._reader.feed(data):
            self._rows.append(row)
            if len(self._rows) >= COPY_ROWS_MAX:
                self._apply()

    def finish(self) -> int:
        """All data has come; how many rows it was."""
        self._rows += self._reader.finish()
        self._apply()
        if self._alone:
            self._session.execute("COMMIT")
        return self._count

    def give_up(self) -> None:
        if self._alone:
            self._session.rollback()

    def _names(self) -> Sequence[str]:
        """The columns that values come for, whose types have been asked for before: the role may insert."""
        if self._columns is not None:
            return self._columns
        columns = self._session.describe(f"SELECT * FROM {quote(self._table)}", {}).columns
        assert columns is not None
        return [name for name, _ in columns]

    def _apply(self) -> None:
        if not self._rows:
            return
        columns = []
        for type, values in zip(self.types, zip(*self._rows, strict=True), strict=True):
            read = _reading(type, self.format)
            found = values if read is None else [None if v is None else read(v) for v in values]
            arrow = pa.string()
            for _ in range(type.depth):
                arrow = pa.list_(arrow)
            columns.append(pa.array(found, arrow))
        texts = pa.table(columns, names=[f"c{i}" for i in range(len(columns))])
        self._count += self._session.copy_in(self._table, self._columns, texts)
        self._rows = []


def _copied_type(type: SqlType) -> ColumnType:
    inner, depth = type, 0
    while inner.id in _LISTS:
        inner, depth = inner.children[0][1], depth + 1
    if inner.children:
        raise NotSupported(f"COPY FROM into a column of the type {type}", hint="INSERT such rows.")
    return ColumnType(column_type(inner.duck).pg, depth)


def _reading(type: ColumnType, format: int) -> Callable[[Any], Any] | None:
    """How a value that came becomes the text, or the list of texts, that DuckDB casts; None: as it came."""
    if type.depth:
        return lambda value: array_items(value if format else value.encode(), format, type.pg)
    if format:
        return lambda value: binary_text(value, type.pg)
    return (lambda value: blob_text(bytea(value))) if type.pg is BYTEA else None
