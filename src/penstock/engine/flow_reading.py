"""The side of a flow that is read: rows of tables and views, now and as they were, and how they change."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from penstock.base.errors import HistoryGone, InvalidOption, ReadOnly, WrongObjectType
from penstock.commit.once import Offset
from penstock.engine.as_of import Past
from penstock.engine.catalog import MaterializedView, Table, View
from penstock.engine.durable import Durable
from penstock.engine.estimate import estimate_lines
from penstock.engine.explain import explain_in
from penstock.engine.flow_status import StatusSide
from penstock.engine.follow import Follower
from penstock.engine.showing import arrow_table
from penstock.engine.subscription import Subscription, subscribe
from penstock.engine.watch import Watch
from penstock.sql.tokens import fold, quote


class ReadingSide(StatusSide):
    """What Flow offers to those who look at tables and views from Python."""

    def snapshot(self, name: str, as_of: int | datetime | str | None = None, *, as_: str = "arrow") -> Any:
        """The rows of a table or view, one row for each multiplicity: now, or as of an epoch or a time.

        A pyarrow.Table, or with as_="spark" a DataFrame that tasks read from the flow's files; hold on to that
        DataFrame while you use what you made of it, for its files stay as long as it does."""
        in_spark = _in_spark(as_)
        with self._lock:
            self._check_open()
            relation = self._core.catalog.get(name)
            if in_spark and as_of is None and not isinstance(relation, View):
                return self._frames_out().snapshot(relation)
        if in_spark:
            return self._engines.session().createDataFrame(self.snapshot(name, as_of))
        with self._lock:
            self._check_open()
            if as_of is not None:
                past = self._past()
                epoch = past.epoch(as_of)
                if isinstance(relation, View):
                    return past.query(f"SELECT * FROM {quote(relation.name)}", epoch)
                return arrow_table(past.rows(relation, epoch), relation.schema)
            if isinstance(relation, View):
                return self._session.view().query(f"SELECT * FROM {quote(relation.name)}")
            return arrow_table(self._session.view().rows(relation), relation.schema)

    def changes(self, name: str, from_epoch: int, to_epoch: int | None = None, *, as_: str = "arrow") -> Any:
        """What changed in a table or view after `from_epoch` up to and including `to_epoch` (or now): an iterator
        over `Change`s, or with as_="spark" a DataFrame with the columns `_epoch` and `_weight`."""
        in_spark = _in_spark(as_)
        with self._lock:
            self._check_open()
            relation = self._core.catalog.get(name)
            if isinstance(relation, View):
                raise WrongObjectType(
                    f'"{relation.name}" is a plain view; tables and materialized views have changes'
                )
            past = self._past()
            last = self._core.epoch if to_epoch is None else to_epoch
            past.check_range(relation, from_epoch, last)
            if in_spark:
                return self._frames_out().changes(relation, past.records(relation, from_epoch, last))
        return past.changes(relation, from_epoch, last)

    def _past(self) -> Past:
        if self._store is None:
            raise HistoryGone(
                "a flow in memory keeps no history", hint='Open it on storage; "memory://name" will do.'
            )
        if isinstance(self._store, Durable):
            self._store.wait(self._core.epoch)
            return Past(self._core, self._store.history, self._store.settings.retain_s)
        return Past(self._core, self._store.history, None)  # what the writer retains is what there is

    def offset(self, source: str) -> Offset | None:
        """How far a source has been read: the offset of the last tick of this table that had one."""
        with self._lock:
            self._check_open()
            table = self._core.table(source)
            if isinstance(self._store, Follower):
                return self._store.offset(table.id)
            return self._once.offsets.get(table.id)

    def repetitions(self, source: str) -> int:
        """How many deltas of a table with dedup="content" were dropped since the flow was opened."""
        with self._lock:
            self._check_open()
            return self._once.repetitions.get(self._core.table(source).id, 0)

    def watch(self, view: str) -> Watch:
        """The changes of a view (or table) from now on: iterate over it; close() ends it."""
        with self._lock:
            self._check_open()
            relation = self._core.catalog.get(view)
            if isinstance(relation, View):
                raise WrongObjectType(
                    f'"{relation.name}" is a plain view; tables and materialized views can be watched',
                    hint="Create a materialized view over it.",
                )
            return self._watch(relation)

    def _watch(self, relation: Table | MaterializedView) -> Watch:
        watch = Watch(relation.name, relation.schema, self._forget, relation.id, self._core.epoch)
        self._watches.setdefault(fold(relation.name), []).append(watch)
        return watch

    def _forget(self, watch: Watch) -> None:
        with self._lock:
            watches = self._watches.get(fold(watch.view), [])
            if watch in watches:
                watches.remove(watch)
            if not watches:
                self._watches.pop(fold(watch.view), None)

    def _close_watches(self, names: Sequence[str], why: str) -> None:
        for name in names:
            for watch in list(self._watches.get(fold(name), ())):
                watch.close(why.format(name=watch.view))
            for sink in [s for s in self._sinks if fold(s.view) == fold(name)]:
                sink.end(why.format(name=sink.view))
        self.bell.ring(self._core.epoch)

    def subscribe(
        self, view: str, *, snapshot: bool = True, as_of: int | datetime | str | None = None
    ) -> Subscription:
        """A view (or table) as it is now, or as of an epoch or a time, and then every change of it: each epoch
        once, none left out. Without the snapshot only the changes after that epoch."""
        with self._lock:
            self._check_open()
            return subscribe(self, view, snapshot, as_of)

    def explain(self, name: str, *, estimate: bool = False) -> str:
        """The text of EXPLAIN INCREMENTAL: operators, laws, keys, state; or what a change of one row of each table
        costs the view, which is found out by trying, with nothing changed."""
        with self._lock:
            self._check_open()
            relation = self._core.catalog.get(name)
            if not isinstance(relation, MaterializedView):
                raise WrongObjectType(
                    f'"{relation.name}" is a {relation.kind}, not a materialized view',
                    hint=f"Explain a materialized view, or a query: EXPLAIN INCREMENTAL SELECT * FROM {quote(relation.name)}.",
                )
            if not estimate:
                return explain_in(self._core, relation)
            if isinstance(self._store, Follower):
                raise ReadOnly(
                    "a reader has no operators to try a change on",
                    hint="Ask the writer, or run `penstock explain --storage URL --estimate`.",
                )
            return "\n".join(estimate_lines(self._core, relation))

    def _explain_query(self, sql: str) -> str:
        """What a view with this query would be: it is made, explained and dropped again."""
        name = "penstock explained query"
        view = self._core.create_materialized(name, sql, None, {})
        try:
            return explain_in(self._core, view).replace(f"materialized view {name}", "query")
        finally:
            self._core.drop(view, cascade=False)


def _in_spark(as_: str) -> bool:
    if as_ not in ("arrow", "spark"):
        raise InvalidOption(f"unknown form {as_!r}", hint='Use as_="arrow" or as_="spark".')
    return as_ == "spark"
