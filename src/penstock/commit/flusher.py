"""Flushing: the batches of the whole flow at one epoch become files and chunks that a manifest names.

A flush writes only batches that storage does not have yet. It does not make anything durable that
the journal has not made durable already: it saves recovery from running the same epochs again.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from penstock.base import faults
from penstock.base.limits import CHUNK_BYTES_MAX
from penstock.commit import keys
from penstock.commit.files import Files
from penstock.commit.manifest import ChunkRef, Manifest, Ref
from penstock.commit.truth import Truth
from penstock.state.batch import Batch
from penstock.state.batch_file import FileRef
from penstock.state.packing import pack


@dataclass(frozen=True)
class Captured:
    """The state of a flow at an epoch: lists of immutable batches, so taking it costs next to nothing."""

    epoch: int
    time_us: int
    catalog: int
    slots: Mapping[str, Sequence[Batch]]
    retain_s: float = 0.0  # how long history is kept


class Flusher:
    """Writes manifests, one at a time. `manifest` is the last one that is on storage."""

    def __init__(self, truth: Truth, files: Files, manifest: Manifest) -> None:
        self._truth = truth
        self._files = files
        self.manifest = manifest
        self._lock = threading.Lock()

    def flush(
        self,
        captured: Captured,
        puts: Mapping[bytes, bytes] | None = None,
        deletes: Iterable[bytes] = (),
        history_from: tuple[int, int] | None = None,
        step: str = "flush",
    ) -> list[tuple[Batch, Batch]]:
        """Write the manifest of what was captured, and with it whatever else must become true at once.

        Returns the batches that are now in files, each with the same rows as the file has them."""
        with self._lock:
            old = self.manifest
            writing = _Writing(self._files, old.next_chunk)
            slots = {
                name: tuple([writing.ref(batch) for batch in batches])
                for name, batches in captured.slots.items()
            }
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
            self.manifest = manifest
            writing.done()
            return writing.moved

    def forget_parents(self) -> None:
        """Write a manifest that needs no other flow's files, before those may go."""
        with self._lock:
            manifest = replace(self.manifest, parents=(), pins=())
            self._truth.write({keys.MANIFEST: manifest.encode()})
            self._truth.flush()
            self.manifest = manifest


class _Writing:
    """The batches of one flush on their way to storage."""

    def __init__(self, files: Files, next_chunk: int) -> None:
        self._files = files
        self.next_chunk = next_chunk
        self.chunks: dict[bytes, bytes] = {}
        self.moved: list[tuple[Batch, Batch]] = []
        self._chunk_refs: dict[int, tuple[Batch, ChunkRef]] = {}

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
            file = self._files.write(batch.hashes, batch.columns, batch.measures)
        batch.ref = file  # it is there, whether the manifest comes to name it or not
        self.moved.append((batch, self._files.batch(file, [c.type for c in batch.columns])))
        return file

    def done(self) -> None:
        """The chunks are on storage: now their batches may point to them."""
        for batch, ref in self._chunk_refs.values():
            batch.ref = ref
