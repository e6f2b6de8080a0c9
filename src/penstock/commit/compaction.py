"""Runs of one piece of state on storage: when to put some of them together, and doing it in slices.

Each flush adds what is new as one run. Small runs are left alone until there are many of them; what
they become, and large runs, are merged when several of like size have gathered. So a row is written
again a few times in its life, however large the state is, and the number of runs stays small.
"""

from __future__ import annotations

import time
from collections.abc import Sequence

import numpy as np

from penstock.base import faults
from penstock.base.limits import (
    COMPACT_SLICE_ROWS,
    RUNS_OF_LIKE_SIZE_MAX,
    SMALL_RUN_ROWS_MAX,
    SMALL_RUNS_MAX,
)
from penstock.circuit.fragment import HASHES
from penstock.state.batch import Batch, Layout, build, merge
from penstock.state.batch_file import FileRef
from penstock.state.output import Allocate, Output, in_memory
from penstock.zset.zset import ZSet, union


def first_to_merge(runs: Sequence[int], fresh: int) -> int:
    """From which run on to merge with what is new, given their rows; as many as there are: none of them.

    >>> first_to_merge([1_000_000, 500, 500], 500)
    3
    >>> first_to_merge([1_000_000] + [500] * SMALL_RUNS_MAX, 500)
    1
    >>> first_to_merge([9_000_000, 90_000, 80_000, 70_000], 60_000)
    1
    """
    at = len(runs)
    while at and runs[at - 1] < SMALL_RUN_ROWS_MAX:
        at -= 1
    if fresh < SMALL_RUN_ROWS_MAX and len(runs) - at < SMALL_RUNS_MAX:
        return len(runs)
    total = fresh + sum(runs[at:])
    while True:
        like = at
        while like and runs[like - 1] <= 2 * total:
            like -= 1
        if at - like < RUNS_OF_LIKE_SIZE_MAX - 1:
            return at
        total += sum(runs[like:at])
        at = like


def levels(runs: Sequence[Batch]) -> list[tuple[int, int]]:
    """Where each run begins, and its rows: files that stand side by side in the order of their hashes and
    share none, as the tasks of one epoch write them, count as one run."""
    found: list[tuple[int, int]] = []
    last: int | None = None
    for number, run in enumerate(runs):
        span = run.ref.span if isinstance(run.ref, FileRef) else None
        if span is not None and last is not None and span[0] > last:
            start, rows = found[-1]
            found[-1] = (start, rows + len(run))
        else:
            found.append((number, len(run)))
        last = None if span is None else span[1]
    return found


def gather(layout: Layout, parts: Sequence[ZSet | Batch], allocate: Allocate = in_memory) -> Batch | None:
    """What is new as one batch; None if nothing is left of it."""
    if len(parts) == 1 and isinstance(parts[0], Batch):
        return parts[0]
    rows = [part for part in parts if not isinstance(part, Batch)]
    batches = [part for part in parts if isinstance(part, Batch)]
    if rows:
        delta = union(rows)
        batches.append(build(layout, delta.columns, (delta.weights,)))
    merged = merge_in_slices(layout, batches, allocate) if batches else None
    return merged if merged is not None and len(merged) else None


def merge_in_slices(layout: Layout, batches: Sequence[Batch], allocate: Allocate = in_memory) -> Batch:
    """Batches as one, by the law, a slice of hashes at a time: whoever ticks meanwhile gets a turn."""
    total = sum(len(b) for b in batches)
    slices = total // COMPACT_SLICE_ROWS + 1
    if slices == 1:
        return merge(layout, batches)
    with faults.step("merge.start"):
        output = Output(layout, batches, allocate)
        starts = [0] * len(batches)
    for number in range(1, slices + 1):
        with faults.step("merge.slice"):
            stops = [len(b) for b in batches]
            if number < slices:
                bound = np.uint64(number * HASHES // slices)
                stops = [int(np.searchsorted(b.hashes, bound)) for b in batches]
            cut = [b.slice(i, j) for b, i, j in zip(batches, starts, stops, strict=True) if i < j]
            if cut:
                output.add(merge(layout, cut))
            starts = stops
        time.sleep(0)
    with faults.step("merge.finish"):
        return output.finish()
