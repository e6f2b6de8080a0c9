"""A flow on storage: opening it, committing its epochs, writing its state down, and closing it.

The order of things is what makes it safe. An epoch exists when its record is in the database: one
atomic write. The manifest, written now and then, only shortens recovery, which maps the manifest's
batches and runs the few epochs after it again. A change of the catalog is one write with the manifest
of the same moment, so recovery never runs an epoch under another catalog.
"""

from __future__ import annotations

import json
import os
import threading
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from penstock.base import faults
from penstock.base.errors import CorruptState, Fenced, MemoryLimitExceeded, PenstockError, StorageError
from penstock.base.limits import (
    FLUSH_EPOCHS_MAX,
    FLUSH_REPLAY_SECONDS_MAX,
    FLUSH_ROWS_MAX,
    UNWRITTEN_SHARE_MAX,
    UNWRITTEN_SHARE_WAIT,
)
from penstock.base.version import VERSION
from penstock.commit import keys
from penstock.commit.collect import Collector
from penstock.commit.files import PARENT
from penstock.commit.flusher import Captured, Flusher, Runs
from penstock.commit.history import History, now_us, read_log
from penstock.commit.journal import Entry, Journal
from penstock.commit.manifest import FORMAT, Manifest
from penstock.commit.once import Once
from penstock.commit.pins import unpin
from penstock.commit.record import EpochRecord, log_writes
from penstock.commit.truth import Truth
from penstock.engine import opening, slots
from penstock.engine.audit import read_audit, was_closed
from penstock.engine.core import Core
from penstock.engine.epochs import Change
from penstock.engine.meter import Meter
from penstock.engine.opening import Settings
from penstock.run.inline import Epoch
from penstock.state.batch import Batch
from penstock.state.batch_file import FileRef, StoredBatch
from penstock.state.output import in_memory
from penstock.state.scattered import Rows, Scattered
from penstock.zset.zset import ZSet

# Where SlateDB keeps what it has sorted out of its write-ahead log.
SYNCED_FOLDERS = ("db/compacted", "db/manifest")


class Durable:
    """The storage of one flow, opened for writing. Everything but the threads that it starts itself
    calls it with the flow's lock held, so that it never sees an epoch half done; only `wait` does not
    need it."""

    def __init__(
        self, core: Core, settings: Settings, clock_us: Callable[[], int] = now_us, meter: Meter | None = None
    ) -> None:
        self.core = core
        self._meter = Meter(clock_us) if meter is None else meter
        self.held: str | None = None  # what held the last epoch up, if something did
        self.settings = settings
        self._clock_us = clock_us
        self._catalog_version = 0
        self._time_us = 0
        self._debt_s = 0.0  # what recovery would have to run again
        self._debt_rows = 0
        self._debt_epochs = 0
        self._background: threading.Thread | None = None
        self._background_failure: PenstockError | None = None
        self._merged: Runs = {}  # runs that were put together: memory goes on with them
        opening.probe(settings)
        with faults.step("open.fence"):
            self.truth = Truth(settings.location, sync=settings.sync)
        try:
            self._open()
        except BaseException:
            self._let_go()
            raise

    # -- opening ---------------------------------------------------------------------------

    def _open(self) -> None:
        began = time.perf_counter()
        if not opening.read_format(self.truth):
            self._create()
        self.core.audit.load(read_audit(self.truth))
        with faults.step("open.load"):
            manifest = opening.read_manifest(self.truth)
            self.files = opening.open_files(self.settings, manifest.parents)
            self._catalog_version, catalog = opening.read_catalog(self.truth)
            opening.check_files(manifest, self.files)
            chunks = opening.read_chunks(self.truth)
            runs = opening.load(self.core, catalog, manifest, chunks, self.files, kept=True)
            self._time_us = manifest.time_us
        self.once = Once.load(self.truth)
        self.collector = Collector(self.truth, self.files, manifest)
        scratch = opening.scratch_of(self.settings)
        allocate = in_memory if scratch is None else scratch.allocate
        self.flusher = Flusher(self.truth, self.files, manifest, runs, allocate)
        with faults.step("open.replay"):
            for record in read_log(self.truth, manifest.epoch + 1):
                self._replay(record)
        self.journal = Journal(
            self.truth,
            self._write_delta,
            self.core.epoch,
            self.settings.commit_interval_s,
            self.collector.keep,
            self.core.audit,
            self._stopped,
            self._clock_us,
        )
        self.history = History(self.truth, lambda: self.files, lambda: self.flusher.manifest, self._clock_us)
        self.collector.sweep()
        self._note_opening(manifest, time.perf_counter() - began)

    def _note_opening(self, manifest: Manifest, cost_s: float) -> None:
        audit = self.core.audit
        event = "opened" if was_closed(audit.entries()) else "recovered"
        if event == "recovered":  # what it had acknowledged could not be seen until now
            self._meter.span(self._meter.opened_us, "RECOVERING")
        audit.on_record(self.journal.wake)
        audit.record(
            event,
            epochs_run_again=self.core.epoch - manifest.epoch,
            seconds=round(cost_s, 3),
            process=os.getpid(),
            version=VERSION,
        )

    def _stopped(self, error: PenstockError) -> None:
        """The journal takes nothing more: said in memory alone, since storage cannot be written."""
        event = "fenced" if isinstance(error, Fenced) else "stopped"
        self.core.audit.record(event, error=error.message, sqlstate=error.sqlstate)

    def _create(self) -> None:
        created_us = self._clock_us()
        about = {"format": FORMAT, "created_us": created_us, "flow": uuid.uuid4().hex[:12]}
        empty = Manifest(time_us=created_us, history_from_us=created_us)
        self.truth.write(
            {
                keys.FORMAT: json.dumps(about).encode(),
                keys.CATALOG: opening.catalog_bytes(self.core, 0),
                keys.MANIFEST: empty.encode(),
            }
        )
        self.truth.flush()

    def _replay(self, record: EpochRecord) -> None:
        """Run an epoch again: the same deltas through the same circuit give the same state."""
        began = time.perf_counter()
        core = self.core
        if record.epoch != core.epoch + 1:
            raise CorruptState(f"epoch {record.epoch} follows epoch {core.epoch} in the log")
        changes = opening.changes_of(core, record, self.files)
        if changes:
            core.commit(changes, core.propose(changes))
        else:
            core.epoch += 1
        self._time_us = record.time_us
        self._owe(time.perf_counter() - began, changes)

    # -- committing ------------------------------------------------------------------------

    def entry(self, changes: Mapping[str, Change], views: Mapping[str, Rows], note: dict[str, Any]) -> Entry:
        """The epoch that the core has just made, as the journal takes it."""
        catalog = self.core.catalog
        deltas: list[tuple[int, ZSet | Batch]] = []
        given = {name: delta if batch is None else batch for name, (delta, batch) in changes.items()}
        for name, rows in [*given.items(), *views.items()]:
            parts = rows.parts if isinstance(rows, Scattered) else (rows,)
            deltas += [(catalog.get(name).id, part) for part in parts]
        self._time_us = max(self._time_us + 1, self._clock_us())
        puts, deletes = self.once.writes(note, self.core.epoch)
        return Entry(self.core.epoch, self._time_us, deltas, note, puts, deletes)

    def commit(self, entry: Entry, changes: Mapping[str, Change], cost_s: float) -> None:
        """Send an epoch on its way to storage."""
        try:
            self._submit(entry)
        except BaseException as error:  # an epoch in memory that the log does not get: it would have a hole
            self.journal.fail(error)
            raise
        self._owe(cost_s, changes)
        self._go_on()
        if sum([len(delta) for delta, _ in changes.values()]) > FLUSH_ROWS_MAX:
            self.flush_state()  # before it is acknowledged: no restart runs a load again
        elif self.settings.memory_limit is not None:
            self._keep_within(self.settings.memory_limit)
        if self._debt_is_due() and self._background is None:
            self._flush_in_background()

    def _submit(self, entry: Entry) -> None:
        self.held = None
        if self.journal.is_full(entry):
            self.held = "THROTTLED"
            with self._meter.state("THROTTLED"):
                self.journal.submit(entry)
        else:
            self.journal.submit(entry)

    def commit_placed(self, entry: Entry) -> None:
        """Make an epoch durable whose state tasks have written already: its record and the manifest that names
        their files are one write, so that no restart runs it again."""
        try:
            self._join_background()
            self.journal.wait(self.core.epoch - 1)
            records = [self.journal.record(entry)]
            self.collector.keep(records)
            puts = {**log_writes(records), **entry.puts}
            self._merged = self.flusher.flush(
                self._capture(), puts, entry.deletes, step="define", merges=False
            )
            self.journal.advance(self.core.epoch)
        except BaseException as error:  # memory is ahead of storage: it must not go on
            self.journal.fail(error)
            raise
        self._go_on()
        self._flush_in_background()  # runs that should be put together are, beside the next epochs

    def check_fits(self, changes: Mapping[str, Change], epoch: Epoch) -> None:
        """Refuse an epoch that does not fit into the memory limit; nothing has been changed yet."""
        limit = self.settings.memory_limit
        if limit is None:
            return
        # What tasks have written to files takes no memory here.
        needed = sum(delta.nbytes() for delta, _ in changes.values() if isinstance(delta, ZSet))
        needed += sum(batch.nbytes() for _, batch in epoch.appends if not isinstance(batch, StoredBatch))
        if needed > limit:
            raise MemoryLimitExceeded(
                f"the tick needs {needed:,} bytes and the flow may use {limit:,}",
                hint="Nothing of it was applied. Make smaller ticks, or raise memory_limit.",
            )

    def _keep_within(self, limit: int) -> None:
        """State that is not on disk yet is written down before it takes too much of the memory."""
        unwritten = slots.fresh_bytes(self.core)
        if unwritten > limit * UNWRITTEN_SHARE_WAIT:
            self.flush_state()
        elif unwritten > limit * UNWRITTEN_SHARE_MAX and self._background is None:
            self._flush_in_background()

    def _write_delta(self, delta: ZSet | Batch) -> FileRef:
        """A large delta as a file. A table's batch is a file of the table's state at the same time."""
        if not isinstance(delta, Batch):
            return self.files.write(None, delta.columns, (delta.weights,))
        if not isinstance(delta.ref, FileRef):
            delta.ref = self.files.write(delta.hashes, delta.columns, delta.measures)
        assert isinstance(delta.ref, FileRef)
        return delta.ref

    def check(self) -> None:
        """Raise if the flow has stopped; try again what failed in the background."""
        self.journal.check()
        if self._background_failure is not None and self._background is None:
            self._background_failure = None
            self.flush_state()

    def wait(self, epoch: int) -> None:
        """Return when the epoch is on storage."""
        self.journal.wait(epoch)

    # -- writing state down ----------------------------------------------------------------

    def _owe(self, cost_s: float, changes: Mapping[str, Change]) -> None:
        self._debt_s += cost_s
        self._debt_rows += sum([len(delta) for delta, _ in changes.values()])
        self._debt_epochs += 1

    def _debt_is_due(self) -> bool:
        return (
            self._debt_s > FLUSH_REPLAY_SECONDS_MAX
            or self._debt_rows > FLUSH_ROWS_MAX
            or self._debt_epochs > FLUSH_EPOCHS_MAX
        )

    def _capture(self) -> Captured:
        with faults.step("flush.capture"):
            self._go_on()  # before more is taken: what has come since the last time belongs on top of it
            self._debt_s, self._debt_rows, self._debt_epochs = 0.0, 0, 0
            retain_s = max([self.settings.retain_s, *self._retentions()])
            return Captured(
                self.core.epoch, self._time_us, self._catalog_version, slots.capture(self.core), retain_s
            )

    def _retentions(self) -> list[float]:
        return [r.retain_s for r in self.core.catalog.stored() if r.retain_s is not None]

    def _flush_in_background(self) -> None:
        captured = self._capture()

        def work() -> None:
            try:
                self._flush(captured)
            except PenstockError as error:
                self._background_failure = error
            except BaseException as error:
                self._background_failure = StorageError(f"state could not be written down: {error!r}")
            finally:
                self._background = None

        self._background = threading.Thread(target=work, name="penstock-flush", daemon=True)
        self._background.start()

    def _flush(self, captured: Captured) -> None:
        """Write the state that was captured, and forget what nothing needs any more."""
        self.journal.wait(captured.epoch)  # the log comes first: history has no holes
        trim = self.collector.trim(captured.epoch, captured.time_us, captured.retain_s)
        self._merged = self.flusher.flush(captured, deletes=trim.deletes, history_from=trim.history_from)
        self.truth.settle()
        if self.settings.sync:  # before SlateDB deletes the log that these stand for
            for folder in SYNCED_FOLDERS:
                self.files.objects.sync(folder)
        self.collector.collect(self.flusher.manifest, trim)
        self._leave_parents()

    def _leave_parents(self) -> None:
        """A branch that names no file of its parents any more lets them go."""
        manifest = self.flusher.manifest
        if manifest.parents and not any(name.startswith(PARENT) for name in manifest.files()):
            self.flusher.forget_parents()
            for number, name in enumerate(manifest.pins):
                unpin(self.files.place(f"{PARENT}{number}/")[0], name)

    def flush_state(self) -> None:
        """Write everything down now."""
        self._join_background()
        self._flush(self._capture())
        self._go_on()

    def compact(self, done: Callable[[int, int], None] | None = None) -> int:
        """Merge every piece of state into one batch, write it, and delete what that frees; files deleted."""
        self._join_background()
        slots.compact(self.core, done)
        self._flush(self._capture())
        self._go_on()
        return self.collector.collect(self.flusher.manifest, at_once=True)

    def _go_on(self) -> None:
        """Let the state in memory go on with the runs that storage has put together."""
        if self._merged:
            merged, self._merged = self._merged, {}
            slots.rebase(self.core, merged)

    def _join_background(self) -> None:
        thread = self._background
        if thread is not None:
            thread.join()

    def define(self, pending: Sequence[Entry] = ()) -> None:
        """Make a change of the catalog durable, with the state and the epochs that belong to it."""
        try:
            self._define(pending)
        except BaseException as error:
            # The flow in memory is ahead of storage: it must not go on.
            self.journal.fail(error)
            raise
        self._go_on()
        self.collector.collect(self.flusher.manifest)

    def _define(self, pending: Sequence[Entry]) -> None:
        self._join_background()
        self.journal.wait(self.core.epoch - len(pending))
        self._catalog_version += 1
        puts = {keys.CATALOG: opening.catalog_bytes(self.core, self._catalog_version)}
        deletes: list[bytes] = []
        if pending:
            records = [self.journal.record(entry) for entry in pending]
            puts.update(log_writes(records))
            for entry in pending:
                puts.update(entry.puts)
                deletes += entry.deletes
            self.collector.keep(records)
        audit = self.core.audit.take(with_catalog=True)
        puts.update(audit.puts)
        deletes += audit.deletes
        self._merged = self.flusher.flush(self._capture(), puts, deletes, step="define")
        self.journal.advance(self.core.epoch)

    # -- the end ---------------------------------------------------------------------------

    def close(self) -> None:
        """Bring everything to storage and let go of it."""
        try:
            self._join_background()
            whole = self.core.failure is None and self.journal.failure is None
            if whole and self.core.epoch > self.flusher.manifest.epoch:
                self.flush_state()
            if whole:
                self.core.audit.record("closed")
        finally:
            self._let_go()

    def _let_go(self) -> None:
        """End what was begun: all of it, or as far as opening came."""
        for part in ("journal", "truth", "files"):
            found = getattr(self, part, None)
            if found is not None:
                found.close()
