"""A change feed as a delta: operations become weights. The counterpart for Spark is run/spark/change_feed.py."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.base.errors import InvalidDelta
from penstock.engine.plain_dicts import WEIGHT
from penstock.zset.change_feeds import (
    AFTER,
    AUTO,
    BEFORE,
    IMAGES,
    PAYLOAD,
    Feed,
    find_feed,
    missing_image,
    unknown_operation,
)


def from_change_feed(data: Any, wanted: str, own: Collection[str] = ()) -> Any:
    """Rows with weights for the rows of a feed; with "auto", what is no feed is given back as it is.

    `own` are the columns of the table: a column that it has itself says nothing of a change.

    >>> rows = pa.table({"id": [1, 1], "n": [5, 6], "_commit_version": [3, 3],
    ...                  "_change_type": ["update_preimage", "update_postimage"]})
    >>> from_change_feed(rows, "auto").to_pylist()
    [{'id': 1, 'n': 5, '_weight': -1}, {'id': 1, 'n': 6, '_weight': 1}]
    """
    if hasattr(data, "toArrow"):  # a DataFrame of Spark's, in a flow that runs here
        data = data.toArrow()
    if wanted == AUTO and not (
        isinstance(data, (pa.Table, pa.RecordBatch)) and _looks_like(data.schema.names)
    ):
        return data
    table = _unwrapped(as_arrow(data))
    feed = find_feed(wanted, table.column_names, own)
    if feed is None:
        return data
    missing = {feed.operation, *((BEFORE, AFTER) if feed.envelope else ())} - set(table.column_names)
    if missing:
        raise InvalidDelta(f'a {feed.name} change feed has a column "{min(missing)}", and this has none')
    return _from_envelopes(table, feed) if feed.envelope else _from_operations(table, feed)


def _looks_like(names: list[str]) -> bool:
    """A quick no for the usual delta: a tick of one row is in a hurry."""
    return "_change_type" in names or "op" in names or PAYLOAD in names


def as_arrow(data: Any) -> pa.Table:
    """Anything with rows as an Arrow table. Raises InvalidDelta if it is none."""
    if isinstance(data, list):
        for row in data:
            if not isinstance(row, Mapping):
                raise InvalidDelta(f"a row of the change feed is {type(row).__name__}, not a dict")
    try:
        return _as_arrow(data)
    except (pa.ArrowException, ValueError, TypeError, OverflowError):
        raise InvalidDelta(
            "the change feed cannot be read: a column has values of several kinds, or of one that Arrow does not have",
            hint="Give each column one type, or an Arrow table.",
        ) from None


def _as_arrow(data: Any) -> pa.Table:
    if isinstance(data, pa.Table):
        return data
    if isinstance(data, pa.RecordBatch):
        return pa.Table.from_batches([data])
    if isinstance(data, list):
        return pa.Table.from_pylist(data)
    if hasattr(data, "to_arrow"):
        return data.to_arrow()
    if type(data).__module__.startswith("pandas"):
        return pa.Table.from_pandas(data, preserve_index=False)
    raise InvalidDelta(
        f"a change feed cannot be read from {type(data).__name__}", hint="Give an Arrow table."
    )


def _unwrapped(table: pa.Table) -> pa.Table:
    """The envelopes themselves, where Kafka Connect has put them beside their schema."""
    if PAYLOAD not in table.column_names or not pa.types.is_struct(table.schema.field(PAYLOAD).type):
        return table
    payload = table.column(PAYLOAD).combine_chunks()
    fields = [field.name for field in payload.type]
    if "op" not in fields:
        return table
    return pa.table([pc.struct_field(payload, [name]) for name in fields], names=fields)


def _from_operations(table: pa.Table, feed: Feed) -> pa.Table:
    operations = table.column(feed.operation).to_pylist()
    weights = np.zeros(len(operations), np.int64)
    for i, operation in enumerate(operations):
        weight = feed.weights.get(operation)
        if weight is None:
            raise unknown_operation(feed, operation, table.slice(i, 1).to_pylist()[0])
        weights[i] = weight
    kept = [name for name in table.column_names if name != feed.operation and name not in feed.about]
    return table.select(kept).append_column(WEIGHT, pa.array(weights))


def _from_envelopes(table: pa.Table, feed: Feed) -> pa.Table:
    operations = table.column(feed.operation).to_pylist()
    images = {name: table.column(name).combine_chunks() for name in (BEFORE, AFTER)}
    there = {name: image.is_valid().to_pylist() for name, image in images.items()}
    taken: dict[str, list[int]] = {BEFORE: [], AFTER: []}
    for i, operation in enumerate(operations):
        if operation is None and not there[BEFORE][i] and not there[AFTER][i]:
            continue  # a tombstone: it follows a deletion, for the sake of Kafka's compaction
        wanted = IMAGES.get(operation)
        if wanted is None:
            raise unknown_operation(feed, operation, table.slice(i, 1).to_pylist()[0])
        for name, weight in zip((BEFORE, AFTER), wanted, strict=True):
            if weight and not there[name][i]:
                raise missing_image(name, operation, table.slice(i, 1).to_pylist()[0])
            if weight:
                taken[name].append(i)
    parts = [_image(images[name], taken[name], weight) for name, weight in ((BEFORE, -1), (AFTER, 1))]
    return pa.concat_tables([part for part in parts if part is not None], promote_options="permissive")


def _image(image: pa.Array, rows: list[int], weight: int) -> pa.Table | None:
    if not pa.types.is_struct(image.type):  # every value of it is NULL
        return None if not rows else pa.table({})
    names = [field.name for field in image.type]
    found = image.take(pa.array(rows, pa.int64()))
    columns = [pc.struct_field(found, [name]) for name in names]
    return pa.table([*columns, pa.array(np.full(len(rows), weight, np.int64))], names=[*names, WEIGHT])
