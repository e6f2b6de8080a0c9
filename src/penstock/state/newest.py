"""Reading arrangements in which a key has at most one row: the newest batch that knows the key has it."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from penstock.kernels.hashing import hash_plain
from penstock.kernels.search import first_places
from penstock.state.arrangement import Arrangement, probe_batches
from penstock.state.batch import Batch, concat_batches
from penstock.state.finder import Key, Place, places_under
from penstock.zset.column import Column

Places = tuple[np.ndarray, Batch, np.ndarray]  # which keys, the batch that has them, its rows


def newest_places(arrangement: Arrangement, hashes: np.ndarray, keys: Sequence[Column]) -> list[Places]:
    """Where the rows of these (different) keys stand; keys without a row are left out.

    From the newest batch to the oldest: one that has a +1 row for a key has its row, and one that has
    only a -1 row says that it is gone. Either way older batches need not be asked.
    """
    places: list[Places] = []
    newest_first = arrangement.batches[::-1]
    for batch, mine, theirs in probe_batches(arrangement.layout, newest_first, hashes, keys, first=True):
        present = batch.weights[theirs] > 0
        if present.all():
            places.append((mine, batch, theirs))
        elif present.any():
            places.append((mine[present], batch, theirs[present]))
    return places


def newest_place(arrangement: Arrangement, key: Key) -> list[Place]:
    """`newest_places` of one key, as Python has its values: no vectors where one number will do."""
    hash, compared = hash_plain(key), arrangement.layout.compared
    newest_first = arrangement.batches[::-1]
    for batch, at in zip(newest_first, first_places(hash, [b.hashes for b in newest_first]), strict=True):
        found = places_under(batch, batch.hashes.data, None, hash, compared, key) if at >= 0 else ()
        if found:
            return [(piece, row) for piece, row in found if piece.weights[row] > 0]
    return []


def newest_rows(
    arrangement: Arrangement, hashes: np.ndarray, keys: Sequence[Column]
) -> tuple[np.ndarray, Batch | None]:
    """The rows that stand under these (different) keys: which keys have one, and the rows in that order."""
    places = newest_places(arrangement, hashes, keys)
    if not places:
        return np.zeros(0, np.int64), None
    rows = concat_batches([batch.take(theirs) for _, batch, theirs in places])
    return np.concatenate([owners for owners, _, _ in places]), rows
