"""Where a pipeline's streams are handed to the flow."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from penstock.base.errors import NotMaintainable
from penstock.engine.flow import Flow


def feed(flow: Flow, streams: Mapping[str, Any], trigger: Any) -> Any:
    """Have the flow read these streaming DataFrames, each into the table of its name."""
    stream = getattr(flow, "stream", None)
    if stream is None:
        raise NotMaintainable(
            f"this flow reads no streams, and the pipeline has {', '.join(sorted(streams))}"
        )
    return stream(dict(streams)) if trigger is None else stream(dict(streams), trigger=trigger)
