"""What the sides of a flow's API have in common. `Flow` puts them together and sets what is named here."""

from __future__ import annotations

import threading

from penstock.base.errors import InvalidOption, ReadOnly
from penstock.engine.as_of import Past
from penstock.engine.core import Core
from penstock.engine.durable import Durable
from penstock.engine.engines import Engines
from penstock.engine.follow import Follower
from penstock.engine.sinks import Sink
from penstock.run.spark.streams import Streams


class FlowParts:
    _lock: threading.RLock
    _core: Core
    _store: Durable | Follower | None
    _engines: Engines
    _sinks: list[Sink]
    _streams: list[Streams]

    def check_not_closed(self) -> None:
        raise NotImplementedError

    def _check_open(self) -> None:
        raise NotImplementedError

    def _writer(self) -> Durable:
        raise NotImplementedError

    def _past(self) -> Past:
        raise NotImplementedError


def no_storage() -> Durable:
    raise InvalidOption(
        "a flow in memory has no files that Spark could read", hint="Give the flow a URL to be kept at."
    )


def read_only_error() -> ReadOnly:
    return ReadOnly("the flow is open for reading", hint="Open it without read_only=True to change it.")
