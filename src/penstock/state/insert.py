"""A few more rows in a small batch: the same as a merge, at a fraction of its fixed cost.

A tick of one row consists of little else than fixed costs, and every arrangement that it reaches takes
in one row or two.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from penstock.state import measures as m
from penstock.state.batch import Batch, Layout
from penstock.state.measures import Measure
from penstock.zset.column import INT64_MAX, INT64_MIN, Column, concat, same_value


def insert_rows(layout: Layout, batch: Batch, rows: Batch) -> Batch | None:
    """The batch with these rows, as `merge(..., cancel=False)` gives it; None where only that will do."""
    if layout.order or (layout.unique and len(layout.key) < len(layout.types)):
        return None
    if not layout.unique:
        return _insert_bag(layout, batch, rows)
    hashes, count = batch.hashes, len(batch)
    places = hashes.searchsorted(rows.hashes).tolist()
    hits: list[tuple[int, int]] = []
    misses: list[tuple[int, int]] = []
    for row, at in enumerate(places):
        hash = rows.hashes[row]
        if at == count or hashes[at] != hash:
            misses.append((row, at))
            continue
        if at + 1 < count and hashes[at + 1] == hash:
            return None
        for a, b in zip(batch.columns, rows.columns, strict=True):
            if not same_value(a, at, b, row):
                return None
        hits.append((row, at))
    if hits:
        added = _add(batch.measures, rows.measures, hits)
        if added is None:
            return None
        batch = Batch(hashes, batch.columns, added)
    return _with(batch, rows, misses) if misses else batch


def _insert_bag(layout: Layout, batch: Batch, rows: Batch) -> Batch | None:
    """Rows stand side by side, whatever their weights: a merge that need not cancel only sorts."""
    places = batch.hashes.searchsorted(rows.hashes, "right").tolist()
    if layout.one_row or layout.eager:  # where a row may undo another one of its key
        for row, at in enumerate(places):
            if at and batch.hashes[at - 1] == rows.hashes[row]:
                return None
        if layout.eager and min(rows.weights.tolist()) <= 0:
            return None
    return _with(batch, rows, list(enumerate(places)))


def _add(
    measures: Sequence[Measure], changes: Sequence[Measure], hits: Sequence[tuple[int, int]]
) -> tuple[Measure, ...] | None:
    """The measures with changes added at (row of the changes, row of the measures); None where a sum does not
    fit, is not a plain integer, or leaves nothing of a row."""
    found: list[Measure] = []
    left = [False] * len(hits)
    for measure, change in zip(measures, changes, strict=True):
        if not isinstance(measure, np.ndarray) or not isinstance(change, np.ndarray):
            return None
        if measure.dtype == object or change.dtype == object:
            return None
        copy = measure.copy()
        for i, (row, at) in enumerate(hits):
            total = measure.item(at) + change.item(row)
            if not INT64_MIN <= total <= INT64_MAX:
                return None
            if total:
                left[i] = True
            copy[at] = total
        found.append(copy)
    return tuple(found) if all(left) else None


def _with(batch: Batch, rows: Batch, places: Sequence[tuple[int, int]]) -> Batch:
    """The batch with new rows at (row, place), in ascending order of both."""
    hashes = _inserted(batch.hashes, rows.hashes, places)
    columns = tuple(
        [_inserted_column(a, b, places) for a, b in zip(batch.columns, rows.columns, strict=True)]
    )
    measures = tuple(
        [_inserted_measure(a, b, places) for a, b in zip(batch.measures, rows.measures, strict=True)]
    )
    return Batch(hashes, columns, measures)


def _inserted(values: np.ndarray, more: np.ndarray, places: Sequence[tuple[int, int]]) -> np.ndarray:
    if len(places) == 1:
        row, at = places[0]
        return np.concatenate((values[:at], more[row : row + 1], values[at:]))
    parts, last = [], 0
    for row, at in places:
        parts += [values[last:at], more[row : row + 1]]
        last = at
    return np.concatenate([*parts, values[last:]])


def _inserted_column(column: Column, more: Column, places: Sequence[tuple[int, int]]) -> Column:
    if column.type.kind != "arrow" and column.valid is None and more.valid is None:
        return Column(column.type, _inserted(column.values, more.values, places))
    parts, last = [], 0
    for row, at in places:
        parts += [column.slice(last, at), more.slice(row, row + 1)]
        last = at
    return concat([*parts, column.slice(last, len(column))])


def _inserted_measure(measure: Measure, more: Measure, places: Sequence[tuple[int, int]]) -> Measure:
    if isinstance(measure, np.ndarray) and isinstance(more, np.ndarray):
        return _inserted(measure, more, places)
    parts, last = [], 0
    for row, at in places:
        parts += [m.slice_rows(measure, last, at), m.slice_rows(more, row, row + 1)]
        last = at
    return m.concat([*parts, m.slice_rows(measure, last, len(measure))])
