"""Receipts: what a task reports to the driver. Nothing that it did counts before a receipt says so."""

from __future__ import annotations

import pickle
from dataclasses import dataclass, field

from penstock.base.errors import PenstockError
from penstock.state.batch_file import FileRef


@dataclass(frozen=True)
class Appended:
    """A batch for a piece of state (`of` is its name), or for the delta of a relation."""

    of: str
    partition: int
    rows: int
    part: FileRef | bytes  # a file, or the rows themselves


@dataclass(frozen=True)
class Failed:
    """The epoch must not be: an expression failed, or rows do not fit their table."""

    error: PenstockError
    node: int | None
    partition: int


@dataclass(frozen=True)
class Worked:
    """What a task did, in figures."""

    wave: int
    partition: int
    rows: int
    seconds: float
    placed: bool = True  # its rows are those of the partition's hashes; else it ran where the rows were
    packets: int = 0
    packet_bytes: int = 0
    files_read: int = 0  # that no task of this process had open already
    files_written: int = 0
    bytes_written: int = 0
    requests: int = 0  # to remote storage
    bytes_fetched: int = 0  # from remote storage
    rows_read: int = 0  # for tables, from DataFrames
    hot: dict[int, int] = field(default_factory=dict)  # rows that were spread, by edge


Receipt = Appended | Failed | Worked


def encode(receipt: Receipt) -> bytes:
    """
    >>> decode(encode(Worked(0, 1, 10, 0.5))).rows
    10
    """
    return pickle.dumps(receipt, 5)


def decode(payload: bytes) -> Receipt:
    found: Receipt = pickle.loads(payload)
    return found
