"""What the sides of a flow's API have in common. `Flow` puts them together and sets what is named here."""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod

from penstock.base.errors import InvalidOption, ReadOnly
from penstock.engine.as_of import Past
from penstock.engine.core import Core
from penstock.engine.durable import Durable
from penstock.engine.engines import Engines
from penstock.engine.follow import Follower
from penstock.engine.sinks import Sink
from penstock.run.spark.streams import Streams


class FlowParts(ABC):
    """Not to be made by itself: `Flow` is one."""

    _lock: threading.RLock
    _core: Core
    _store: Durable | Follower | None
    _engines: Engines
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


def no_storage() -> Durable:
    raise InvalidOption(
        "a flow in memory has no files that Spark could read", hint="Give the flow a URL to be kept at."
    )


def read_only_error() -> ReadOnly:
    return ReadOnly("the flow is open for reading", hint="Open it without read_only=True to change it.")
