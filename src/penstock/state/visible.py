"""The rows of an arrangement without merging it: a large batch, less some of its rows, and a few others.

A read after a small change of a large table then costs the change, and not the table.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from penstock.base.limits import VISIBLE_GONE_ROWS_MAX, VISIBLE_REST_SHARE_MAX
from penstock.kernels.ranges import run_starts
from penstock.state.arrangement import probe_batch
from penstock.state.batch import Batch, Layout, merge
from penstock.zset import weights as w
from penstock.zset.zset import ZSet


@dataclass(frozen=True)
class Visible:
    """`base` without the rows at `gone` (ascending), and `rest`, in which no weight is negative."""

    base: Batch
    gone: np.ndarray
    rest: ZSet


def visible(layout: Layout, batches: Sequence[Batch], plain: Batch | None = None) -> Visible | None:
    """What can be seen of these batches; None where it takes a whole merge to find out.

    `plain` is a batch of which it is known already that each of its rows is there once.

    >>> from penstock.state.batch import build
    >>> from penstock.zset.column import from_pylist
    >>> from penstock.zset.types import BIGINT
    >>> layout = Layout((BIGINT,), (0,))
    >>> def batch(values, weights): return build(layout, (from_pylist(BIGINT, values),), (np.array(weights),))
    >>> many, few = batch(range(100), [1] * 100), batch([7, 1000], [-1, 1])
    >>> found = visible(layout, [many, few])
    >>> many.columns[0].take(found.gone).to_pylist(), found.rest
    ([7], ZSet([((1000,), 1)]))
    """
    if not batches:
        return None
    base, others = batches[0], batches[1:]
    if sum(len(b) for b in others) > len(base) * VISIBLE_REST_SHARE_MAX:
        return None
    if base is not plain and not w.all_are(base.weights, np.int64(1)):
        return None
    if not others:
        return Visible(base, np.zeros(0, np.int64), base.slice(0, 0).zset())
    rest = merge(layout, others)
    removed = np.flatnonzero(rest.weights < 0)
    gone = _places(layout, base, rest.take(removed))
    if gone is None or len(gone) > VISIBLE_GONE_ROWS_MAX:
        return None
    return Visible(base, gone, rest.zset().take(np.flatnonzero(rest.weights > 0)))


def _places(layout: Layout, base: Batch, removed: Batch) -> np.ndarray | None:
    """Where the base has the rows that were removed; None if it does not have them all."""
    if not len(removed):
        return np.zeros(0, np.int64)
    found = probe_batch(layout, base, removed.hashes, [removed.columns[k] for k in layout.compared])
    if found is None:
        return None
    mine, theirs = found
    # Equal rows stand side by side: of each take as many as were removed.
    starts = run_starts(mine)
    if len(starts) < len(removed):
        return None
    counts = np.diff(np.append(starts, len(mine)))
    wanted = -removed.weights
    if (counts < wanted).any():
        return None
    rank = np.arange(len(mine)) - np.repeat(starts, counts)
    return np.sort(theirs[rank < np.repeat(wanted, counts)])
