"""The youngest changes of an arrangement of groups, before they are a batch: a dict by key.

A tick of one row adds to the measures of a group or two. Adding to a dict costs a fraction of making a sorted batch
one row longer; when the dict has grown, or when somebody wants batches, it becomes one.

Beside the changes it remembers the whole measures of groups that were looked up: groups that change once tend to
change again, and of some views (counts by status, by day) a few groups take every change.
"""

from __future__ import annotations

from collections.abc import Sequence
from operator import add

from penstock.base.limits import KNOWN_GROUPS_MAX
from penstock.kernels import hashing
from penstock.kernels.search import first_places
from penstock.native import kernels
from penstock.state.batch import Batch
from penstock.state.few_groups import Added
from penstock.zset.few import Row, stands_at


class Young:
    """Changes by key, and what is known of whole groups."""

    __slots__ = ("changes", "known")

    def __init__(self) -> None:
        self.changes: dict[Row, Added] = {}
        self.known: dict[Row, Added] = {}  # batches and changes together

    def add(self, groups: list[tuple[Row, Added]]) -> None:
        """What `kernels.add_groups` does where it is there."""
        changes, known = self.changes, self.known
        for key, added in groups:
            before = changes.get(key)
            changes[key] = added if before is None else tuple(map(add, before, added))
            whole = known.get(key)
            if whole is not None:
                known[key] = tuple(map(add, whole, added))

    def remember(self, key: Row, whole: Added) -> Added:
        """The measures of a group of which batches have these: with what has been added since."""
        added = self.changes.get(key)
        if added is not None:
            whole = tuple(map(add, whole, added))
        if len(self.known) >= KNOWN_GROUPS_MAX:
            self.known.clear()
        self.known[key] = whole
        return whole


def stored(key: Row, batches: Sequence[Batch], width: int) -> Added:
    """The measures under a key, added up over batches in which a key stands once at most."""
    if kernels is not None and len(key) == 1 and key[0].__class__ is int and hashing.COLLIDE_BITS is None:
        try:
            found: Added = kernels.group_total(key[0], batches, width)
            return found
        except TypeError:  # keys that may be NULL, sums of more than 64 bits
            pass
    hash = hashing.hash_plain(key)
    sure = len(key) == 1 and isinstance(key[0], (int, float))  # not NULL, and one number
    total: list[int] = [0] * width
    places = first_places(hash, [batch.hashes for batch in batches])
    for batch, at in zip(batches, places, strict=True):
        if at < 0:
            continue
        if not (sure and hashing.is_exact(batch.columns)):
            hashes, count = batch.hashes.data, len(batch)
            while at < count and hashes[at] == hash and not stands_at(key, batch.columns, at):
                at += 1
            if at == count or hashes[at] != hash:
                continue
        for i, measure in enumerate(batch.measures):
            total[i] += measure.item(at)  # type: ignore[union-attr]
    return tuple(total)
