"""Flushing: what is new in every piece of state becomes files and chunks that a manifest names.

It does not make anything durable that the journal has not made durable already: it saves recovery
from running the same epochs again. A flush writes what is new, and now and then puts runs together.
"""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from penstock.base import faults
from penstock.base.limits import CHUNK_BYTES_MAX, MERGE_HERE_ROWS_MAX
from penstock.commit import keys
from penstock.commit.compaction import first_to_merge, gather, levels, merge_in_slices
from penstock.commit.files import Files
from penstock.commit.manifest import ChunkRef, Manifest, Ref
from penstock.commit.truth import Truth
from penstock.state.batch import Batch, Layout
from penstock.state.batch_file import FileRef, StoredBatch
from penstock.state.output import Allocate, in_memory
from penstock.state.packing import pack
from penstock.zset.zset import ZSet

Runs = dict[str, list[Batch]]


@dataclass(frozen=True)
class Fresh:
    """What storage does not have of one piece of state."""

    layout: Layout
    is_new: bool  # nothing of it is on storage, or nothing that counts any more
    parts: Sequence[ZSet | Batch]


@dataclass(frozen=True)
class Captured:
    """What is new in a flow at an epoch: lists of what never changes, so taking it costs next to nothing."""

    epoch: int
    time_us: int
    catalog: int
    slots: Mapping[str, Fresh]
    retain_s: float = 0.0  # how long history is kept


class Flusher:
    """Writes manifests, one at a time. `manifest` is the last one that is on storage."""

    def __init__(
        self, truth: Truth, files: Files, manifest: Manifest, runs: Runs, allocate: Allocate = in_memory
    ) -> None:
        self._truth = truth
        self._files = files
        self._allocate = allocate
        self.manifest = manifest
        self._runs = runs
        self._waiting: dict[str, Fresh] = {}  # what flushes that failed have not written
        self._lock = threading.Lock()
        self.merge_elsewhere: Callable[[Layout, Sequence[Batch]], Sequence[Batch]] | None = None

    def flush(
        self,
        captured: Captured,
        puts: Mapping[bytes, bytes] | None = None,
        deletes: Iterable[bytes] = (),
        history_from: tuple[int, int] | None = None,
        step: str = "flush",
        merges: bool = True,
    ) -> Runs:
        """Write the manifest of what was captured, and with it whatever else must become true at once.

        Returns the runs of those pieces of state in which they were put together: who holds the state in
        memory can go on with them."""
        with self._lock:
            waiting = self._waiting = _joined(self._waiting, captured.slots)
            old = self.manifest
            writing = _Writing(self._files, old.next_chunk)
            runs: Runs = {}
            merged: Runs = {}
            for name, fresh in waiting.items():
                known = [] if fresh.is_new else self._runs.get(name, [])
                runs[name] = self._with_fresh(known, fresh, writing, merges)
                if runs[name][: len(known)] != known or _is_large(runs[name][len(known) :]):
                    merged[name] = runs[name]
            slots = {name: tuple([writing.ref(run) for run in found]) for name, found in runs.items()}
            manifest = replace(
                old,
                epoch=captured.epoch,
                time_us=captured.time_us,
                catalog=captured.catalog,
                slots=slots,
                next_chunk=writing.next_chunk,
                writer=self._files.session,
                history_from=old.history_from if history_from is None else history_from[0],
                history_from_us=old.history_from_us if history_from is None else history_from[1],
            )
            gone = [keys.serial(keys.CHUNK, n) for n in sorted(old.chunks() - manifest.chunks())]
            writes = {**writing.chunks, **(puts or {}), keys.MANIFEST: manifest.encode()}
            with faults.step(f"{step}.write"):
                self._truth.write(writes, [*gone, *deletes])
            with faults.step("flush.durable"):
                self._truth.flush()
            writing.done()
            self.manifest, self._runs, self._waiting = manifest, runs, {}
            return merged

    def _with_fresh(self, known: list[Batch], fresh: Fresh, writing: _Writing, merges: bool) -> list[Batch]:
        """The runs of one piece of state with what is new, some of them put together where that is due."""
        runs = [*known, *self._new_runs(fresh)]
        found = levels(runs)
        if not found:
            return runs
        *older, newest = [rows for _, rows in found]
        at = first_to_merge(older, newest) if merges else len(older)
        if at < len(older):
            start = found[at][0]
            merged = self._put_together(fresh.layout, runs[start:], writing)
            runs = [*runs[:start], *[run for run in merged if len(run)]]
        return [writing.stored(run) for run in runs]

    def _new_runs(self, fresh: Fresh) -> Iterator[Batch]:
        """What is new: batches that tasks have written as files are runs already, the rest becomes one."""
        for is_stored, parts in itertools.groupby(fresh.parts, lambda p: isinstance(p, StoredBatch)):
            if is_stored:
                yield from parts  # type: ignore[misc]
            else:
                new = gather(fresh.layout, list(parts), self._allocate)
                if new is not None:
                    yield new

    def _put_together(self, layout: Layout, runs: Sequence[Batch], writing: _Writing) -> Sequence[Batch]:
        if self.merge_elsewhere is not None and sum(len(r) for r in runs) > MERGE_HERE_ROWS_MAX:
            return self.merge_elsewhere(layout, [writing.stored(run) for run in runs])
        return [merge_in_slices(layout, runs, self._allocate)]

    def forget_parents(self) -> None:
        """Write a manifest that needs no other flow's files, before those may go."""
        with self._lock:
            manifest = replace(self.manifest, parents=(), pins=())
            self._truth.write({keys.MANIFEST: manifest.encode()})
            self._truth.flush()
            self.manifest = manifest


def _is_large(runs: Sequence[Batch]) -> bool:
    return any(isinstance(run, StoredBatch) for run in runs)


def _joined(waiting: Mapping[str, Fresh], captured: Mapping[str, Fresh]) -> dict[str, Fresh]:
    """What was captured, after what an earlier flush could not write."""
    joined = {}
    for name, fresh in captured.items():
        before = waiting.get(name)
        if before is None or fresh.is_new:
            joined[name] = fresh
        else:
            joined[name] = Fresh(fresh.layout, before.is_new, [*before.parts, *fresh.parts])
    return joined


class _Writing:
    """The batches of one flush on their way to storage."""

    def __init__(self, files: Files, next_chunk: int) -> None:
        self._files = files
        self.next_chunk = next_chunk
        self.chunks: dict[bytes, bytes] = {}
        self._chunk_refs: dict[int, tuple[Batch, ChunkRef]] = {}

    def stored(self, batch: Batch) -> Batch:
        """The batch as storage has it: mapped where it is a file now, itself where it is a chunk."""
        ref = self.ref(batch)
        if isinstance(ref, FileRef) and not isinstance(batch, StoredBatch):
            return self._files.batch(ref, [c.type for c in batch.columns])
        return batch

    def ref(self, batch: Batch) -> Ref:
        """Where storage has the batch; it is written if it has it nowhere yet."""
        known = batch.ref or self._chunk_refs.get(id(batch), (None, None))[1]
        if isinstance(known, (FileRef, ChunkRef)):
            return known
        if batch.nbytes() <= CHUNK_BYTES_MAX:
            data = pack(batch.hashes, batch.columns, batch.measures)
            if len(data) <= CHUNK_BYTES_MAX:
                ref = ChunkRef(self.next_chunk, len(batch), len(data))
                self.chunks[keys.serial(keys.CHUNK, self.next_chunk)] = data
                self._chunk_refs[id(batch)] = (batch, ref)
                self.next_chunk += 1
                return ref
        with faults.step("flush.file"):
            batch.ref = self._files.write(batch.hashes, batch.columns, batch.measures)
        file: FileRef = batch.ref  # it is there, whether the manifest comes to name it or not
        return file

    def done(self) -> None:
        """The chunks are on storage: now their batches may point to them."""
        for batch, ref in self._chunk_refs.values():
            batch.ref = ref
