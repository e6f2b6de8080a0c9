"""A reader of a flow that another process writes: it follows the log of epochs, and disturbs nobody.

It keeps the rows of tables and views, not the state of operators: the writer has worked out what
each view's delta is, and the log has it.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from penstock.base.errors import CorruptState, PenstockError, StorageNotFound
from penstock.base.limits import READER_LOAD_ATTEMPTS_MAX, READER_POLL_MS
from penstock.commit.files import Files
from penstock.commit.history import History, now_us, read_log
from penstock.commit.manifest import Manifest
from penstock.commit.once import Offset, read_offset
from penstock.commit.record import EpochRecord
from penstock.commit.truth import Truth
from penstock.engine import opening, slots
from penstock.engine.core import Core
from penstock.engine.opening import Settings
from penstock.zset.zset import ZSet

OnEpoch = Callable[[int, dict[str, ZSet]], None]


class Follower:
    """The storage of one flow, opened for reading."""

    def __init__(
        self,
        settings: Settings,
        lock: threading.RLock,
        on_epoch: OnEpoch,
        clock_us: Callable[[], int] = now_us,
    ) -> None:
        self.settings = settings
        self._lock = lock
        self._on_epoch = on_epoch
        self._truth = opening.open_reader(settings.location)
        self.failure: PenstockError | None = None
        self._closing = threading.Event()
        try:
            self._load()
        except BaseException:
            self._truth.close()
            raise
        self.history = History(self._truth, lambda: self.files, self._manifest, clock_us)
        self._thread = threading.Thread(target=self._follow, name="penstock-follow", daemon=True)
        self._thread.start()

    def _manifest(self) -> Manifest:
        return opening.read_manifest(self._truth)

    @property
    def truth(self) -> Truth:
        return self._truth

    def _load(self) -> None:
        """Read everything at one manifest. The writer goes on meanwhile: what does not fit is read again."""
        for attempt in range(READER_LOAD_ATTEMPTS_MAX):
            manifest = opening.read_manifest(self._truth)
            version, catalog = opening.read_catalog(self._truth)
            files = opening.open_files(self.settings, manifest.parents)
            core = Core()
            try:
                chunks = opening.read_chunks(self._truth)
                opening.load(core, catalog, manifest, chunks, files, kept=False)
                slots.map_files(core)  # now: later the writer may have deleted them
                if version == manifest.catalog and opening.read_manifest(self._truth) == manifest:
                    self._install(core, files, manifest, version)
                    return
            except PenstockError as error:
                # Corrupt, and no writer has moved on: another try would find the same.
                final = isinstance(error, CorruptState) and opening.read_manifest(self._truth) == manifest
                if final or attempt + 1 == READER_LOAD_ATTEMPTS_MAX:
                    core.close()
                    raise
            core.close()
            time.sleep(READER_POLL_MS / 1000)
        raise StorageNotFound(
            f"the flow at {self.settings.location.url} changes too fast to be opened", hint="Try again."
        )

    def _install(self, core: Core, files: Files, manifest: Manifest, version: int) -> None:
        self.core = core
        self.files = files
        self.catalog_version = version
        for record in read_log(self._truth, manifest.epoch + 1):
            if record.epoch != core.epoch + 1:
                break
            self._apply(record)

    def _apply(self, record: EpochRecord) -> dict[str, ZSet]:
        changes = opening.changes_of(self.core, record, self.files)
        views = opening.views_of(self.core, record, self.files)
        self.core.follow(changes, views)
        return {**{name: delta for name, (delta, _) in changes.items()}, **views}

    # -- the thread ------------------------------------------------------------------------

    def _follow(self) -> None:
        while not self._closing.wait(READER_POLL_MS / 1000):
            try:
                self.refresh()
                self.failure = None
            except PenstockError as error:
                self.failure = error  # said to whoever reads next; storage may come back

    def refresh(self) -> None:
        """Take in what the writer has committed since."""
        if self.core.failure is not None or (
            opening.read_manifest(self._truth).catalog != self.catalog_version
        ):
            self._reload()
            return
        for record in list(read_log(self._truth, self.core.epoch + 1)):
            with self._lock:
                if record.epoch <= self.core.epoch:
                    continue
                # A gap: it was away for longer than history is kept. An unknown relation: it has been
                # made since the catalog was looked at.
                known = all(self.core.catalog.by_id(part.relation) for part in record.parts)
                if record.epoch == self.core.epoch + 1 and known:
                    self._on_epoch(record.epoch, self._apply(record))
                    continue
            self._reload()
            return

    def _reload(self) -> None:
        with self._lock:
            old = self.core
            self._load()
            old.close()
            self._on_epoch(self.core.epoch, {})

    def offset(self, table: int) -> Offset | None:
        """How far the writer has read a table's source."""
        return read_offset(self._truth, table)

    def check(self) -> None:
        """Raise what keeps the reader from following, if anything does."""
        if self.failure is not None:
            raise type(self.failure)(self.failure.message, hint=self.failure.hint)

    def close(self) -> None:
        self._closing.set()
        if threading.current_thread() is not self._thread:
            self._thread.join()
        self._truth.close()
        self.files.close()
