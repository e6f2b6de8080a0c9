"""The journal: epochs on their way to storage, one atomic write for all that are waiting.

Whoever commits hands an entry over and goes on; a thread writes what has gathered. An entry that
somebody waits for is written at once, together with every other that has come meanwhile (group
commit); the others at the latest after the commit interval. Order is kept, so a crash can only lose
the last epochs, each of them whole. What else has to be written (the audit log) goes along with them, or
by itself when no epoch comes within the interval.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from penstock.base import faults
from penstock.base.errors import PenstockError, StorageError
from penstock.base.limits import CHUNK_BYTES_MAX, JOURNAL_BYTES_MAX, STORAGE_CALL_SECONDS_MAX
from penstock.commit.alongside import Alongside, Nothing
from penstock.commit.record import EpochRecord, Part, log_writes
from penstock.commit.truth import Truth
from penstock.state.batch import Batch
from penstock.state.batch_file import FileRef
from penstock.state.packing import pack
from penstock.zset.zset import ZSet

FileWriter = Callable[[ZSet | Batch], FileRef]


@dataclass(frozen=True)
class Entry:
    """One epoch to be written: the delta of each relation, and what else must become true with it."""

    epoch: int
    time_us: int
    deltas: Sequence[tuple[int, ZSet | Batch]]
    note: dict[str, Any] = field(default_factory=dict)
    puts: dict[bytes, bytes] = field(default_factory=dict)
    deletes: Sequence[bytes] = ()

    def size(self) -> int:
        return sum(delta.nbytes() for _, delta in self.deltas)


class Journal:
    """Writes entries in order. `durable` is the last epoch that is on storage."""

    def __init__(
        self,
        truth: Truth,
        write_file: FileWriter,
        epoch: int,
        interval_s: float,
        on_write: Callable[[Sequence[EpochRecord]], None] = lambda _: None,
        alongside: Alongside | None = None,
        on_stop: Callable[[PenstockError], None] = lambda _: None,
        clock_us: Callable[[], int] = lambda: time.time_ns() // 1000,
    ) -> None:
        self._truth = truth
        self._write_file = write_file
        self._interval_s = interval_s
        self._on_write = on_write
        self._alongside: Alongside = alongside or Nothing()
        self._on_stop = on_stop
        self._clock_us = clock_us
        self.writing_us: int | None = None  # since when storage has been writing
        self._woken = False  # there is something to write beside epochs
        self.on_durable: Callable[[int], None] = lambda _: (
            None
        )  # told of each epoch that is on storage, and of the end
        self._waiting: deque[Entry] = deque()
        self._waiting_bytes = 0
        self._changed = threading.Condition()
        self._urgent = 0  # the last epoch that somebody waits for
        self._closing = False
        self.durable = epoch
        self.failure: PenstockError | None = None
        self._thread = threading.Thread(target=self._serve, name="penstock-journal", daemon=True)
        self._thread.start()

    def submit(self, entry: Entry) -> None:
        """Queue an entry. Blocks only while too much is waiting already."""
        size = entry.size()
        with self._changed:
            self._check()
            while self._waiting and self._waiting_bytes + size > JOURNAL_BYTES_MAX:
                self._urgent = self._waiting[-1].epoch
                self._changed.notify_all()
                self._changed.wait()
                self._check()
            self._waiting.append(entry)
            self._waiting_bytes += size
            if len(self._waiting) == 1:
                self._changed.notify_all()

    def is_full(self, entry: Entry) -> bool:
        """Whether handing this over would have to wait until storage has caught up."""
        return bool(self._waiting) and self._waiting_bytes + entry.size() > JOURNAL_BYTES_MAX

    def wake(self) -> None:
        """There is something to write alongside."""
        with self._changed:
            self._woken = True
            self._changed.notify_all()

    def wait(self, epoch: int) -> None:
        """Return when the epoch is on storage; raise if it cannot be brought there."""
        with self._changed:
            if self.durable >= epoch:
                return
            self._urgent = max(self._urgent, epoch)
            self._changed.notify_all()
            done = self._changed.wait_for(
                lambda: self.durable >= epoch or self.failure is not None, STORAGE_CALL_SECONDS_MAX
            )
            if self.durable < epoch:
                self._check()
                assert not done
                raise StorageError(
                    f"epoch {epoch} is visible but not yet on storage after {STORAGE_CALL_SECONDS_MAX} seconds",
                    hint="flush() waits for it again.",
                )

    def advance(self, epoch: int) -> None:
        """Epochs up to this one are on storage by another way: with a change of the catalog."""
        with self._changed:
            self.durable = max(self.durable, epoch)
            self._changed.notify_all()
        self.on_durable(self.durable)

    def check(self) -> None:
        """Raise what made the journal stop, if anything did."""
        if self.failure is not None:
            with self._changed:
                self._check()

    def _check(self) -> None:
        if self.failure is not None:
            raise type(self.failure)(self.failure.message, hint=self.failure.hint)

    def close(self) -> None:
        """Write what is waiting, and end."""
        with self._changed:
            self._closing = True
            self._changed.notify_all()
        self._thread.join()

    # -- the thread ------------------------------------------------------------------------

    def _serve(self) -> None:
        while True:
            entries = self._next_group()
            if entries is None:
                self._write_alongside()
                return
            if not entries:
                self._write_alongside()
                continue
            self.writing_us = self._clock_us()
            try:
                self._write(entries)
            except BaseException as error:
                self.fail(error)
                return
            finally:
                self.writing_us = None
            with self._changed:
                self.durable = entries[-1].epoch
                self._changed.notify_all()
            self.on_durable(self.durable)

    def _next_group(self) -> list[Entry] | None:
        with self._changed:
            self._changed.wait_for(lambda: self._waiting or self._woken or self._closing)
            if self._closing and not self._waiting:
                return None
            until = time.monotonic() + self._interval_s
            while not self._closing and (not self._waiting or self._urgent < self._waiting[0].epoch):
                left = until - time.monotonic()
                if left <= 0 or not self._changed.wait(left):
                    break
            entries = list(self._waiting)
            self._woken = False
            self._waiting.clear()
            self._waiting_bytes = 0
            self._changed.notify_all()
            return entries

    def _write(self, entries: Sequence[Entry]) -> None:
        with faults.step("commit.files"):
            records = [self.record(entry) for entry in entries]
        puts = log_writes(records)
        deletes: list[bytes] = []
        for entry in entries:
            puts.update(entry.puts)
            deletes += entry.deletes
        more = self._alongside.take()
        puts.update(more.puts)
        deletes += more.deletes
        with faults.step("commit.write"):
            self._truth.write(puts, [key for key in deletes if key not in puts])
        with faults.step("commit.durable"):
            self._truth.flush()
        self._on_write(records)

    def _write_alongside(self) -> None:
        """Write what is not epochs. No promise hangs on it, so a failure stops nothing: it is tried again with
        the next epoch, which does stop the flow if it fails as well."""
        writes = self._alongside.take()
        if not writes.puts or self.failure is not None:
            return
        try:
            self._truth.write(writes.puts, writes.deletes)
            self._truth.flush()
        except PenstockError:
            self._alongside.put_back(writes)

    def record(self, entry: Entry) -> EpochRecord:
        """The entry as it is written: small deltas packed, large ones as files."""
        parts = [self._part(relation, delta) for relation, delta in entry.deltas]
        return EpochRecord(entry.epoch, entry.time_us, tuple(parts), entry.note)

    def _part(self, relation: int, delta: ZSet | Batch) -> Part:
        if delta.nbytes() > CHUNK_BYTES_MAX:
            return Part(relation, b"", self._write_file(delta))
        packed = pack(None, delta.columns, (delta.weights,))
        if len(packed) > CHUNK_BYTES_MAX:
            return Part(relation, b"", self._write_file(delta))
        return Part(relation, packed)

    def fail(self, error: BaseException) -> None:
        """Stop because of this error, unless another one has stopped it already."""
        if self.failure is not None:
            return
        if not isinstance(error, PenstockError):
            error = StorageError(f"the commit failed: {error}", hint="Open the flow again.")
        self.stop(error)

    def stop(self, error: PenstockError) -> None:
        """Take nothing more: what is in memory is not what is on storage."""
        with self._changed:
            self.failure = error
            self._waiting.clear()
            self._changed.notify_all()
        self._on_stop(error)
        self.on_durable(self.durable)
