"""A task's Python process, so set up that a task begins at once.

Spark uses the process again, and after each task has Python look for new modules in every archive of its path
(a jar of Spark's is among them: thousands of names) and collect garbage among everything that was ever imported.
That was 190 ms of work for a task that did nothing; see docs/decisions/0014-spark-engine.md.
"""

from __future__ import annotations

import gc
import importlib
import os
import zipimport

_PLAIN = zipimport.zipimporter.invalidate_caches
_READ: dict[str, tuple[int, int] | None] = {}  # archives that were read, and what they were like then
_settled = False


def settle() -> None:
    """Once in a process: what it has is no garbage, and archives that have not changed are not read again."""
    global _settled
    if _settled:
        return
    _settled = True
    zipimport.zipimporter.invalidate_caches = _invalidate_changed  # type: ignore[assignment, method-assign]
    importlib.invalidate_caches()  # reads each of them a last time
    gc.collect()
    gc.freeze()


def _invalidate_changed(archive: zipimport.zipimporter) -> None:
    """`zipimporter.invalidate_caches` for archives that are not what they were when they were last read."""
    now = _state(archive.archive)
    if now is None or _READ.get(archive.archive) != now:
        _READ[archive.archive] = now
        _PLAIN(archive)


def _state(path: str) -> tuple[int, int] | None:
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size
