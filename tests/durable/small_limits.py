"""Limits so low that what takes hours of work otherwise happens within a few epochs."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from penstock.base import limits

SMALL: Mapping[str, float] = {
    "SMALL_BATCH_ROWS_MAX": 4,
    "MERGE_AT_ONCE_BATCHES_MIN": 3,
    "MERGE_AT_ONCE_ROWS_MAX": 24,
    "MERGE_ROWS_PER_APPENDED_ROW": 2,
    "MERGE_ROWS_MIN": 4,
    "LOG_DELTAS_MAX": 5,
    "LOG_ROWS_MAX": 40,
    "SCAN_ROWS_MAX": 7,
    "CHUNK_BYTES_MAX": 600,
    "FLUSH_EPOCHS_MAX": 4,
    "SMALL_RUN_ROWS_MAX": 12,
    "SMALL_RUNS_MAX": 3,
    "RUNS_OF_LIKE_SIZE_MAX": 3,
    "COMPACT_SLICE_ROWS": 16,
    "COLLECT_AFTER_SECONDS": 0.05,
    "TRIM_GROUPS_MAX": 20,
}


def set_limits(values: Mapping[str, float]) -> dict[str, float]:
    """Set limits in every module that has imported them; what they were before."""
    before = {name: getattr(limits, name) for name in values}
    for module in [m for name, m in sys.modules.items() if name.startswith("penstock.")]:
        for name, value in values.items():
            if hasattr(module, name):
                setattr(module, name, value)
    return before


@contextmanager
def small_limits(**more: float) -> Iterator[None]:
    """The small limits for the length of a `with` block."""
    before = set_limits({**SMALL, **more})
    try:
        yield
    finally:
        set_limits(before)
