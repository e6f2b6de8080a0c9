"""Scratch files: room for what must not take memory, gone with the process whatever happens to it."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np

from penstock.base.limits import SCRATCH_BYTES_MIN
from penstock.store.failures import translated


class Scratch:
    """A folder for scratch files."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def allocate(self, count: int, dtype: np.dtype) -> np.ndarray:
        """An array, in a file without a name where it is large.

        The room is reserved at once: a disk that is full is an error here, and not a fault of the
        processor at some later write into the array.
        """
        size = count * dtype.itemsize
        if size < SCRATCH_BYTES_MIN:
            return np.empty(count, dtype)
        with translated("use the scratch folder", str(self._folder)):
            self._folder.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryFile(dir=self._folder, prefix=".scratch-") as file:
                os.posix_fallocate(file.fileno(), 0, size)
                return np.memmap(file, dtype, "r+", shape=(count,))

    @contextmanager
    def file(self) -> Iterator[Path]:
        """A file with a name, for as long as it is needed."""
        with translated("use the scratch folder", str(self._folder)):
            self._folder.mkdir(parents=True, exist_ok=True)
            handle, name = tempfile.mkstemp(dir=self._folder, prefix=".scratch-")
            os.close(handle)
        try:
            yield Path(name)
        finally:
            os.unlink(name)
