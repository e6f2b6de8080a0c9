"""Rows of a bag by the values of some columns: an index beside the rows, made when somebody asks often.

A bag (state/contents.py) consists of pieces that never change: batches, loads, and a log of small deltas. Each large
piece is indexed once, by a sorted list of the hashes of its rows; the log by a dict that grows with it. A row counts
as often as all pieces together say.
"""

from __future__ import annotations

import threading
from bisect import bisect_left
from collections.abc import Sequence
from contextlib import suppress
from typing import Any, NamedTuple

import numpy as np

from penstock.base.errors import PenstockError
from penstock.base.limits import INDEX_AFTER_READS, INDEX_AT_ONCE_ROWS_MAX, INDEX_ROWS_MAX
from penstock.base.undivided import Undivided
from penstock.kernels.hashing import hash_columns, hash_plain
from penstock.state.batch import Batch
from penstock.zset.few import value_at
from penstock.zset.zset import ZSet, union

Piece = ZSet | Batch
Place = tuple[Piece, int]  # a row
Key = Sequence[int | str]  # values of some columns, none of them NULL
_PAIRED_ROWS_MAX = 256


class Pieces(NamedTuple):
    """What a bag consists of at one moment. The log may grow afterwards: `logged` of it belong to the moment."""

    large: Sequence[Piece]
    log: list[ZSet]
    logged: int


class PieceIndex:
    """The rows of one piece in the order of the hashes of some columns."""

    __slots__ = ("hashes", "order", "piece")

    def __init__(self, piece: Piece, positions: Sequence[int]) -> None:
        self.piece = piece
        found = hash_columns([piece.columns[p] for p in positions], len(piece.weights))
        order = np.argsort(found, kind="stable")
        # As memory, because they are looked at one by one: numpy makes an object of its own for each.
        self.hashes = found[order].data
        self.order = (order.astype(np.uint32) if len(order) < 2**32 else order).data


def places_under(
    piece: Piece, hashes: memoryview, order: memoryview | None, hash: int, positions: Sequence[int], key: Key
) -> list[Place]:
    """The rows of a piece that have these values in the columns at `positions`. `hashes` rise, and `order` says which
    row each belongs to (None: the rows lie like that).

    >>> from penstock.zset.column import from_pylist
    >>> from penstock.zset.types import BIGINT
    >>> piece = ZSet((from_pylist(BIGINT, [8, 7, 7]),), np.ones(3, np.int64))
    >>> index = PieceIndex(piece, (0,))
    >>> [row for _, row in places_under(piece, index.hashes, index.order, hash_plain([7]), (0,), [7])]
    [1, 2]
    """
    found: list[Place] = []
    at, count = bisect_left(hashes, hash), len(hashes)
    while at < count and hashes[at] == hash:
        row = at if order is None else order[at]
        at += 1
        for position, wanted in zip(positions, key, strict=True):
            if value_at(piece.columns[position], row) != wanted:
                break
        else:
            found.append((piece, row))
    return found


class LogIndex:
    """Where in a log of small deltas the rows with a hash are."""

    def __init__(self, log: list[ZSet]) -> None:
        self.log = log
        self._known = 0
        self._places: dict[int, list[tuple[int, int]]] = {}

    def places(self, hash: int, positions: Sequence[int], until: int) -> list[tuple[int, int]]:
        """(number of the delta, row) of all that has this hash."""
        if self._known < until:
            with Undivided():  # a row that is entered twice counts twice
                self._enter(positions, until)
        return self._places.get(hash, [])

    def _enter(self, positions: Sequence[int], until: int) -> None:
        for number in range(self._known, until):
            delta = self.log[number]
            hashes = hash_columns([delta.columns[p] for p in positions], len(delta.weights)).tolist()
            for row, found in enumerate(hashes):
                self._places.setdefault(found, []).append((number, row))
        self._known = until


class Finder:
    """The index of a bag by the columns at `positions`.

    >>> from penstock.zset.column import from_pylist
    >>> from penstock.zset.types import BIGINT
    >>> def rows(keys, weights):
    ...     return ZSet((from_pylist(BIGINT, keys),), np.array(weights))
    >>> finder = Finder((0,))
    >>> gathered(finder.find(Pieces([rows([7, 8, 7], [1, 1, 1])], [rows([7], [-1])], 1), [7]))
    ZSet([((7,), 1)])
    """

    def __init__(self, positions: Sequence[int]) -> None:
        self.positions = tuple(positions)
        self._indexes: dict[int, PieceIndex] = {}  # by the id of a piece, which the index keeps alive
        self._log = LogIndex([])
        self._making: set[int] = set()
        self._asked = 0

    def find(self, pieces: Pieces, key: Key, rows_max: int = INDEX_ROWS_MAX) -> list[Place] | None:
        """The rows under a key, those that a later piece takes away too; None while an index of a large piece is being
        made, or if it has more than `rows_max` rows."""
        self._asked += 1
        large, log, logged = pieces
        if not self._ready(large, rows_max):
            return None
        hash, positions = hash_plain(key), self.positions
        found: list[Place] = []
        for piece in large:
            index = self._indexes[id(piece)]
            found += places_under(piece, index.hashes, index.order, hash, positions, key)
        if self._log.log is not log:
            self._log = LogIndex(log)
        if logged:
            for number, row in self._log.places(hash, positions, logged):
                delta = log[number]
                if number < logged and all(
                    value_at(delta.columns[p], row) == wanted
                    for p, wanted in zip(positions, key, strict=True)
                ):
                    found.append((delta, row))
        return found

    def _ready(self, large: Sequence[Piece], rows_max: int) -> bool:
        known = self._indexes
        if len(known) == len(large):
            for piece in large:
                if id(piece) not in known:
                    break
            else:
                return True
        for old in known.keys() - {id(piece) for piece in large}:
            known.pop(old, None)
        ready = True
        for piece in large:
            if id(piece) in known:
                continue
            if len(piece.weights) <= INDEX_AT_ONCE_ROWS_MAX:
                known[id(piece)] = PieceIndex(piece, self.positions)
            else:
                ready = False
                if self._asked >= INDEX_AFTER_READS and len(piece.weights) <= rows_max:
                    self._make(piece)
        return ready

    def _make(self, piece: Piece) -> None:
        """In a thread of its own: pieces never change, so nobody has to wait for it."""
        if id(piece) in self._making:
            return
        self._making.add(id(piece))

        def work() -> None:
            # A file that cannot be read stays without an index: whoever reads its rows is told.
            with suppress(PenstockError):
                self._indexes[id(piece)] = PieceIndex(piece, self.positions)
                self._making.discard(id(piece))

        threading.Thread(target=work, name="penstock-index", daemon=True).start()


def gathered(found: list[Place]) -> ZSet:
    """These rows, perhaps without some that cancel. A row that changes often stands in the log often, and all but the last cancel: few are taken."""
    if not found:
        return ZSet((), np.zeros(0, np.int64))
    if 1 < len(found) <= _PAIRED_ROWS_MAX:
        found = _net(found)
    parts: list[ZSet] = []
    at = 0
    while at < len(found):
        piece, rows = found[at][0], [found[at][1]]
        while at + len(rows) < len(found) and found[at + len(rows)][0] is piece:
            rows.append(found[at + len(rows)][1])
        index = np.array(rows, np.int64)
        parts.append(ZSet(tuple([c.take(index) for c in piece.columns]), np.asarray(piece.weights[index])))
        at += len(rows)
    return union(parts)


def _net(found: list[Place]) -> list[Place]:
    """Without pairs of +1 and -1 of the same values; those that Python cannot compare stay."""
    there: dict[tuple[Any, ...], list[int]] = {}
    gone: set[int] = set()
    try:
        for number, (piece, row) in enumerate(found):
            values = tuple([value_at(column, row) for column in piece.columns])
            waiting = there.setdefault(values, [])
            weight = int(piece.weights[row])
            if waiting and weight + int(found[waiting[-1]][0].weights[found[waiting[-1]][1]]) == 0:
                gone |= {number, waiting.pop()}
            else:
                waiting.append(number)
    except TypeError:
        return found
    kept = [entry for number, entry in enumerate(found) if number not in gone]
    return kept or [found[i] for i in sorted(gone)[:2]]  # a row that is nowhere still has columns
