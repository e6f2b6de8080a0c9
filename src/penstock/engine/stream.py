"""The rows of a query as they are taken: DuckDB works out a portion when it is asked for, not before.

A stream has the session's DuckDB connection for itself until its last row, or until it is closed; it reads the Arrow
tables of its epoch, which nobody changes, and holds no lock of the flow.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager

import pyarrow as pa

from penstock.base.errors import PenstockError
from penstock.base.limits import STREAM_ROWS
from penstock.duck.connect import DuckError, translate
from penstock.duck.connection import asked
from penstock.engine.error_places import positions_in
from penstock.engine.read import with_type_names
from penstock.engine.session_reader import SessionReader
from penstock.sql import statements as st

Working = Callable[[Callable[[], None]], AbstractContextManager[None]]


class Stream:
    """`names` and `types` (DuckDB's words) of the columns, and the rows from the front, once."""

    def __init__(
        self, reader: SessionReader, query: st.Query, working: Working, give_back: Callable[[SessionReader], None]
    ) -> None:  # fmt: skip
        self._reader = reader
        self._query = query
        self._working = working
        self._give_back = give_back
        self._waiting: list[pa.Table] = []
        self._batches: pa.RecordBatchReader | None = None
        with self._translated():
            self._batches, self.types = reader.open(query.text.text)
        schema = pa.schema([]) if self._batches is None else self._batches.schema
        self.names = list(schema.names)
        self.empty = with_type_names(schema.empty_table(), self.types)
        if self._batches is None:
            self.close()
            return
        # Most answers end here: then the connection is free again at once.
        first = self._fetch()
        if first is not None:
            self._waiting.append(first)
            if len(first) < STREAM_ROWS:
                second = self._fetch()
                if second is not None:
                    self._waiting.append(second)

    @property
    def ended(self) -> bool:
        """True when every row has been worked out."""
        return self._batches is None

    @property
    def small(self) -> pa.Table | None:
        """The answer, if it is one portion and none of it has been taken."""
        return self._waiting[0] if self.ended and len(self._waiting) == 1 else None

    def next(self) -> pa.Table | None:
        """The next rows; None after the last."""
        return self._waiting.pop(0) if self._waiting else self._fetch()

    def whole(self) -> pa.Table:
        """All rows that are left."""
        parts = []
        while (part := self.next()) is not None:
            parts.append(part)
        return pa.concat_tables([self.empty, *parts])

    def close(self) -> None:
        """Give up the rows that are left. Closing twice is fine."""
        if self._batches is not None:
            self._batches.close()
            self._batches = None
        self._waiting.clear()
        self._end()

    def _end(self) -> None:
        reader, self._reader = self._reader, None  # type: ignore[assignment]
        if reader is not None:
            self._give_back(reader)

    def _fetch(self) -> pa.Table | None:
        if self._batches is None:
            return None
        with self._translated():
            try:
                batch = asked(self._batches.read_next_batch)
                return pa.Table.from_batches([batch]).replace_schema_metadata(self.empty.schema.metadata)
            except StopIteration:
                self._batches = None
                self._end()
        return None

    @contextmanager
    def _translated(self) -> Iterator[None]:
        """Errors in our words; after one there are no more rows."""
        try:
            with self._working(self._reader.interrupt), positions_in(self._query.text):
                try:
                    yield
                except (DuckError, pa.ArrowInvalid, OSError) as error:
                    if isinstance(error, pa.ArrowInvalid):
                        raise PenstockError(f"the result cannot be shown: {error}") from None
                    raise translate(error, self._query.text.text) from None
        except BaseException:
            self.close()
            raise
