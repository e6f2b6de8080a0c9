"""Tables, views and their changes as Spark DataFrames, read by tasks from the flow's own files."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from penstock.base.limits import SNAPSHOT_PARTITION_ROWS
from penstock.commit.record import EpochRecord
from penstock.engine import opening
from penstock.engine.catalog import MaterializedView, Table
from penstock.engine.durable import Durable
from penstock.engine.engines import Engines
from penstock.run.ranges import Ranges
from penstock.run.spark.reading import ChangesTask, Part, SnapshotTask, changes_frame, snapshot_frame
from penstock.state.batch import Layout
from penstock.state.batch_file import FileRef


class FramesOut:
    """Makes DataFrames of a flow on storage. Called with the flow's lock."""

    def __init__(self, store: Durable, engines: Engines) -> None:
        self._store = store
        self._engines = engines

    def snapshot(self, relation: Table | MaterializedView) -> Any:
        """All rows at this epoch. Later epochs do not change it."""
        engine = self._engines.on_spark
        engine.prepare()
        arrangement = relation.piece()[1]
        parts = engine.ship(arrangement)
        count = min(engine.cores() * 4, arrangement.rows() // SNAPSHOT_PARTITION_ROWS + 1)
        task = SnapshotTask(
            *self._where(), parts, arrangement.layout, tuple(relation.schema.names), Ranges.even(count)
        )
        return snapshot_frame(self._engines.session(), task, relation.schema, self._hold(parts))

    def changes(self, relation: Table | MaterializedView, records: Sequence[EpochRecord]) -> Any:
        """The deltas of these epochs, with `_epoch` and `_weight`."""
        parts: list[tuple[int, Part]] = []
        for record in records:
            found = record.parts_of(relation.id)
            parts += [(record.epoch, part.packed if part.file is None else part.file) for part in found]
        types = relation.schema.types
        layout = Layout(types, tuple(range(len(types))))
        task = ChangesTask(*self._where(), tuple(parts), layout, tuple(relation.schema.names))
        release = self._hold([part for _, part in parts])
        return changes_frame(self._engines.session(), task, relation.schema, release)

    def _where(self) -> tuple[Any, str]:
        store = self._store
        return opening.places_of(store.settings, store.flusher.manifest.parents), store.files.session

    def _hold(self, parts: Sequence[Part]) -> Callable[[], None]:
        """Keep files while a DataFrame names them: it is only read when somebody asks for its rows."""
        holding = self._store.collector.holding([p.name for p in parts if isinstance(p, FileRef)])
        holding.__enter__()

        def release() -> None:
            holding.__exit__(None, None, None)

        return release
