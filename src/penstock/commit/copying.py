"""Copying immutable files from one storage to another."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from penstock.base import faults
from penstock.base.errors import ObjectExists
from penstock.commit.files import Files
from penstock.state.batch_file import FileRef
from penstock.store.objects import Objects

Progress = Callable[[int, int], None]  # bytes done, bytes in all


def copy_files(
    source: Files, target: Objects, wanted: Mapping[str, FileRef], step: str, progress: Progress | None = None
) -> tuple[int, int]:
    """Copy files to the names that they shall have; those that are there already are left. How many, how large.

    `wanted` maps the name at the target to the file.
    """
    folders = {name.rpartition("/")[0] for name in wanted}
    there = {entry.name: entry.size for folder in sorted(folders) for entry in target.list(folder)}
    missing = {name: ref for name, ref in wanted.items() if there.get(name) != ref.bytes}
    total = sum(ref.bytes for ref in missing.values())
    done = 0
    for name, ref in missing.items():
        with faults.step(step):
            source.copy(ref, target, name)
        done += ref.bytes
        if progress is not None:
            progress(done, total)
    return len(missing), total


def put_once(target: Objects, name: str, data: bytes) -> None:
    """Write an object that another attempt may have written already, with the same bytes."""
    try:
        target.put(name, data)
    except ObjectExists:
        if target.get(name) != data:
            raise
