"""Bringing SlateDB's write-ahead log to the disk, where the storage is a folder.

SlateDB leaves its files in the operating system's cache: enough for a killed process, not for a loss
of power. Its log files are numbered, so the new ones are found without listing the folder.
"""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

from penstock.store.failures import translated
from penstock.store.local import sync_folder


class WalDisk:
    """Syncs each log file once."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._next = 0  # the number of the next file; 0: not known yet

    def sync(self) -> None:
        """Return when the log as it is now would survive a loss of power."""
        with translated("sync", str(self._folder)):
            if not self._next or not self._path(self._next).exists():
                self._next = self._first_unsynced()
            synced = False
            while self._sync_file(self._path(self._next)):
                self._next += 1
                synced = True
            if synced:
                sync_folder(self._folder)

    def _path(self, number: int) -> Path:
        return self._folder / f"{number:020d}.sst"

    def _first_unsynced(self) -> int:
        """After opening, or where a number was left out: from what the folder has."""
        numbers = [int(name[:20]) for name in os.listdir(self._folder) if name[:20].isdigit()]
        newer = [number for number in numbers if number >= self._next]
        return min(newer, default=max(numbers, default=0) + 1)

    def _sync_file(self, path: Path) -> bool:
        with suppress(FileNotFoundError):
            handle = os.open(path, os.O_RDONLY)
            try:
                os.fsync(handle)
            finally:
                os.close(handle)
            return True
        return False
