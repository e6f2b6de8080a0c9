"""The side of a flow that says how it stands: how far it has come, whether it goes on, how fresh its views are."""

from __future__ import annotations

from penstock.base.errors import InvalidOption
from penstock.base.limits import STORAGE_ASK_AFTER_SECONDS
from penstock.engine.durable import Durable
from penstock.engine.flow_parts import FlowParts
from penstock.engine.follow import Follower
from penstock.engine.freshness import Freshness, freshness


class StatusSide(FlowParts):
    """What Flow tells about itself. Only `flush` waits: a flow that is busy, or has stopped, can be asked the rest."""

    @property
    def epoch(self) -> int:
        """The number of the last committed epoch."""
        return self._core.epoch

    @property
    def durable_epoch(self) -> int:
        """The last epoch that is on storage; `epoch` is the last one that is visible."""
        if isinstance(self._store, Durable):
            return self._store.journal.durable
        if isinstance(self._store, Follower):
            return self._core.epoch
        raise InvalidOption("a flow in memory has no durable epochs", hint="Open it on a storage URL.")

    @property
    def settled_epoch(self) -> int:
        """The last epoch that nothing can take back any more: it is on storage, or there is no storage."""
        store = self._store
        return store.journal.durable if isinstance(store, Durable) else self._core.epoch

    def flush(self) -> int:
        """Return when everything that is visible is on storage: the last epoch that is."""
        with self._lock:
            self._check_open()
            epoch = self._core.epoch
            store = self._writer() if self._store is not None else None
        if store is not None:
            store.wait(epoch)
        return epoch

    @property
    def id(self) -> str:
        """What tells this flow from others: the same for its writer and its readers, and after a restart."""
        return self._id

    @property
    def is_on_storage(self) -> bool:
        return self._store is not None

    @property
    def is_paused(self) -> bool:
        return self._paused_us is not None

    @property
    def has_stopped(self) -> bool:
        """Whether the flow answers nothing any more. What keeps a reader from following may pass."""
        failed = isinstance(self._store, Durable) and self._store.journal.failure is not None
        return self._closed or self._core.failure is not None or failed

    def stopped_by(self) -> str | None:
        """Why the flow does nothing more, if it does not."""
        if self._core.failure is not None:
            return self._core.failure
        failure = self._store.journal.failure if isinstance(self._store, Durable) else None
        return None if failure is None else failure.message

    def freshness(self) -> list[Freshness]:
        """How fresh each materialized view is, and why it is not fresher. It waits for nobody."""
        return freshness(self._core.catalog, self.meter, self._blocked_us())

    def _blocked_us(self) -> int | None:
        """Since when nothing can become visible or durable any more, if that is so."""
        store = self._store
        stopped = self._core.failure is not None
        if isinstance(store, Durable):
            waiting_us = store.journal.writing_us
            if waiting_us is not None:
                late_us = self.meter.clock_us() - waiting_us
                return waiting_us if late_us > STORAGE_ASK_AFTER_SECONDS * 1_000_000 else None
            stopped = stopped or store.journal.failure is not None
        if isinstance(store, Follower) and store.failure is not None:
            return store.failed_us
        if not stopped:
            return None
        stops = [e.time_us for e in self._core.audit.entries() if e.event in ("stopped", "fenced")]
        return stops[-1] if stops else self.meter.clock_us()
