"""What the sides of a flow's API have in common. `Flow` puts them together and sets what is named here."""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections.abc import Sequence

import pyarrow as pa

from penstock.base.errors import InvalidOption, ReadOnly
from penstock.commit.journal import Entry
from penstock.commit.once import Once
from penstock.engine.as_of import Past
from penstock.engine.bell import Bell
from penstock.engine.core import Core
from penstock.engine.durable import Durable
from penstock.engine.engines import Engines
from penstock.engine.follow import Follower
from penstock.engine.frames_out import FramesOut
from penstock.engine.meter import Meter
from penstock.engine.session import Session
from penstock.engine.sinks import Sink
from penstock.engine.watch import Watch
from penstock.run.spark.streams import Streams
from penstock.sql.binding import Parameters


class FlowParts(ABC):
    """Not to be made by itself: `Flow` is one."""

    meter: Meter
    bell: Bell
    _lock: threading.RLock
    _core: Core
    _session: Session  # the flow's own
    _id: str
    _closed: bool
    _paused_us: int | None  # since when changes are refused
    _once: Once
    _pending: list[Entry] | None  # epochs of a statement that changes the catalog too
    _store: Durable | Follower | None
    _engines: Engines
    _watches: dict[str, list[Watch]]
    _sinks: list[Sink]
    _streams: list[Streams]

    @abstractmethod
    def check_not_closed(self) -> None:
        """Raise if the flow is closed."""

    @abstractmethod
    def _check_open(self) -> None:
        """Raise if the flow is closed, or has stopped."""

    @abstractmethod
    def _writer(self) -> Durable:
        """The storage, to be written; raises where there is none for that."""

    @abstractmethod
    def _past(self) -> Past:
        """What has been, as far as it is kept."""

    @abstractmethod
    def sql(self, sql: str, parameters: Parameters | None = None, *, commit: str | None = None) -> pa.Table:
        """Run statements in the flow's own session."""

    @abstractmethod
    def _frames_out(self) -> FramesOut:
        """What gives tables and views to Spark."""

    @abstractmethod
    def _close_watches(self, names: Sequence[str], why: str) -> None:
        """End the watches and sinks of relations that are no more."""


def no_storage() -> Durable:
    raise InvalidOption(
        "a flow in memory has no files that Spark could read", hint="Give the flow a URL to be kept at."
    )


def read_only_error() -> ReadOnly:
    return ReadOnly("the flow is open for reading", hint="Open it without read_only=True to change it.")
