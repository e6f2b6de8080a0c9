"""History: what changed in a relation between two epochs, and which epoch it was at a time.

A relation's rows at an epoch are its rows now, less what has changed since: Z-sets can be subtracted.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime

from penstock.base.errors import CorruptState, HistoryGone, InvalidOption
from penstock.base.limits import SCAN_ROWS_MAX
from penstock.commit import keys
from penstock.commit.files import Files
from penstock.commit.manifest import Manifest
from penstock.commit.record import EpochRecord, Part, decode_group
from penstock.commit.truth import Truth
from penstock.state.packing import unpack
from penstock.zset.types import SqlType
from penstock.zset.zset import ZSet, union


def now_us() -> int:
    return time.time_ns() // 1000


class History:
    """Reads the log of epochs."""

    def __init__(
        self,
        truth: Truth,
        files: Callable[[], Files],
        manifest: Callable[[], Manifest],
        clock_us: Callable[[], int] = now_us,
    ) -> None:
        self._clock_us = clock_us
        self._truth = truth
        self._files = files
        self._manifest = manifest

    @property
    def oldest(self) -> int:
        """The oldest epoch whose state can still be had."""
        return self._manifest().history_from

    def check(self, epoch: int, name: str = "", retain_s: float | None = None) -> None:
        """Raise if the state of this epoch is not to be had any more, or is beyond its relation's retention."""
        oldest = self.oldest
        if retain_s is not None and epoch >= oldest:
            newer = self._first_record(epoch + 1)  # it was current until this one came
            before_us = self._clock_us() - int(retain_s * 1_000_000)
            if newer is None or newer.time_us >= before_us:
                return
            oldest = self._first_since(before_us, epoch + 1)
        if epoch < oldest:
            of = f' of "{name}"' if name else ""
            raise HistoryGone(
                f"epoch {epoch} is beyond what is retained: the oldest epoch to be had{of} is {oldest}",
                hint="Keep more with retain_history= or RETAIN HISTORY FOR.",
            )

    def _first_record(self, first: int) -> EpochRecord | None:
        """The record of the epoch `first`, or of the next one that there is."""
        return next(read_log(self._truth, first, page_rows=1), None)

    def _first_since(self, before_us: int, epoch: int) -> int:
        """The oldest epoch that was still current at a time."""
        for record in read_log(self._truth, epoch):
            if record.time_us >= before_us:
                return record.epoch - 1
            epoch = record.epoch
        return epoch

    def deltas(
        self, relation: int, types: Sequence[SqlType], first: int, last: int
    ) -> Iterator[tuple[int, int, ZSet]]:
        """The epochs from `first` to `last` that changed the relation: number, time, delta."""
        for record in self.records(first, last):
            parts = record.parts_of(relation)
            if parts:
                yield record.epoch, record.time_us, read_parts(self._files(), parts, types)

    def records(self, first: int, last: int) -> Iterator[EpochRecord]:
        """The epochs from `first` to `last`, all of them."""
        expected = first
        for record in read_log(self._truth, first):
            # The writer may forget epochs while somebody reads: half of a history would be wrong.
            if record.epoch > last or record.epoch != expected:
                break
            expected += 1
            yield record
        if expected <= last:
            self.check(expected - 1)
            raise CorruptState(f"epoch {expected} is not in the log of epochs")

    def _time_of(self, epoch: int, manifest: Manifest) -> int:
        if epoch == manifest.history_from:
            return manifest.history_from_us
        record = self._first_record(epoch)
        return manifest.time_us if record is None else record.time_us

    def epoch_at(self, time_us: int, newest: int) -> int:
        """The last epoch that was committed at this time or before it."""
        manifest = self._manifest()
        if time_us < manifest.history_from_us:
            raise HistoryGone(
                f"{_shown(time_us)} is beyond what is retained: the oldest epoch to be had is "
                f"{manifest.history_from}, of {_shown(manifest.history_from_us)}",
                hint="Keep more with retain_history= or RETAIN HISTORY FOR.",
            )
        if time_us > self._clock_us() and time_us > self._time_of(newest, manifest):
            raise InvalidOption(f"{_shown(time_us)} is in the future: what will be then is not known")
        low, high = manifest.history_from, newest  # the answer is one of low .. high
        while low < high:
            middle = (low + high + 1) // 2
            record = self._first_record(middle)
            if record is None or record.time_us > time_us:
                high = middle - 1
            else:
                low = middle
        return low


def _shown(time_us: int) -> str:
    time = datetime.fromtimestamp(time_us // 1_000_000, UTC).replace(microsecond=time_us % 1_000_000)
    return str(time)


def read_log(truth: Truth, first: int, page_rows: int = SCAN_ROWS_MAX) -> Iterator[EpochRecord]:
    """The epochs from `first` on, in order."""
    for _, value in truth.scan(keys.serial(keys.LOG, first), keys.after(keys.LOG), page_rows):
        for record in decode_group(value):
            if record.epoch >= first:
                yield record


def read_parts(files: Files, parts: Sequence[Part], types: Sequence[SqlType]) -> ZSet:
    """The rows of one relation's delta."""
    return union([_read_part(files, part, types) for part in parts])


def _read_part(files: Files, part: Part, types: Sequence[SqlType]) -> ZSet:
    if part.file is not None:
        batch = files.batch(part.file, types)
        batch.file()  # mapped now: when history has been forgotten the file may be gone
        return ZSet(batch.columns, batch.weights)
    _, columns, measures = unpack(part.packed, types)
    return ZSet(columns, measures[0])  # type: ignore[arg-type]
