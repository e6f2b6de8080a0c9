"""The side of a flow that looks after it: its state, verification, compaction, checkpoints and branches."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from penstock.base.errors import InvalidOption
from penstock.base.limits import VERIFY_ROWS_SHOWN
from penstock.commit.checkpoint import Checkpoint
from penstock.commit.copying import Progress
from penstock.engine import checkpoint as checkpoints
from penstock.engine import slots
from penstock.engine.catalog import MaterializedView
from penstock.engine.check_files import FileChecker
from penstock.engine.durable import Durable
from penstock.engine.flow_parts import FlowParts
from penstock.engine.progress import Counter
from penstock.engine.verify import Check, Verifier, gather
from penstock.store.location import Location


@dataclass(frozen=True)
class StateEntry:
    """One piece of state: an arrangement, a table's rows or a view's contents."""

    name: str
    rows: int
    bytes: int


class UpkeepSide(FlowParts):
    """What Flow offers to those who operate it."""

    def state(self) -> list[StateEntry]:
        """Every piece of state that the flow holds, with its rows and bytes."""
        with self._lock:
            self._check_open()
            core = self._core
            entries = [
                StateEntry(a.name, a.settled().rows(), a.nbytes())
                for n in core.circuit.nodes.values()
                for a in n.owned
            ]
            for relation in core.catalog:
                bag = (
                    relation.contents
                    if isinstance(relation, MaterializedView)
                    else getattr(relation, "bag", None)
                )
                if bag is not None:
                    entries.append(StateEntry(bag.name, bag.row_count(), bag.nbytes()))
            return entries

    # -- upkeep ----------------------------------------------------------------------------

    def verify(
        self,
        view: str | None = None,
        as_of: int | datetime | str | None = None,
        *,
        limit: int = VERIFY_ROWS_SHOWN,
        progress: Progress | None = None,
    ) -> list[Check]:
        """Compute the materialized views (or one) anew from the tables with DuckDB and compare, and check
        every byte of the flow's files. Each result says whether it is `equal`, and if not, what is missing and
        what is too much, up to `limit` rows of each."""
        with self._lock:
            self._check_open()
            if view is not None:
                self._core.catalog.get(view)
            store = self._store
        files = None if store is None else FileChecker(store.truth, store.files)
        of_files = 0 if files is None else len(files)
        done = Counter(progress, of_files)
        found = [] if files is None else files.run(done)
        with self._lock:
            self._check_open()
            past = None if as_of is None else self._past()
            verifier = Verifier(gather(self._core, view, past, as_of), limit)
        done.total = of_files + len(verifier)
        found += verifier.run(done)
        wrong = [check.name for check in found if not check.equal]
        self._core.audit.record("verify", checks=len(found), wrong=wrong)
        return found

    def compact(self, progress: Progress | None = None) -> int:
        """Merge each piece of state into one batch; on storage write it, and delete the files that this frees:
        how many."""
        with self._lock:
            self._check_open()
            if self._store is None:
                slots.compact(self._core, progress)
                return 0
            store = self._writer()
            store.check()
            return store.compact(progress)

    # -- checkpoints -----------------------------------------------------------------------

    def checkpoint(
        self, url: str | os.PathLike[str], *, storage_options: Mapping[str, object] | None = None,
        progress: Progress | None = None,
    ) -> Checkpoint:  # fmt: skip
        """Write this epoch to another place: the files that it does not have yet, and their list."""
        return self._checkpoint(url, storage_options, False, progress)

    def checkpoint_full(
        self, url: str | os.PathLike[str], *, storage_options: Mapping[str, object] | None = None,
        progress: Progress | None = None,
    ) -> Checkpoint:  # fmt: skip
        """Write this epoch to another place as a copy that needs nothing else there."""
        return self._checkpoint(url, storage_options, True, progress)

    def _checkpoint(
        self, url: Any, storage_options: Mapping[str, object] | None, full: bool, progress: Progress | None
    ) -> Checkpoint:
        with self._lock:
            self._check_open()
            store = self._on_storage()
            place = self._place(url, storage_options)
            image, holding = checkpoints.capture(store)
        with holding:
            made = checkpoints.checkpoint(store, image, place, full, progress)
        self._core.audit.record(
            "checkpoint", place=place.url, full=full, of_epoch=made.epoch, files=made.files,
            files_copied=made.files_copied, bytes_copied=made.bytes_copied,
        )  # fmt: skip
        return made

    @staticmethod
    def restore(
        url: str | os.PathLike[str], into: str | os.PathLike[str], *, epoch: int | None = None,
        storage_options: Mapping[str, object] | None = None, progress: Progress | None = None,
    ) -> Checkpoint:  # fmt: skip
        """Make a flow of the newest checkpoint at a place, or of that of an epoch. Open it afterwards."""
        source = Location.parse(url)
        if storage_options is not None and source.is_remote:
            source = Location.parse(url, storage_options)
        target = Location.parse(into)
        if storage_options is not None and target.is_remote:
            target = Location.parse(into, storage_options)
        return checkpoints.restore(source, target, epoch, progress)

    def branch(
        self, url: str | os.PathLike[str], *, storage_options: Mapping[str, object] | None = None
    ) -> Checkpoint:
        """A second flow at another place, which begins as this one is now and shares its files: open it there."""
        with self._lock:
            self._check_open()
            place = self._place(url, storage_options)
            made = checkpoints.branch(self._on_storage(), place)
            self._core.audit.record("branch", place=place.url)
            return made

    def _place(self, url: Any, storage_options: Mapping[str, object] | None) -> Location:
        if storage_options is not None:
            return Location.parse(url, storage_options)
        return checkpoints.place_of(url, self._on_storage().settings.location)

    def _on_storage(self) -> Durable:
        if self._store is None:
            raise InvalidOption("a flow in memory cannot be checkpointed", hint="Open it on a storage URL.")
        store = self._writer()
        store.check()
        return store
