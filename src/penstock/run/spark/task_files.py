"""The flow's files in a task's process, which runs many tasks: what one has mapped, the next finds mapped."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence

from penstock.base import faults
from penstock.base.limits import TASK_BATCHES_OPEN_MAX
from penstock.commit.files import Files, new_session
from penstock.commit.places import Places
from penstock.run.wave import Used
from penstock.state.batch import Batch
from penstock.state.batch_file import FileRef, StoredBatch
from penstock.zset.types import SqlType

_READ: dict[Places, OpenFiles] = {}  # of this process


class OpenFiles:
    """Files that were opened for reading; those used longest ago are let go."""

    def __init__(self, places: Places) -> None:
        self.files = places.open()
        self._batches: OrderedDict[str, StoredBatch] = OrderedDict()

    @staticmethod
    def of(places: Places) -> OpenFiles:
        found = _READ.get(places)
        if found is None:
            found = _READ[places] = OpenFiles(places)
        return found

    def batch(self, ref: FileRef, types: Sequence[SqlType]) -> Batch:
        found = self._batches.get(ref.name)
        if found is None or found.ref != ref:
            found = self._batches[ref.name] = self.files.batch(ref, types)
            if len(self._batches) > TASK_BATCHES_OPEN_MAX:
                self._batches.popitem(last=False)
        else:
            self._batches.move_to_end(ref.name)
        return found


class AttemptFiles:
    """What one attempt at a task reads and writes. Its files have names that no other attempt can have, and
    count as the driver's, so that nobody takes them for what a dead process left behind."""

    def __init__(self, places: Places, session: str) -> None:
        self._session = session
        self._read = OpenFiles.of(places)
        self._write: Files | None = None
        self._before = self._so_far()

    def batch(self, ref: FileRef, types: Sequence[SqlType]) -> Batch:
        return self._read.batch(ref, types)

    def write(self, batch: Batch) -> FileRef:
        if self._write is None:
            self._write = self._read.files.under(new_session(of=self._session))
        with faults.step("task.write"):
            return self._write.write(batch.hashes, batch.columns, batch.measures)

    def used(self) -> Used:
        """A process runs one task at a time: what was done since this one began is its doing."""
        return Used(*[now - then for now, then in zip(self._so_far(), self._before, strict=True)])

    def _so_far(self) -> tuple[int, int, int]:
        files = self._read.files
        return files.files_opened, files.requests, files.bytes_fetched
