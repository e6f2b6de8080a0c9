"""The side of a flow that turns to Spark: engines, its dialect, sinks and streams."""

from __future__ import annotations

import os
import weakref
from collections.abc import Mapping
from typing import Any
from urllib.parse import quote_plus

import pyarrow as pa

from penstock.base.errors import FlowClosed, InvalidDelta, InvalidOption, WrongObjectType
from penstock.engine.catalog import View
from penstock.engine.durable import Durable
from penstock.engine.flow_parts import FlowParts, no_storage, read_only_error
from penstock.engine.follow import Follower
from penstock.engine.frames_out import FramesOut
from penstock.engine.sinks import Sink, Writer
from penstock.engine.spark_sql import run_spark_sql, spark_columns
from penstock.run.spark.session import Spark
from penstock.run.spark.streams import Streams, Trigger, trigger_options
from penstock.zset.change_feeds import AUTO


class SparkSide(FlowParts):
    """What Flow offers beside SQL and ticks, for people who use Spark."""

    @property
    def engine(self) -> str:
        """Where epochs run: "inline", "spark" or "auto"."""
        return self._engines.name

    @property
    def spark(self) -> Any:
        """The SparkSession of this flow, started if there is none: to read DataFrames with."""
        self.check_not_closed()
        return self._engines.session()

    def use_engine(self, engine: str | Spark) -> None:
        """Run epochs elsewhere from the next one on. Nothing is converted: both engines use the same state."""
        with self._lock:
            self._check_open()
            if isinstance(self._store, Follower):
                raise read_only_error()
            self._engines.use(engine)

    def spark_sql(self, sql: str, *, commit: str | None = None) -> pa.Table:
        """Run statements of Spark's dialect; the answer of the last one as a pyarrow.Table.

        CREATE [MATERIALIZED] VIEW, CREATE TABLE, INSERT, SELECT and DROP, with Spark's meaning (ANSI mode, UTC):
        docs/spark-sql.md says what is refused.
        """
        return run_spark_sql(sql, lambda: self._core.catalog, lambda text: self.sql(text, commit=commit))

    def spark_columns(self) -> dict[str, str]:
        """The tables and views, each with its columns as Spark's DDL."""
        with self._lock:
            self._check_open()
            return spark_columns(self._core.catalog, self.sql)

    def _frames_out(self) -> FramesOut:
        return FramesOut(self._writer() if self._store is not None else no_storage(), self._engines)

    def sink(self, view: str, writer: Writer, *, from_epoch: int | None = None) -> Sink:
        """Hand each epoch's delta of a view (or table) to `writer(data_frame, epoch)`, in order, once it is
        committed: from now on, or from after an epoch that history still has. See `Sink`."""
        with self._lock:
            self._check_open()
            relation = self._core.catalog.get(view)
            if isinstance(relation, View):
                raise WrongObjectType(f'"{relation.name}" is a plain view and has no changes')
            self._writer() if self._store is not None else no_storage()
            start = self._core.epoch if from_epoch is None else from_epoch
            self._past().check_range(relation, start, self._core.epoch)
        name = relation.name

        def deltas(first: int, last: int) -> list[tuple[int, Any]]:
            with self._lock:
                self._check_open()
                found = self._core.catalog.get(name)
                assert not isinstance(found, View)
                records = self._past().records(found, first, last)
                out = self._frames_out()
                return [(r.epoch, out.changes(found, [r])) for r in records if r.parts_of(found.id)]

        sink = Sink(name, writer, start, deltas, lambda: self._core.epoch, self._forget_sink)
        self._sinks.append(sink)
        sink.deliver()
        return sink

    def _forget_sink(self, sink: Sink) -> None:
        if sink in self._sinks:
            self._sinks.remove(sink)

    def stream(
        self,
        sources: Mapping[str, Any],
        *,
        trigger: Trigger = None,
        checkpoint: str | os.PathLike[str] | None = None,
        mode: str | None = None,
        change_feed: str = AUTO,
    ) -> Streams:
        """Feed tables from streaming DataFrames: each micro-batch is an epoch, and a repeated one commits once.

        `trigger` is as of Spark's, such as "5 seconds" or "available now". `checkpoint` is the folder in which Spark
        keeps how far it has read; with a flow in a folder it is there if none is given. Started again with the same
        one, the streams go on where they were. A batch is done when its epoch is durable, whatever the flow's own
        commit mode is: Spark does not hand it over again."""
        options = trigger_options(trigger)
        if not sources:
            raise InvalidDelta("stream() has no sources", hint="Give {table: streaming DataFrame}.")
        with self._lock:
            self._check_open()
            names = {name: self._core.table(name).name for name in sources}
            place = self._stream_place(checkpoint)

        # Spark holds on to what it calls for as long as the process lives: not to the flow.
        found: weakref.ref[Any] = weakref.ref(self)

        def on_batch(table: str, rows: Any, batch: str) -> None:
            flow = found()
            if flow is None:
                raise FlowClosed("the flow of this stream is gone", hint="Hold on to the flow while it runs.")
            # A key and no offset: a table may have several streams, and each repeats its own last batch.
            key = f"stream {batch}"
            flow.tick(
                {table: rows}, mode=mode, change_feed=change_feed, commit="durable", idempotency_key=key
            )

        streams = Streams()
        self._streams.append(streams)
        try:
            for name, frame in sources.items():
                folder = f"{place}/{quote_plus(names[name])}"
                streams.add(names[name], frame, folder, options, on_batch)
        except BaseException:
            streams.stop()
            raise
        return streams

    def _stream_place(self, checkpoint: str | os.PathLike[str] | None) -> str:
        if checkpoint is not None:
            return os.fspath(checkpoint).rstrip("/")
        store = self._store
        if not isinstance(store, Durable) or store.settings.location.scheme != "file":
            raise InvalidOption(
                "a stream needs a folder for Spark's checkpoints, and this flow is not in a folder",
                hint="Give checkpoint=: a folder or URL that Spark can write to.",
            )
        return str(store.settings.location.path / "streams")
