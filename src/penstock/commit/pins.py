"""Pins: small objects beside a flow's files that say "these are still needed", written by branches."""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterable

from penstock.base.errors import CorruptState
from penstock.store.objects import Objects

FOLDER = "pins"


def pin(objects: Objects, files: Iterable[str], why: str) -> str:
    """Keep these files until the pin is removed; the pin's name."""
    name = f"{FOLDER}/{uuid.uuid4().hex}.json"
    objects.put(name, json.dumps({"why": why, "files": sorted(files)}).encode())
    return name


def pinned(objects: Objects) -> set[str]:
    """The files that some pin keeps."""
    found: set[str] = set()
    for entry in objects.list(FOLDER):
        try:
            found.update(json.loads(objects.get(entry.name))["files"])
        except (ValueError, KeyError):
            raise CorruptState(
                f'the pin "{entry.name}" is not readable, so no file may be deleted',
                hint="Remove it if the branch that made it is gone.",
            ) from None
    return found


def unpin(objects: Objects, name: str) -> None:
    """Let go of the files that a pin kept."""
    objects.delete([name])
