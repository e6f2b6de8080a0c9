"""Where a pipeline's streams are handed to the flow."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from penstock.engine.flow import Flow
from penstock.run.spark.streams import Streams, Trigger


def feed(flow: Flow, streams: Mapping[str, Any], trigger: Trigger) -> Streams:
    """Have the flow read these streaming DataFrames, each into the table of its name."""
    return flow.stream(streams, trigger=trigger)
