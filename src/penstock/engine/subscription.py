"""Subscriptions: what a table or view holds at an epoch, and then every change of it.

Each epoch is told once, in order, and none is left out: the watch is opened under the flow's lock, at the epoch that
the snapshot (or the history that was asked for) ends with. An epoch is told when it is on storage and cannot be lost
any more, so that somebody who has seen it can go on from there after a crash; a flow in memory tells it at once.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from datetime import datetime
from typing import TYPE_CHECKING

from penstock.base.errors import PenstockError, SubscriptionEnded, WrongObjectType
from penstock.engine.catalog import MaterializedView, Table, View
from penstock.engine.watch import Change, Watch, as_change
from penstock.zset.types import Schema
from penstock.zset.zset import ZSet

if TYPE_CHECKING:
    from penstock.engine.flow_reading import ReadingSide


class Subscription:
    """Iterate over it, or `poll`. `frontier`: no change of an epoch before this one will come any more.

    >>> from penstock import Flow
    >>> flow = Flow()
    >>> _ = flow.sql("CREATE TABLE t (a INT)")
    >>> _ = flow.sql("INSERT INTO t VALUES (1), (1)")
    >>> with flow.subscribe("t") as subscription:
    ...     _ = flow.sql("DELETE FROM t")
    ...     for change in (subscription.poll(), subscription.poll()):
    ...         print(change.epoch, change.batch.to_pylist())
    1 [{'a': 1, '_weight': 2}]
    2 [{'a': 1, '_weight': -2}]
    >>> flow.close()
    """

    def __init__(
        self,
        flow: ReadingSide,
        schema: Schema,
        epoch: int,
        rows: ZSet | None,
        past: Iterator[Change] | None,
        watch: Watch,
    ) -> None:
        self.view = watch.view
        self.schema = schema
        self.epoch = epoch  # the one that it begins with
        self.frontier = epoch if rows is not None else epoch + 1
        self._flow = flow
        self._rows = rows
        self._past = past
        self._watch = watch
        self._failure: PenstockError | None = None
        self.guard: Callable[[], None] | None = None  # raises when its reader may not see it any more
        self._guarded = flow._core.catalog.changes

    @property
    def is_closed(self) -> bool:
        """Whether its reader has closed it."""
        return self._watch.is_over and self._watch.ended is None and self._watch.next_epoch is None

    def ready(self) -> bool:
        """Whether `poll` would have something to give or to say. It takes no lock."""
        settled = self._flow.settled_epoch
        if self._failure is not None:
            return True
        if self._rows is not None:
            return self.epoch <= settled or self._flow.has_stopped
        if self._past is not None or self._watch.is_over or self._flow.has_stopped:
            return True
        following = self._watch.next_epoch
        return following is not None and following <= settled

    def advanced(self) -> bool:
        """Whether `poll` would move the frontier, be it that nothing has changed."""
        return self.ready() or min(self._watch.reached, self._flow.settled_epoch) >= self.frontier

    def poll(self) -> Change | None:
        """The next change that has rows; None if there is none yet, or the reader has closed it."""
        if self._failure is not None:
            raise self._failure
        try:
            while True:
                change = self._next()
                if change is None or change.num_rows:
                    return change
        except PenstockError as error:
            self._failure = error  # for good: going on would leave a gap
            raise

    def _next(self) -> Change | None:
        settled = self._flow.settled_epoch
        changes = self._flow._core.catalog.changes
        if self.guard is not None and changes != self._guarded:
            self.guard()  # rights may have been taken away
            self._guarded = changes
        if self._rows is not None:
            if self.epoch > settled:
                self._check()
                return None
            rows, self._rows = self._rows, None
            self.frontier = self.epoch + 1
            return as_change(self.schema, self.epoch, rows)
        if self._past is not None:
            change = next(self._past, None)
            if change is not None:
                self.frontier = change.epoch + 1
                return change
            self._past = None
        change, done = self._watch.take(settled)
        self.frontier = max(self.frontier, done + 1)
        if change is None and self._watch.is_over:
            if self._watch.ended is not None:
                raise SubscriptionEnded(f"the subscription has ended: {self._watch.ended}")
        elif change is None:
            self._check()
        return change

    def _check(self) -> None:
        if self._flow.has_stopped:
            self._flow._check_open()

    def __iter__(self) -> Iterator[Change]:
        """Changes as they come; it ends when the reader closes it, and raises if the view or the flow ends."""
        heard = threading.Event()
        silence = self._flow.bell.listen(lambda *_: heard.set())
        try:
            while True:
                heard.clear()
                change = self.poll()
                if change is not None:
                    yield change
                elif self.is_closed:
                    return
                else:
                    heard.wait()
        finally:
            silence()

    def close(self) -> None:
        """End it. What it holds is freed."""
        self._rows = self._past = None
        self._watch.close()
        self._flow.bell.ring(self._flow.epoch)

    def __enter__(self) -> Subscription:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def subscribe(
    flow: ReadingSide, name: str, snapshot: bool = True, as_of: int | datetime | str | None = None
) -> Subscription:
    """A subscription to a table or materialized view, with the flow's lock held."""
    relation = flow._core.catalog.get(name)
    if isinstance(relation, View):
        raise WrongObjectType(
            f'"{relation.name}" is a plain view, whose changes nobody works out',
            hint="Create a materialized view over it, and subscribe to that.",
        )
    now = flow._core.epoch
    epoch = now
    rows: ZSet | None = None
    past: Iterator[Change] | None = None
    if as_of is not None and as_of != now:
        history = flow._past()
        epoch = history.epoch(as_of)
        history.check_range(relation, epoch, now)
        past = history.changes(relation, epoch, now)
        rows = history.rows(relation, epoch) if snapshot else None
    elif snapshot:
        rows = relation.rows()
    return Subscription(flow, relation.schema, epoch, rows, past, flow._watch(relation))


def catch_up(flow: ReadingSide, watches: list[Watch], epoch: int) -> None:
    """A reader has read the flow anew: give its watches what they have missed, or end them."""
    for watch in watches:
        relation = flow._core.catalog.by_id(watch.relation)
        if not isinstance(relation, (Table, MaterializedView)) or relation.name != watch.view:
            watch.close(f'"{watch.view}" was dropped or replaced')
            continue
        try:
            for missed in flow._past().deltas(relation, watch.reached, epoch):
                watch.push(*missed)
        except PenstockError as error:
            watch.close(
                f'the changes of "{watch.view}" after epoch {watch.reached} are gone: {error.message}'
            )
            continue
        watch.push(epoch, None)
