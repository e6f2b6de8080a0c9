"""Timing, and telling how far the run is."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable

import numpy as np

# The sections are processes of their own: they all count from the start of the first.
_BEGAN = float(os.environ.setdefault("BENCH_BEGAN", str(time.time())))


def say(text: str) -> None:
    """Progress, on stderr, so that the table alone is the output."""
    print(f"{time.time() - _BEGAN:6.1f} s  {text}", file=sys.stderr, flush=True)


def seconds(work: Callable[..., object], *arguments: object) -> float:
    """How long a call takes."""
    began = time.perf_counter()
    work(*arguments)
    return time.perf_counter() - began


def p50_ms(times_s: list[float]) -> float:
    return float(np.median(times_s)) * 1000


def p99_ms(times_s: list[float]) -> float:
    return float(np.percentile(times_s, 99)) * 1000
