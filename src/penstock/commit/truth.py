"""The only door to SlateDB, which holds the truth: catalog, manifest, the log of epochs, small batches.

SlateDB's binding is asynchronous, so an event loop in a thread of its own serves it, and everybody
else makes plain calls. Writes are atomic and ordered; `flush` returns when all of them are on storage.
A second process that opens the same database for writing fences this one off.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Coroutine, Iterable, Iterator, Mapping
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeout
from typing import Any, TypeVar

from slatedb import uniffi as slate

from penstock.base.errors import CorruptState, Fenced, PenstockError, StorageError, StorageUnavailable
from penstock.base.limits import (
    READER_POLL_MS,
    SCAN_ROWS_MAX,
    STORAGE_ASK_AFTER_SECONDS,
    STORAGE_CALL_SECONDS_MAX,
    TRUTH_COLLECT_SECONDS,
)
from penstock.commit.wal_disk import WalDisk
from penstock.store.location import Location
from penstock.store.open import open_objects
from penstock.store.slate import slate_store

T = TypeVar("T")


class Truth:
    """An ordered map from bytes to bytes on object storage, with atomic writes."""

    def __init__(self, location: Location, read_only: bool = False, sync: bool = True) -> None:
        self._disk = WalDisk(location.path / "db" / "wal") if sync and location.scheme == "file" else None
        self._url = location.url
        self._objects = open_objects(location)
        self._stuck = False  # storage has left a call without an answer
        self.read_only = read_only
        self._db: Any = None
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._serve, name="penstock-truth", daemon=True)
        self._thread.start()
        store, path = slate_store(location)
        try:
            self._db = self._open(store, path)
        except BaseException:
            self._end_loop()
            raise

    def _open(self, store: Any, path: str) -> Any:
        if self.read_only:
            return self._call(_open_reader(store, path))
        try:
            return self._call(_open_writer(store, path))
        except CorruptState:
            # Of two that make a new database at once, one meets the other's first file.
            return self._call(_open_writer(store, path))

    def _serve(self) -> None:
        asyncio.set_event_loop(self._loop)
        self._loop.run_forever()

    def _call(self, work: Coroutine[Any, Any, T]) -> T:
        future: Future[T] = asyncio.run_coroutine_threadsafe(work, self._loop)
        try:
            return self._answer(future)
        except slate.Error as error:
            raise self._translated(error) from None
        except BaseException:
            future.cancel()
            raise

    def _answer(self, future: Future[T]) -> T:
        """Wait for a call. SlateDB tries again without end, and does not say why: the storage is asked."""
        if self._stuck:
            return self._last_answer(future)
        until = time.monotonic() + STORAGE_CALL_SECONDS_MAX
        while time.monotonic() < until:
            try:
                return future.result(min(STORAGE_ASK_AFTER_SECONDS, STORAGE_CALL_SECONDS_MAX))
            except FutureTimeout:
                if not self.read_only:
                    self._ask()
        self._stuck = True
        raise StorageError(
            f"storage at {self._url} has not answered for {STORAGE_CALL_SECONDS_MAX} seconds",
            hint="Whether the last write is there is not known: open the flow again to see.",
        )

    def _ask(self) -> None:
        try:
            self._objects.probe()
        except StorageUnavailable:
            pass  # it may come back
        except StorageError:
            self._stuck = True
            raise

    def _last_answer(self, future: Future[T]) -> T:
        try:
            return future.result(STORAGE_ASK_AFTER_SECONDS)
        except FutureTimeout:
            raise StorageError(
                f"storage at {self._url} does not answer", hint="Open the flow again."
            ) from None

    def _translated(self, error: slate.Error) -> PenstockError:
        text = getattr(error, "message", None) or str(error)
        if isinstance(error, slate.Error.Closed) and error.reason == slate.CloseReason.FENCED:
            return Fenced(
                f"another process has opened the flow at {self._url} for writing",
                hint="This one has stopped: nothing that it acknowledged as durable is lost. "
                "Open the flow with read_only=True to read it.",
            )
        if isinstance(error, slate.Error.Data):
            return CorruptState(f"the database at {self._url} is corrupt: {text}")
        return StorageError(
            f"storage at {self._url}: {text}", hint="Check the storage, then open the flow again."
        )

    # -- writing ---------------------------------------------------------------------------

    def write(self, puts: Mapping[bytes, bytes], deletes: Iterable[bytes] = ()) -> None:
        """All of it or nothing; later writes come after it. Not yet durable."""
        batch = slate.WriteBatch()
        for key, value in puts.items():
            batch.put(key, value)
        for key in deletes:
            batch.delete(key)
        self._call(self._write(batch))

    async def _write(self, batch: Any) -> None:
        await self._db.write(batch)

    def flush(self) -> None:
        """Return when everything written is on storage."""
        self._call(self._flush(slate.FlushType.WAL))
        if self._disk is not None:
            self._disk.sync()

    def settle(self) -> None:
        """Sort what was written into the database's own files, so that opening it has nothing to replay."""
        self._call(self._flush(slate.FlushType.MEM_TABLE))

    async def _flush(self, kind: Any) -> None:
        await self._db.flush_with_options(slate.FlushOptions(flush_type=kind))

    # -- reading ---------------------------------------------------------------------------

    def get(self, key: bytes) -> bytes | None:
        return self._call(self._get(key))

    async def _get(self, key: bytes) -> bytes | None:
        found: bytes | None = await self._db.get(key)
        return found

    def scan(
        self, first: bytes, last: bytes, page_rows: int = SCAN_ROWS_MAX
    ) -> Iterator[tuple[bytes, bytes]]:
        """Keys and values from `first` up to, not including, `last`, in order, fetched `page_rows` at a time."""
        iterator = self._call(self._scan(first, last))
        while True:
            rows = self._call(self._next(iterator, page_rows))
            for row in rows:
                yield row.key, row.value
            if len(rows) < page_rows:
                return

    async def _scan(self, first: bytes, last: bytes) -> Any:
        wanted = slate.KeyRange(start=first, start_inclusive=True, end=last, end_inclusive=False)
        return await self._db.scan(wanted)

    async def _next(self, iterator: Any, rows: int) -> Any:
        return await iterator.next_batch(rows)

    # -- the end ---------------------------------------------------------------------------

    def close(self) -> None:
        """End it; what was written and not flushed is flushed if this process is still the writer."""
        if self._db is None:
            return
        try:
            self._call(self._shutdown())
        except PenstockError:
            pass  # fenced or out of reach: there is nothing left to end
        finally:
            self._db = None
            self._end_loop()

    async def _shutdown(self) -> None:
        await self._db.shutdown()

    def _end_loop(self) -> None:
        asyncio.run_coroutine_threadsafe(_cancel_others(), self._loop).result()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()


async def _cancel_others() -> None:
    """End the calls that nobody waits for any more."""
    others = asyncio.all_tasks() - {asyncio.current_task()}
    for task in others:
        task.cancel()
    await asyncio.gather(*others, return_exceptions=True)


async def _open_writer(store: Any, path: str) -> Any:
    builder = slate.DbBuilder(path, store)
    settings = slate.Settings.default()
    # Each write is flushed by us; the interval is only a safety net.
    settings.set("flush_interval", '"100ms"')
    for kind in ("manifest", "wal", "compacted", "compactions"):
        settings.set(f"garbage_collector_options.{kind}_options.interval", f'"{TRUTH_COLLECT_SECONDS}s"')
        settings.set(f"garbage_collector_options.{kind}_options.min_age", f'"{TRUTH_COLLECT_SECONDS}s"')
    builder.with_settings(settings)
    return await builder.build()


async def _open_reader(store: Any, path: str) -> Any:
    builder = slate.DbReaderBuilder(path, store)
    builder.with_options(
        slate.ReaderOptions(
            manifest_poll_interval_ms=READER_POLL_MS,
            checkpoint_lifetime_ms=60_000,
            max_memtable_bytes=1 << 26,
            skip_wal_replay=False,
        )
    )
    builder.with_reader_mode(slate.ReaderMode.FOLLOW_LATEST())
    return await builder.build()
