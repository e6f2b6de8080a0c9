"""Collection: history beyond its retention is forgotten, and files that nothing names are deleted.

A file goes only when no manifest, no epoch of the kept history and no pin names it, and only some
time after that, so that a reader that has just read the manifest before this one still finds it.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

from penstock.base import faults
from penstock.base.limits import COLLECT_AFTER_SECONDS, TRIM_GROUPS_MAX
from penstock.commit import keys
from penstock.commit.files import FOLDER, PARENT, Files
from penstock.commit.manifest import Manifest
from penstock.commit.pins import pinned
from penstock.commit.record import EpochRecord, files_from_json, group_time
from penstock.commit.truth import Truth


@dataclass(frozen=True)
class Trim:
    """What of the log can go, and the oldest epoch that can be read afterwards."""

    history_from: tuple[int, int] | None = None  # with its time
    deletes: Sequence[bytes] = ()
    epochs: Sequence[int] = field(default_factory=list)  # those of the log's files that go


class Collector:
    """Knows which files are in use."""

    def __init__(
        self, truth: Truth, files: Files, manifest: Manifest, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._truth = truth
        self._files = files
        self._clock = clock
        self._named = set(manifest.files())
        self._of_log: dict[int, list[str]] = {}  # by epoch
        self._dead: dict[str, float] = {}  # files that nothing names, and since when
        self._held: list[set[str]] = []
        self._lock = threading.Lock()
        for key, value in truth.scan(keys.LOG_FILES, keys.after(keys.LOG_FILES)):
            self._of_log[keys.number_of(key)] = files_from_json(value)

    def keep(self, records: Sequence[EpochRecord]) -> None:
        """These epochs are in the log: their files are in use."""
        for record in records:
            names = [part.file.name for part in record.parts if part.file is not None]
            if names:
                self._of_log[record.epoch] = names

    def trim(self, flushed_epoch: int, now_us: int, retain_s: float) -> Trim:
        """The epochs of the log that recovery does not need and history does not retain."""
        before_us = now_us - int(retain_s * 1_000_000)
        deletes: list[bytes] = []
        last: tuple[int, int] | None = None
        with faults.step("collect.trim"):
            for key, value in self._truth.scan(keys.LOG, keys.serial(keys.LOG, flushed_epoch + 1)):
                time_us = group_time(value)
                if time_us >= before_us or len(deletes) >= TRIM_GROUPS_MAX:
                    break
                deletes.append(key)
                last = keys.number_of(key), time_us
        if last is None:
            return Trim()
        epochs = [epoch for epoch in self._of_log if epoch <= last[0]]
        deletes += [keys.serial(keys.LOG_FILES, epoch) for epoch in epochs]
        return Trim(last, deletes, epochs)

    def collect(self, manifest: Manifest, trim: Trim | None = None, at_once: bool = False) -> int:
        """Delete the files that have not been needed for a while; how many."""
        freed = set(self._named)
        for epoch in trim.epochs if trim is not None else ():
            freed.update(self._of_log.pop(epoch, ()))
        self._named = set(manifest.files())
        live = self._named.union(*self._of_log.values())
        now = self._clock()
        for name in freed - live:
            if not name.startswith(PARENT):
                self._dead.setdefault(name, now)
        ripe = [n for n, since in self._dead.items() if at_once or now - since >= COLLECT_AFTER_SECONDS]
        return self._delete([name for name in ripe if name not in live])

    def sweep(self) -> int:
        """Delete what sessions before this one wrote and nothing names: what crashes left behind."""
        live = self._named.union(*self._of_log.values())
        own = f"{FOLDER}/{self._files.session}-"
        found = [entry.name for entry in self._files.objects.list(FOLDER)]
        return self._delete([name for name in found if name not in live and not name.startswith(own)])

    @contextmanager
    def holding(self, names: Iterable[str]) -> Iterator[None]:
        """Delete none of these files meanwhile: somebody copies them."""
        held = set(names)
        with self._lock:
            self._held.append(held)
        try:
            yield
        finally:
            with self._lock:
                self._held.remove(held)

    def _delete(self, names: Sequence[str]) -> int:
        if not names:
            return 0
        kept = pinned(self._files.objects)
        with self._lock:
            kept = kept.union(*self._held)
        doomed = [name for name in names if name not in kept]
        with faults.step("collect.files"):
            self._files.objects.delete(doomed)
        for name in doomed:
            self._dead.pop(name, None)
        return len(doomed)
