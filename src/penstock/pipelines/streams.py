"""Where a pipeline's streams are handed to the flow."""

from __future__ import annotations

from collections.abc import Mapping
from os import PathLike
from typing import Any

from penstock.engine.flow import Flow
from penstock.run.spark.streams import Streams, Trigger, trigger_options

Place = str | PathLike[str] | None


def check(flow: Flow, trigger: Trigger, checkpoint: Place) -> None:
    """Raise what `feed` would raise of its options, before tables are made."""
    trigger_options(trigger)
    flow._stream_place(checkpoint)


def feed(flow: Flow, streams: Mapping[str, Any], trigger: Trigger, checkpoint: Place) -> Streams:
    """Have the flow read these streaming DataFrames, each into the table of its name."""
    return flow.stream(streams, trigger=trigger, checkpoint=checkpoint)
