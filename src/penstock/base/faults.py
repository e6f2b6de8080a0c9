"""Fault points: the named places where a test can kill the process, to show that nothing is lost.

A point costs one comparison while none is armed. `PENSTOCK_FAULT=commit.write:before@3` in the
environment arms one: the third time that it is reached, the process is killed as by `kill -9`.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager

# Every step of making state durable. Each has a point before it and one after it.
STEPS = (
    "open.fence",  # this process becomes the only writer
    "open.load",  # the manifest is read, batches are mapped
    "open.replay",  # epochs after the manifest are run again
    "commit.files",  # large deltas of an epoch are written as files
    "commit.write",  # the one write that makes epochs exist
    "commit.durable",  # ... and is on storage
    "define.write",  # a catalog change, or an epoch whose state tasks have written, with its manifest
    "task.write",  # a task writes a file, for an epoch that is not yet
    "flush.capture",  # the batches to write are picked
    "flush.file",  # one batch is written as a file
    "flush.write",  # the manifest that names them
    "flush.durable",
    "merge.start",  # a merge of two large batches begins
    "merge.slice",  # some of its rows are merged
    "merge.finish",  # its result takes the place of its inputs
    "collect.trim",  # history beyond its retention is forgotten
    "collect.files",  # files that nothing names are deleted
    "checkpoint.copy",  # one file is copied to the checkpoint
    "checkpoint.write",  # the list of files that is the checkpoint
    "branch.pin",  # the parent is told which files the branch shares
    "branch.write",  # the branch's own manifest
    "restore.copy",
    "restore.write",
)
POINTS = tuple(f"{step}:{when}" for step in STEPS for when in ("before", "after"))

_armed: tuple[str, int, Callable[[], None]] | None = None


def kill() -> None:
    """End this process as `kill -9` does: no clean-up of any kind."""
    os.kill(os.getpid(), signal.SIGKILL)


def arm(point: str, count: int = 1, action: Callable[[], None] = kill) -> None:
    """Do `action` when this point is reached for the count-th time.

    >>> arm("commit.write:before", 2, lambda: print("reached twice"))
    >>> reach("commit.write:before"); reach("commit.write:after"); reach("commit.write:before")
    reached twice
    """
    global _armed
    if point not in POINTS:
        raise ValueError(f"there is no fault point {point!r}")
    _armed = (point, count, action)


def disarm() -> None:
    global _armed
    _armed = None


def reach(point: str) -> None:
    """This point of the program has been reached."""
    global _armed
    if _armed is None or _armed[0] != point:
        return
    name, count, action = _armed
    _armed = None if count == 1 else (name, count - 1, action)
    if count == 1:
        action()


@contextmanager
def step(name: str) -> Iterator[None]:
    """The points before and after a step."""
    reach(f"{name}:before")
    yield
    reach(f"{name}:after")


def _arm_from_environment() -> None:
    wanted = os.environ.get("PENSTOCK_FAULT")
    if wanted:
        point, _, count = wanted.partition("@")
        arm(point, int(count or 1))


_arm_from_environment()
