"""Trouble in tasks, as it comes on a cluster: each kind befalls one wave of an epoch, in the worker's process.

A trouble takes a task and its rows and gives what the task gives, or fails, or ends the process. Trouble comes after
the work, when files are written and rows have been handed on: that is when it could do harm.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa

Trouble = Callable[[Any, Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]

WAIT_S_MAX = 60.0  # for a copy, which comes within a second where the machine has time for it


def _befalls(task: Any, wave: int) -> bool:
    from pyspark import TaskContext

    context = TaskContext.get()
    assert context is not None
    return getattr(task, "wave", 0) == wave and context.partitionId() == 0


def _first(folder: str, what: str) -> bool:
    """Whether nobody has done this yet; the processes of all executors see the folder."""
    try:
        os.close(os.open(Path(folder) / what, os.O_CREAT | os.O_EXCL))
    except FileExistsError:
        return False
    return True


def _fails(
    times: int, folder: str, wave: int, task: Any, batches: Iterable[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    yield from task(batches)
    if _befalls(task, wave):
        for attempt in range(times):
            if _first(folder, f"failed {wave} {attempt}"):
                raise RuntimeError(f"attempt {attempt} fails when its work is done")


def _worker_dies(
    folder: str, wave: int, task: Any, batches: Iterable[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    yield from task(batches)
    if _befalls(task, wave) and _first(folder, f"worker {wave}"):
        os.kill(os.getpid(), signal.SIGKILL)


def _executor_dies(
    folder: str, wave: int, task: Any, batches: Iterable[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """The worker was forked by a daemon, and the daemon was started by the executor."""
    yield from task(batches)
    if _befalls(task, wave) and _first(folder, f"executor {wave}"):
        executor = int(Path(f"/proc/{os.getppid()}/stat").read_text().rpartition(")")[2].split()[1])
        assert b"java" in Path(f"/proc/{executor}/cmdline").read_bytes()
        os.kill(executor, signal.SIGKILL)


def _two_finish(
    folder: str, wave: int, task: Any, batches: Iterable[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """Nobody finishes before a second attempt has done the same work: Spark starts one for a task that is slow."""
    if not _befalls(task, wave):
        yield from task(batches)
        return
    done = list(task(batches))
    place = Path(folder) / f"copies {wave}"
    place.mkdir(exist_ok=True)
    mine = place / str(os.getpid())
    mine.touch()
    until = time.monotonic() + WAIT_S_MAX
    while len(list(place.iterdir())) < 2:
        if time.monotonic() > until:
            mine.unlink()  # an attempt that has failed is none that the next may take for its copy
            raise RuntimeError("no copy of the task came")
        time.sleep(0.05)
    yield from done


def _reads_anew(
    folder: str, wave: int, task: Any, batches: Iterable[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """As in a process that has no file open yet."""
    from penstock.run.spark import task_files

    task_files._READ.clear()
    yield from task(batches)


def trouble(kind: str, folder: Path, wave: int) -> Trouble:
    """One kind of trouble, once for each name that it leaves in the folder."""
    return partial(TROUBLES[kind], str(folder), wave)


TROUBLES: dict[str, Callable[..., Iterator[pa.RecordBatch]]] = {
    "fails once": partial(_fails, 1),
    "fails three times": partial(_fails, 3),
    "fails always": partial(_fails, 1_000),
    "the worker dies": _worker_dies,
    "the executor dies": _executor_dies,
    "a copy finishes too": _two_finish,
    "reads anew": _reads_anew,
}
