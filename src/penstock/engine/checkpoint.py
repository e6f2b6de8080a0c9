"""Checkpoints, branches and restoring: what a flow does with an image of itself at one epoch."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import AbstractContextManager
from dataclasses import replace

from penstock.base import faults
from penstock.base.errors import DuplicateObject, InvalidLocation, PenstockError
from penstock.commit.checkpoint import (
    Checkpoint,
    Image,
    branched,
    install_image,
    read_checkpoint,
    restore_image,
    take_image,
    write_checkpoint,
)
from penstock.commit.copying import Progress
from penstock.commit.files import PARENT
from penstock.commit.history import now_us
from penstock.commit.pins import pin, unpin
from penstock.commit.truth import Truth
from penstock.engine import opening
from penstock.engine.audit import first_entry
from penstock.engine.durable import Durable
from penstock.store.location import Location
from penstock.store.objects import Objects
from penstock.store.open import open_objects


def capture(store: Durable) -> tuple[Image, AbstractContextManager[None]]:
    """The flow as it is now, and what keeps its files while they are copied. With the flow's lock held."""
    store.flush_state()
    image = take_image(store.truth, store.flusher.manifest)
    return image, store.collector.holding(image.manifest.files())


def checkpoint(
    store: Durable, image: Image, place: Location, full: bool, progress: Progress | None
) -> Checkpoint:
    """Copy an image to another place. Without the lock: the flow goes on meanwhile."""
    target = open_objects(place)
    target.probe()
    _check_elsewhere(store, place)
    return write_checkpoint(image, store.files, target, full, progress)


def restore(source: Location, into: Location, epoch: int | None, progress: Progress | None) -> Checkpoint:
    """Make a flow of a checkpoint, where there is none yet."""
    kept = open_objects(source)
    image, folder = read_checkpoint(kept, epoch)
    with _Empty(into) as (truth, target):
        origin = first_entry(now_us(), image.manifest.epoch, "restored", place=source.url)
        noted = replace(image, rows={**image.rows, **origin})
        return restore_image(noted, kept, folder, truth, target, progress)


def branch(store: Durable, place: Location) -> Checkpoint:
    """A second flow that begins as this one is now and shares its files. With the flow's lock held."""
    _check_elsewhere(store, place)
    store.flush_state()
    manifest = store.flusher.manifest
    image = take_image(store.truth, manifest)
    files = manifest.files()
    parents = (store.settings.location.absolute_url, *manifest.parents)
    origin = first_entry(store.core.clock_us(), manifest.epoch, "branched", place=parents[0])
    image = replace(image, rows={**image.rows, **origin})
    with _Empty(place) as (truth, _):
        pinned: list[tuple[Objects, str]] = []
        try:
            with faults.step("branch.pin"):
                for number in range(len(parents)):
                    objects, names = _shared(store, number, files)
                    pinned.append((objects, pin(objects, names, f"branch {place.absolute_url}")))
            with faults.step("branch.write"):
                install_image(branched(image, parents, tuple(name for _, name in pinned)), truth)
        except PenstockError:
            for objects, name in pinned:
                unpin(objects, name)
            raise
    return Checkpoint(image.manifest.epoch, place.url, len(files), 0, 0)


def _shared(store: Durable, number: int, files: Iterable[str]) -> tuple[Objects, list[str]]:
    """The storage of a parent of the branch, and those of the files that are its."""
    if number == 0:
        return store.files.objects, [name for name in files if not name.startswith(PARENT)]
    prefix = f"{PARENT}{number - 1}/"
    names = [name.removeprefix(prefix) for name in files if name.startswith(prefix)]
    return store.files.place(prefix)[0], names


def _check_elsewhere(store: Durable, place: Location) -> None:
    own = store.settings.location
    if place.absolute_url == own.absolute_url:
        raise InvalidLocation(f"{place.url} is the flow itself", hint="Give another place.")


class _Empty:
    """A place where a new flow is to be: opened, and shown to have none yet."""

    def __init__(self, place: Location) -> None:
        self._place = place

    def __enter__(self) -> tuple[Truth, Objects]:
        target = open_objects(self._place)
        target.probe()
        self._truth = Truth(self._place)
        try:
            if opening.read_format(self._truth):
                raise DuplicateObject(
                    f"there is a flow at {self._place.url} already", hint="Give a place that is empty."
                )
        except BaseException:
            self._truth.close()
            raise
        return self._truth, target

    def __exit__(self, *_: object) -> None:
        self._truth.close()


def place_of(url: object, like: Location) -> Location:
    """Where a checkpoint goes: the flow's own storage options hold there too, if it is of the same kind."""
    location = Location.parse(url)  # type: ignore[arg-type]
    return replace(location, options=like.options) if location.scheme == like.scheme else location
