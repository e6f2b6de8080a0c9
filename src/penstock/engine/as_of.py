"""Reading the past: rows as of an epoch or a time, and the changes between two epochs."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime

import pyarrow as pa

from penstock.base.errors import HistoryGone, InvalidOption
from penstock.commit.history import History
from penstock.commit.record import EpochRecord
from penstock.engine.catalog import MaterializedView, Table
from penstock.engine.consolidate import consolidated
from penstock.engine.core import Core
from penstock.engine.epochs import added
from penstock.engine.watch import Change, as_change
from penstock.sql.tokens import fold
from penstock.zset.zset import ZSet, union


class Past:
    """The history of a flow, seen from its current epoch."""

    def __init__(self, core: Core, history: History, retain_s: float | None) -> None:
        self._core = core
        self._history = history
        self._retain_s = retain_s

    def epoch(self, as_of: int | datetime | str) -> int:
        """The epoch that is meant: its number, or the last one at a time."""
        if isinstance(as_of, bool) or not isinstance(as_of, (int, datetime, str)):
            raise InvalidOption(f"as_of is an epoch's number or a time, not {type(as_of).__name__}")
        if isinstance(as_of, int):
            self._check_epoch(as_of)
            return as_of
        return self._history.epoch_at(_microseconds(as_of), self._core.epoch)

    def _check_epoch(self, epoch: int) -> None:
        if epoch > self._core.epoch:
            raise InvalidOption(f"there is no epoch {epoch} yet: the last one is {self._core.epoch}")
        if epoch < 0:
            raise InvalidOption(f"there is no epoch {epoch}")

    def _check_relation(self, relation: Table | MaterializedView, epoch: int) -> None:
        self._check_epoch(epoch)
        if epoch < relation.since:
            raise HistoryGone(
                f'{relation.kind} "{relation.name}" was made at epoch {relation.since}: '
                f"the oldest epoch to be had of it is {relation.since}"
            )
        self._history.check(epoch, relation.name, self._retention(relation))

    def _retention(self, relation: Table | MaterializedView) -> float | None:
        return self._retain_s if relation.retain_s is None else relation.retain_s

    def check_range(self, relation: Table | MaterializedView, first: int, last: int) -> None:
        """Raise if the changes after `first` up to `last` are not to be had."""
        self._check_epoch(last)
        if first > last:
            raise InvalidOption(
                f"the changes after epoch {first} up to epoch {last} are none: turn them round"
            )
        self._check_relation(relation, first)

    def rows(self, relation: Table | MaterializedView, epoch: int) -> ZSet:
        """The rows now, less what has changed since."""
        self._check_relation(relation, epoch)
        now = self._core.epoch
        types = relation.schema.types
        since = [delta for *_, delta in self._history.deltas(relation.id, types, epoch + 1, now)]
        rows = relation.rows()
        if not since:
            return rows
        return consolidated(added(rows, union(since).negate()), types)

    def changes(self, relation: Table | MaterializedView, first: int, last: int) -> Iterator[Change]:
        """The epochs after `first` up to `last` that changed the relation."""
        types = relation.schema.types
        for epoch, _, delta in self._history.deltas(relation.id, types, first + 1, last):
            change = as_change(relation.schema, epoch, delta)
            if change.num_rows:
                yield change

    def records(self, relation: Table | MaterializedView, first: int, last: int) -> list[EpochRecord]:
        """The log of the epochs after `first` up to `last`."""
        self.check_range(relation, first, last)
        return list(self._history.records(first + 1, last)) if first < last else []

    def deltas(self, relation: Table | MaterializedView, first: int, last: int) -> Iterator[tuple[int, ZSet]]:
        """The same as they are in the log."""
        found = self._history.deltas(relation.id, relation.schema.types, first + 1, last)
        return ((epoch, delta) for epoch, _, delta in found)

    def query(self, sql: str, epoch: int) -> pa.Table:
        """A query of which every table and view is as of the epoch."""
        relations = {fold(r.name): r for r in self._core.catalog.stored()}
        wanted = self._core.reader.base_relations(sql)
        overrides = {fold(name): self.rows(relations[fold(name)], epoch) for name in wanted}
        return self._core.reader.query(sql, overrides=overrides)


def _microseconds(time: datetime | str) -> int:
    if isinstance(time, str):
        try:
            time = datetime.fromisoformat(time)
        except ValueError:
            raise InvalidOption(
                f"{time!r} is not a time", hint="Write it as '2026-01-31 12:00:00+00:00'."
            ) from None
    if time.tzinfo is None:
        time = time.replace(tzinfo=UTC)
    whole = time - datetime(1970, 1, 1, tzinfo=UTC)
    return (whole.days * 86_400 + whole.seconds) * 1_000_000 + whole.microseconds
