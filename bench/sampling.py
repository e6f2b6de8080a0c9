"""Where the time of a tick goes: a sampling profile by layer and by function.

A timer interrupts the run a thousand times a second and notes what it was doing; unlike a tracing
profiler it does not make small Python functions look dearer than they are.
"""

from __future__ import annotations

import os
import signal
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from types import FrameType

import penstock

SAMPLE_EVERY_S = 0.001
FUNCTIONS_SHOWN = 12
_ROOT = str(Path(penstock.__file__).parent) + os.sep


def where_the_time_goes(work: Callable[[int], object], times: int) -> str:
    """A text with the share of each layer and of the dearest functions in `times` calls of the work."""
    layers: Counter[str] = Counter()
    functions: Counter[str] = Counter()
    running = True

    def sample(signum: int, frame: FrameType | None) -> None:
        place = innermost(frame)
        if place is not None:
            layer, function = place
            layers[layer] += 1
            functions[function] += 1
        # One shot at a time: on a busy machine a periodic timer could interrupt its own handler.
        if running:
            signal.setitimer(signal.ITIMER_REAL, SAMPLE_EVERY_S)

    before = signal.signal(signal.SIGALRM, sample)
    signal.setitimer(signal.ITIMER_REAL, SAMPLE_EVERY_S)
    try:
        for i in range(times):
            work(i)
    finally:
        running = False  # a signal that is on its way must not start the timer again
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    return profile_text(layers, functions)


def innermost(frame: FrameType | None) -> tuple[str, str] | None:
    """The layer and the function of penstock that the run is in (a call into numpy counts for its caller)."""
    while frame is not None:
        file = frame.f_code.co_filename
        if file.startswith(_ROOT):
            module = file[len(_ROOT) : -len(".py")].replace(os.sep, "/")
            return module.split("/")[0], f"{module}.{frame.f_code.co_name}"
        frame = frame.f_back
    return None


def profile_text(layers: Counter[str], functions: Counter[str]) -> str:
    total = max(1, layers.total())
    lines = [f"Where the time of a one-row tick goes ({total:,} samples):", ""]
    lines += [f"  {count / total:6.1%}  {layer}" for layer, count in layers.most_common()]
    lines += ["", "  of which, by function (numpy and Arrow calls count for the caller):", ""]
    lines += [f"  {count / total:6.1%}  {name}" for name, count in functions.most_common(FUNCTIONS_SHOWN)]
    return "\n".join(lines) + "\n"
