"""The side of a session that reads: rows of queries, at once or as a stream, subscriptions, and columns beforehand."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import pyarrow as pa

from penstock.base.errors import PenstockError, TransactionError
from penstock.base.limits import STREAMS_MAX
from penstock.engine.at_once import Found, found_rows
from penstock.engine.describe import Description, describe
from penstock.engine.session_answer import Answer, answer_of
from penstock.engine.session_cancel import CancelSide
from penstock.engine.session_rights import RightsSide
from penstock.engine.session_transactions import TransactionSide
from penstock.engine.similar_names import suggesting
from penstock.engine.stream import Stream
from penstock.engine.subscription import Subscription, subscribe
from penstock.engine.system.shown import may_mention
from penstock.sql import statements as st
from penstock.sql.binding import Parameters


class QuerySide(TransactionSide, RightsSide, CancelSide):
    """Queries see what the session's transaction sees, and can be cancelled."""

    def at_once(self, s: st.Statement, values: Parameters = (), wait: bool = True) -> Found | pa.Table | None:
        """The rows that answer to a query, if they can be given without DuckDB; else None. With `wait` False also
        where the flow is at work."""
        found = self._find(s, values, wait)
        if found is not None:
            self.statements += 1
            self._flow.meter.statement("query")
        return found

    def _find(self, s: st.Statement, values: Parameters = (), wait: bool = True) -> Found | pa.Table | None:
        if not isinstance(s, st.Query) or s.as_of or len(values) != s.parameter_count:
            return None
        if not isinstance(values, (list, tuple)):
            return None
        lock = self._flow._lock
        if wait:
            with lock:  # and no `acquire`: Ctrl-C between it and `try` would leave the flow locked for ever
                return self._find_locked(s, values)
        if not lock.acquire(blocking=False):  # asked by the server alone, which hears of signals elsewhere
            return None
        try:
            return self._find_locked(s, values)
        finally:
            lock.release()

    def _find_locked(self, s: st.Query, values: Sequence[Any]) -> Found | pa.Table | None:
        flow, text = self._flow, s.text.text
        self._begin_statement(None)
        known = self._at_once.constant(text)
        transaction = self.transaction
        if known is not None or (transaction is not None and (transaction.changes or self._serialisable)):
            return known
        read = self._at_once.look(flow._core, text)
        return None if read is None else found_rows(read, values, flow._index_rows_max())

    def _started(self, s: st.Query) -> Answer:
        assert self._readers is not None
        whole = self._readers.taken >= STREAMS_MAX
        stream = self._open_system(s) or self._open(s)
        if stream.ended or whole:
            return answer_of(s, stream.whole())
        return Answer("SELECT", stream.empty, True, None, stream)

    def _open(self, s: st.Query) -> Stream:
        """Begin a query over the rows of this moment."""
        assert self._readers is not None
        flow, text = self._flow, s.text.text
        reader = self._readers.take()
        try:
            with flow._lock:
                self._begin_statement(s)
                reader.prepare(flow._core, text, self._rows_of())
        except BaseException:
            self._readers.give_back(reader)
            raise
        stream = Stream(reader, s, self._streaming, self._readers.give_back)
        if stream.ended and stream.small is not None:
            self._at_once.keep(text, stream.small)
        return stream

    def _open_system(self, s: st.Query) -> Stream | None:
        """Begin a query over nothing but how the flow is: one that is busy, or has stopped, can still be asked."""
        assert self._readers is not None
        flow, text = self._flow, s.text.text
        if not may_mention(text) or not self.is_superuser:
            return None
        flow.check_not_closed()
        self.check_not_aborted()
        reader = self._readers.take()
        try:
            system = reader.at_any_time(text)
            if system is not None:
                reader.show_system(system, flow._system_rows)
        except BaseException:
            self._readers.give_back(reader)
            raise
        if system is None:
            self._readers.give_back(reader)
            return None
        return Stream(reader, s, self._streaming, self._readers.give_back)

    @contextmanager
    def _streaming(self, interrupt: Callable[[], None]) -> Iterator[None]:
        """Around each portion of a query's rows, also those that a client takes later."""
        with self._running("query"), self._working(interrupt):
            yield

    def subscribe(self, s: st.Subscribe) -> Subscription:
        """SUBSCRIBE. Every way to it, and every look at a view's changes, goes through here."""
        flow = self._flow
        with flow._lock:
            self._begin_statement(s)
            if self.transaction is not None and self.transaction.changes:
                raise TransactionError(
                    "SUBSCRIBE shows what is committed, and this transaction has changes of its own",
                    hint="COMMIT first.",
                )
            try:
                found = subscribe(flow, s.name, s.snapshot, s.since)
            except PenstockError as error:
                error.position = s.name_offset if error.position is None else error.position
                raise
            found.guard = lambda: self._rights.check(flow._core, self.role, s)
            return found

    def describe(self, sql: str, types: Mapping[int, str]) -> Description:
        """The parameters of one statement, of which the types of some are given, and its columns."""
        with self._flow._lock:
            self._begin_statement(None, ends=True)
            with suggesting(self._flow._core.catalog):
                return describe(self._flow._core, sql, types, self._columns, self._flow._past)

    def catalog_state(self) -> tuple[object, int]:
        """Differs from before if a description may differ."""
        core = self._flow._core
        return core, core.catalog.changes

    def _columns(self, sql: str) -> list[tuple[str, str]]:
        """Names and types of a query's columns, as this session's connection gives them."""
        core = self._flow._core
        if self._readers is None:
            return core.reader.columns(sql)
        reader = self._readers.take()
        try:
            reader.prepare(core, sql, lambda _: None)
            return reader.columns(sql)
        finally:
            self._readers.give_back(reader)
