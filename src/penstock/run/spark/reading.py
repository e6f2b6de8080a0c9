"""Rows of a flow as a Spark DataFrame: small ones are handed over, large ones are read by tasks from their files."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from penstock.base.errors import TypeMismatch
from penstock.base.limits import READ_ROWS_AT_ONCE
from penstock.commit.places import Places
from penstock.run.packet import unpack_delta
from penstock.run.ranges import Ranges
from penstock.run.spark.task_files import AttemptFiles
from penstock.state.batch import Batch, Layout, build, merge
from penstock.state.batch_file import FileRef
from penstock.state.batch_range import BatchRange
from penstock.zset.interchange import export
from penstock.zset.types import Schema
from penstock.zset.zset import ZSet

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

EPOCH, WEIGHT = "_epoch", "_weight"
Part = FileRef | bytes


@dataclass(frozen=True)
class SnapshotTask:
    """All rows of a relation, each as often as it is there: those of one partition."""

    places: Places
    session: str
    parts: tuple[Part, ...]
    layout: Layout
    names: tuple[str, ...]
    ranges: Ranges

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        partition = _partition(batches)
        first, last = self.ranges.of(partition)
        files = AttemptFiles(self.places, self.session)
        met = [p for p in self.parts if not isinstance(p, FileRef) or p.meets(first, last)]
        found = [BatchRange(_opened(p, self.layout, files), first, last) for p in met]
        held = [b for b in found if len(b)]
        if not held:
            return
        rows = merge(self.layout, held).zset()
        for start in range(0, len(rows), READ_ROWS_AT_ONCE):
            part = rows.take(np.arange(start, min(start + READ_ROWS_AT_ONCE, len(rows))))
            part = part.take(np.repeat(np.arange(len(part)), part.weights))
            yield from _arrow(part, self.names, {})


@dataclass(frozen=True)
class ChangesTask:
    """Deltas: for each partition of Spark's one part of an epoch's, with its epoch and weights."""

    places: Places
    session: str
    parts: tuple[tuple[int, Part], ...]
    layout: Layout
    names: tuple[str, ...]

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        epoch, part = self.parts[_partition(batches)]
        files = AttemptFiles(self.places, self.session)
        found = _opened(part, self.layout, files)
        rows = found.zset() if isinstance(found, Batch) else found
        whole = Layout(self.layout.types, self.layout.key, unique=True)
        rows = build(whole, rows.columns, (rows.weights,)).zset()
        for start in range(0, len(rows), READ_ROWS_AT_ONCE):
            piece = rows.take(np.arange(start, min(start + READ_ROWS_AT_ONCE, len(rows))))
            count = len(piece)
            extra = {
                EPOCH: pa.array(np.full(count, epoch, np.int64)),
                WEIGHT: pa.array(np.array(piece.weights)),
            }
            yield from _arrow(piece, self.names, extra)


def _partition(batches: Iterable[pa.RecordBatch]) -> int:
    from pyspark import TaskContext

    for _ in batches:
        pass
    context = TaskContext.get()
    assert context is not None
    return context.partitionId()


def _opened(part: Part, layout: Layout, files: AttemptFiles) -> Any:
    return files.batch(part, layout.types) if isinstance(part, FileRef) else unpack_delta(part, layout.types)


def _arrow(rows: ZSet, names: Sequence[str], extra: dict[str, pa.Array]) -> Iterator[pa.RecordBatch]:
    arrays = [*[_plain(export(c)) for c in rows.columns], *extra.values()]
    yield from pa.Table.from_arrays(arrays, names=[*names, *extra]).to_batches()


def _plain(array: pa.Array) -> pa.Array:
    """Text and bytes in the form that Spark has."""
    if pa.types.is_large_string(array.type):
        return array.cast(pa.string())
    return array.cast(pa.binary()) if pa.types.is_large_binary(array.type) else array


def spark_schema(schema: Schema, extra: Sequence[str] = ()) -> Any:
    """The schema of the DataFrame, or an error that names the column that Spark has no type for."""
    from pyspark.sql.pandas.types import from_arrow_type
    from pyspark.sql.types import LongType, StructType

    found = StructType()
    for name, type in zip(schema.names, schema.types, strict=True):
        from penstock.zset.column import empty

        try:
            found = found.add(name, from_arrow_type(_plain(export(empty(type))).type, False))
        except Exception:
            raise TypeMismatch(
                f'Spark has no type for column "{name}", which is {type}',
                hint=f"Cast it to TEXT in the view, or read it as Arrow: {name}::TEXT.",
            ) from None
    for name in extra:
        found = found.add(name, LongType())
    return found


def snapshot_frame(
    spark: SparkSession, task: SnapshotTask, schema: Schema, release: Callable[[], None]
) -> DataFrame:
    """A DataFrame of all rows. Its files stay for as long as somebody holds it: `release` is called after that."""
    count = len(task.ranges)
    frame = spark.range(0, count, 1, count).mapInArrow(task, spark_schema(schema))
    weakref.finalize(frame, release)
    return frame


def changes_frame(
    spark: SparkSession, task: ChangesTask, schema: Schema, release: Callable[[], None]
) -> DataFrame:
    """A DataFrame of deltas, with the columns `_epoch` and `_weight`."""
    wanted = spark_schema(schema, (EPOCH, WEIGHT))
    count = len(task.parts)
    if not count:
        frame = spark.createDataFrame([], wanted)
    else:
        frame = spark.range(0, count, 1, count).mapInArrow(task, wanted)
    weakref.finalize(frame, release)
    return frame
