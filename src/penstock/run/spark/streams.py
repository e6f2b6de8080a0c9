"""Structured Streaming as a source: each micro-batch of a streaming DataFrame is an epoch.

Spark repeats the last batch after a crash. Every batch has a name, made of the query's id, which lives in the
checkpoint, and its number; the flow stores it with the epoch, so a repeated batch commits once.
"""

from __future__ import annotations

import atexit
import itertools
import threading
from collections.abc import Callable, Mapping
from functools import cache
from typing import TYPE_CHECKING, Any

from penstock.base.errors import InvalidOption, PenstockError, SparkFailed

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.streaming.query import StreamingQuery

Trigger = str | Mapping[str, Any] | None
OnBatch = Callable[[str, Any, str], None]  # table, rows, the name of the batch

_NUMBERS = itertools.count(1)

TRIGGERS = ("processingTime", "availableNow", "once")


def trigger_options(trigger: Trigger) -> dict[str, Any]:
    """What `DataStreamWriter.trigger` takes.

    >>> trigger_options("5 seconds"), trigger_options("available now"), trigger_options(None)
    ({'processingTime': '5 seconds'}, {'availableNow': True}, {})
    """
    if trigger is None:
        return {}
    if isinstance(trigger, str):
        return {"availableNow": True} if _is_all(trigger) else {"processingTime": trigger}
    if isinstance(trigger, Mapping) and len(trigger) == 1 and next(iter(trigger)) in TRIGGERS:
        return dict(trigger)
    raise InvalidOption(
        f"unknown trigger {trigger!r}",
        hint='Use "5 seconds", "available now", or one of processingTime, availableNow and once in a dict.',
    )


def _is_all(trigger: str) -> bool:
    return trigger.replace(" ", "").replace("_", "").lower() == "availablenow"


@cache  # once for each Java process
def _let_go_at_exit(gateway: Any) -> None:
    """Have the process end without complaints.

    py4j keeps every function that Java may call for as long as the process lives, in a thread that never ends: with
    ours go all modules of penstock and DuckDB's, which tells of each of its types and functions that it was leaked.
    """
    atexit.register(gateway.gateway_property.pool.clear)


class Streams:
    """Streaming queries that feed tables. They run until they are stopped, or have read all there is."""

    def __init__(self) -> None:
        self.queries: dict[str, StreamingQuery] = {}
        self._failures: dict[str, PenstockError] = {}

    def add(
        self, table: str, frame: DataFrame, checkpoint: str, trigger: dict[str, Any], on_batch: OnBatch
    ) -> None:
        if not frame.isStreaming:
            raise InvalidOption(
                f'the DataFrame for "{table}" is not a stream',
                hint="Read it with spark.readStream, or use tick().",
            )
        started = threading.Event()
        found: list[StreamingQuery] = []

        def batch(rows: DataFrame, number: int) -> None:
            started.wait()
            if not found:
                return  # it did not start: nothing is read
            try:
                on_batch(table, rows, f"{found[0].id}:{number}")
            except PenstockError as error:
                self._failures[table] = error
                raise

        _let_go_at_exit(frame.sparkSession.sparkContext._gateway)
        writer = frame.writeStream.foreachBatch(batch).option("checkpointLocation", checkpoint)
        writer = writer.queryName(
            f"penstock {table} {next(_NUMBERS)}"
        )  # of all that run only one may have a name
        if trigger:
            writer = writer.trigger(**trigger)
        try:
            found.append(writer.start())
            self.queries[table] = found[0]
        finally:
            started.set()

    @property
    def is_active(self) -> bool:
        return any(query.isActive for query in self.queries.values())

    def await_termination(self, timeout: float | None = None) -> bool:
        """Wait until all have ended (or the seconds have passed); raises what made one fail."""
        for table, query in self.queries.items():
            try:
                done = query.awaitTermination(timeout)  # type: ignore[arg-type]
            except Exception as error:
                raise self._failure(table, error) from error
            if timeout is not None and not done:
                return False
        return True

    def process_all_available(self) -> None:
        """Wait until what is there now has been applied."""
        for table, query in self.queries.items():
            try:
                query.processAllAvailable()
            except Exception as error:
                raise self._failure(table, error) from error

    def _failure(self, table: str, error: Exception) -> PenstockError:
        known = self._failures.get(table)
        if known is not None:
            return type(known)(known.message, hint=known.hint)
        lines = [line for line in str(error).strip().splitlines() if line.strip()]
        return SparkFailed(
            f'the stream of "{table}" failed: {lines[0] if lines else type(error).__name__}',
            hint="Mend what it says and start the stream again: it goes on where it was.",
        )

    def stop(self) -> None:
        """End all; a batch that is being applied is applied or not, never by half."""
        for query in self.queries.values():
            query.stop()

    def __enter__(self) -> Streams:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()
