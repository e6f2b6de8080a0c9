"""A COPY FROM STDIN that is going on: lines come, rows are gathered and become changes of the transaction."""

from __future__ import annotations

import pyarrow as pa

from penstock.base.limits import COPY_ROWS_MAX
from penstock.engine.session import Session
from penstock.gateway.copy_command import Copy
from penstock.gateway.copying import LineReader, Row
from penstock.gateway.decode import bytea
from penstock.gateway.errors import NotSupported
from penstock.sql.binding import blob_text


class CopyIn:
    """It is a part of the open transaction, or one of its own."""

    def __init__(self, session: Session, command: Copy, extended: bool) -> None:
        assert command.table is not None
        self.extended = extended  # it came with Execute, and not with Query
        self.types = session.columns_to_copy(command.table, command.columns)
        for type in self.types:
            if type.children:
                raise NotSupported(f"COPY FROM into a column of the type {type}", hint="INSERT such rows.")
        self._session = session
        self._table = command.table
        self._columns = command.columns
        self._reader = LineReader(command.options, len(self.types))
        self._rows: list[Row] = []
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
        """All lines have come; how many rows they were."""
        self._rows += self._reader.finish()
        self._apply()
        if self._alone:
            self._session.execute("COMMIT")
        return self._count

    def give_up(self) -> None:
        if self._alone:
            self._session.rollback()

    def _apply(self) -> None:
        if not self._rows:
            return
        columns = []
        for type, values in zip(self.types, zip(*self._rows, strict=True), strict=True):
            if type.id == "BLOB":
                values = tuple(None if v is None else blob_text(bytea(v)) for v in values)
            columns.append(pa.array(values, pa.string()))
        texts = pa.table(columns, names=[f"c{i}" for i in range(len(columns))])
        self._count += self._session.copy_in(self._table, self._columns, texts)
        self._rows = []
