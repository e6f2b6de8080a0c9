"""look_up, for a few rows that match a few: the same join with tuples."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence

from penstock.base.limits import FEW_MATCHES_MAX, JOINED_WEIGHT_MAX
from penstock.kernels.hashing import hash_plain
from penstock.state.batch import Batch, Layout
from penstock.zset.few import Few, Row, is_plain, row_at, stands_at


class FewLookUp:
    """Joins tuples with batches of one layout. `fits` says whether it can: keys are hashed as they are here."""

    def __init__(
        self, layout: Layout, probe: Sequence[int], not_null: Sequence[int], columns: Sequence[int]
    ) -> None:
        self.layout = layout
        self._probe = list(probe)
        self._not_null = list(not_null)
        self._columns = list(columns)
        self._types = tuple([layout.types[c] for c in columns])
        self._keys = [layout.types[k] for k in layout.compared]
        plain = all(map(is_plain, (*self._keys, *self._types)))
        self.fits = plain and all(t.kind != "wide" for t in self._keys)

    def join(self, rows: Few, batches: Sequence[Batch]) -> Few | None:
        """The rows with what stands under their keys; None if that is too much for here."""
        if [rows.types[p] for p in self._probe] != self._keys:
            return None
        found: list[Row] = []
        counts: list[int] = []
        for row, count in zip(rows.rows, rows.counts, strict=True):
            if any(row[p] is None for p in self._not_null):
                continue
            key = tuple([row[p] for p in self._probe])
            hash = hash_plain(key)
            for batch in batches:
                places = self._places(batch, hash, key)
                if places is None:
                    return None
                for at in places:
                    found.append(row + row_at([batch.columns[c] for c in self._columns], at))
                    counts.append(count * batch.weights.item(at))
        if not all(c and abs(c) <= JOINED_WEIGHT_MAX for c in counts):
            return None
        return Few(rows.types + self._types, found, counts)

    def _places(self, batch: Batch, hash: int, key: Row) -> list[int] | None:
        """The rows of the batch under the key; None if there may be many."""
        hashes = batch.hashes.data
        at, size = bisect_left(hashes, hash), len(hashes)
        if at + FEW_MATCHES_MAX < size and hashes[at + FEW_MATCHES_MAX] == hash:
            return None
        places = []
        while at < size and hashes[at] == hash:
            if stands_at(key, [batch.columns[k] for k in self.layout.compared], at):
                places.append(at)
            at += 1
        return places
