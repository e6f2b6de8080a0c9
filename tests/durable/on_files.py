"""Epochs in partitions whose tasks write the flow's own files, as on Spark, but in this process."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import penstock
from penstock.engine import opening
from penstock.engine.durable import Durable
from penstock.run.partitioned import Partitioned
from penstock.run.ranges import Ranges
from penstock.run.spark.task_files import AttemptFiles
from penstock.state.batch import Batch
from penstock.state.batch_file import FileRef


class OnFiles(Partitioned):
    """Every epoch is an attempt of its own, with names of its own for its files."""

    def __init__(self, store: Durable, ranges: Ranges) -> None:
        super().__init__(ranges)
        self._store = store
        places = opening.places_of(store.settings, store.flusher.manifest.parents)
        self._files = AttemptFiles(places, store.files.session)  # type: ignore[assignment]

    def shipped(self, batch: Batch) -> FileRef | bytes:
        return batch.ref if isinstance(batch.ref, FileRef) else super().shipped(batch)

    def open(self, ref: FileRef, types: Sequence[Any]) -> Batch:
        return self._store.files.batch(ref, types)


def on_files(flow: penstock.Flow, partitions: int | None) -> None:
    """Where the epochs of a flow run from now on; None: inline."""
    store = flow._store
    assert isinstance(store, Durable)
    if partitions is None:
        flow._core.executor = None
        return
    executor = OnFiles(store, Ranges.even(partitions))
    flow._core.executor = executor
    store.flusher.merge_elsewhere = executor.merge
