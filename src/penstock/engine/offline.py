"""A flow as it was last written down, without its writer being disturbed: for looking at, not for following."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from penstock.base.errors import CorruptState
from penstock.base.limits import READER_LOAD_ATTEMPTS_MAX, READER_POLL_MS
from penstock.commit.files import Files
from penstock.commit.manifest import Manifest
from penstock.commit.truth import Truth
from penstock.engine import opening, slots
from penstock.engine.audit import AuditLog, read_audit
from penstock.engine.core import Core
from penstock.engine.opening import Settings
from penstock.store.location import Location


@dataclass(frozen=True)
class Offline:
    """A core whose operators have the state of the manifest's epoch, all of it of one moment."""

    core: Core
    manifest: Manifest


@contextmanager
def offline(location: Location) -> Iterator[Offline]:
    """Load it; what the context gives is good until it ends."""
    truth = opening.open_reader(location)
    try:
        manifest, core, files = _load(location, truth)
        try:
            core.audit = AuditLog(stored=lambda: read_audit(truth))
            yield Offline(core, manifest)
        finally:
            core.close()
            files.close()
    finally:
        truth.close()


def _load(location: Location, truth: Truth) -> tuple[Manifest, Core, Files]:
    """The writer may write the next manifest meanwhile: then it is read again."""
    settings = Settings(location)
    for _ in range(READER_LOAD_ATTEMPTS_MAX):
        manifest = opening.read_manifest(truth)
        version, catalog = opening.read_catalog(truth)
        if version == manifest.catalog:
            files = opening.open_files(settings, manifest.parents)
            core = Core()
            try:
                opening.load(core, catalog, manifest, opening.read_chunks(truth), files, kept=False)
                slots.map_files(core)
                if opening.read_manifest(truth) == manifest:
                    return manifest, core, files
            except BaseException:
                core.close()
                files.close()
                if opening.read_manifest(truth) == manifest:
                    raise
            else:
                core.close()
                files.close()
        time.sleep(READER_POLL_MS / 1000)
    raise CorruptState("the catalog and the manifest do not belong together", hint="Try again.")
