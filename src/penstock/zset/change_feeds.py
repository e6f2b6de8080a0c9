"""The change feeds that are known: which column says what happened to a row, and which weight that is.

A feed with a column of operations gives one row for each image of a row: the one that came, the one that
went, or both for an update. Debezium gives both images of a row as structs in one row.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from penstock.base.errors import InvalidDelta

AUTO = "auto"


@dataclass(frozen=True)
class Feed:
    """One kind of change feed."""

    name: str
    operation: str  # the column that says what happened
    weights: Mapping[str, int]  # what each operation means for the row
    about: frozenset[str]  # other columns that tell of the change, not of the row
    marks: frozenset[str]  # columns that show that it is this kind

    @property
    def envelope(self) -> bool:
        """Whether a row holds the images of another row before and after."""
        return self.name == "debezium"


BEFORE, AFTER, PAYLOAD = "before", "after", "payload"
# What each operation of Debezium takes from the images: the weights of `before` and of `after`.
IMAGES = {"c": (0, 1), "r": (0, 1), "u": (-1, 1), "d": (-1, 0)}

DELTA = Feed(
    "delta",
    "_change_type",
    {"insert": 1, "update_postimage": 1, "update_preimage": -1, "delete": -1},
    frozenset({"_commit_version", "_commit_timestamp"}),
    frozenset({"_change_type", "_commit_version"}),
)
ICEBERG = Feed(
    "iceberg",
    "_change_type",
    {"INSERT": 1, "UPDATE_AFTER": 1, "UPDATE_BEFORE": -1, "DELETE": -1},
    frozenset({"_change_ordinal", "_commit_snapshot_id"}),
    frozenset({"_change_type", "_change_ordinal"}),
)
DEBEZIUM = Feed("debezium", "op", {}, frozenset(), frozenset({"op", BEFORE, AFTER}))
FEEDS = (DELTA, ICEBERG, DEBEZIUM)


def find_feed(wanted: str, names: Collection[str], own: Collection[str] = ()) -> Feed | None:
    """The feed that was named or, for "auto", the one whose columns are there and are not the table's own.

    >>> find_feed("auto", ["id", "_change_type", "_commit_version"]).name
    'delta'
    >>> find_feed("auto", ["id", "amount"]) is None
    True
    """
    if wanted != AUTO:
        for feed in FEEDS:
            if feed.name == wanted:
                return feed
        known = ", ".join(f'"{feed.name}"' for feed in FEEDS)
        raise InvalidDelta(f'unknown change feed "{wanted}"', hint=f'There are {known}, and "{AUTO}".')
    there = set(names) - set(own)
    return next((feed for feed in FEEDS if feed.marks <= there), None)


def unknown_operation(feed: Feed, operation: object, row: object) -> InvalidDelta:
    """The error for a row whose operation means nothing."""
    if feed.envelope and operation == "t":
        return InvalidDelta(
            f"a change feed empties its table, which no weights can say: {row}",
            hint="DELETE FROM the table instead.",
        )
    known = ", ".join(IMAGES if feed.envelope else feed.weights)
    return InvalidDelta(
        f"unknown operation {operation!r} in a {feed.name} change feed: {row}", hint=f"It knows {known}."
    )


def missing_image(image: str, operation: object, row: object) -> InvalidDelta:
    """The error for an update or a deletion that does not say what the row was."""
    return InvalidDelta(
        f'operation {operation!r} without "{image}" in a debezium change feed: {row}',
        hint="Have the database log whole rows: in PostgreSQL, ALTER TABLE ... REPLICA IDENTITY FULL.",
    )
