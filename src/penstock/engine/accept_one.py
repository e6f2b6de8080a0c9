"""One row of a table with a key comes, goes or is replaced by another: `accept` and `upsert` without arrays.

Only what is right is dealt with here. Whatever else there is, errors above all, is left to the general way.
"""

from __future__ import annotations

import numpy as np

from penstock.engine.catalog import Table
from penstock.kernels.hashing import hash_plain
from penstock.state.batch import Batch
from penstock.state.newest import newest_place
from penstock.zset.few import Few, Row, row_at, stands_at
from penstock.zset.zset import ZSet

_INSERT, _DELETE, _UPDATE = [1], [-1], [-1, 1]


def accept_one(table: Table, delta: ZSet) -> tuple[ZSet, Batch] | None:
    """The delta and the same by key; None where this is not for here."""
    if not isinstance(delta, Few) or delta.counts not in (_INSERT, _DELETE, _UPDATE):
        return None
    rows = delta.rows
    key = _key(table, rows[0])
    if key is None or (len(rows) == 2 and _key(table, rows[1]) != key):
        return None
    assert table.keyed is not None
    found = newest_place(table.keyed, key)
    if delta.counts == _INSERT:
        if found:
            return None
    elif len(found) != 1 or not stands_at(rows[0], found[0][0].columns, found[0][1]):
        return None
    hashes = np.array([hash_plain(key)] * len(rows), np.uint64)
    return delta, Batch(hashes, delta.columns, (delta.weights,))


def upsert_one(table: Table, delta: ZSet) -> ZSet | None:
    """The change that sets one row, as `upsert` gives it; None where this is not for here."""
    if not isinstance(delta, Few) or delta.counts != _INSERT:
        return None
    row = delta.rows[0]
    key = _key(table, row)
    if key is None:
        return None
    assert table.keyed is not None
    found = newest_place(table.keyed, key)
    if not found:
        return delta
    piece, at = found[0]
    return Few(delta.types, [row_at(piece.columns, at), row], _UPDATE)


def _key(table: Table, row: Row) -> Row | None:
    """The key of a row, if it is one that can be looked up as it is."""
    key = tuple([row[k] for k in table.key])
    if all(isinstance(v, (int, str)) for v in key) and not table.has_wide_key:
        return key
    return None
