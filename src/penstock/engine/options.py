"""What `WITH (...)` says of a table or a materialized view."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from penstock.base.errors import InvalidOption
from penstock.base.limits import FRESHNESS_TARGET_SECONDS_MIN
from penstock.base.quantities import seconds

_KNOWN = {"table": ("retain_history", "dedup"), "materialized view": ("retain_history", "freshness")}


@dataclass(frozen=True)
class RelationOptions:
    """How long history is kept (None: as the flow says), whether repeated deltas are dropped, how fresh it must be."""

    retain_s: float | None = None
    dedup: bool = False
    freshness_s: float | None = None  # how far behind its tables a view may be


NO_OPTIONS = RelationOptions()


def read_options(given: Mapping[str, object], kind: str, name: str) -> RelationOptions:
    """The options of a relation of this kind; one that is unknown or has no sense is refused.

    >>> read_options({"retain_history": "1 hour", "dedup": "content"}, "table", "orders")
    RelationOptions(retain_s=3600.0, dedup=True, freshness_s=None)
    """
    known = _KNOWN[kind]
    for option in given:
        if option not in known:
            raise InvalidOption(
                f'unknown option {option} of {kind} "{name}"', hint=f"There is {' and '.join(known)}."
            )
    dedup = given.get("dedup")
    if dedup not in (None, "content"):
        raise InvalidOption(
            f'dedup of "{name}" is {dedup!r}, which is unknown', hint="Write dedup = 'content'."
        )
    retain = given.get("retain_history")
    return RelationOptions(
        None if retain is None else seconds(retain, f'RETAIN HISTORY of "{name}"'),
        dedup is not None,
        _freshness(given.get("freshness"), name),
    )


def _freshness(given: object, name: str) -> float | None:
    if given is None:
        return None
    target_s = seconds(given, f'freshness of "{name}"')
    if target_s < FRESHNESS_TARGET_SECONDS_MIN:
        raise InvalidOption(
            f'freshness of "{name}" is {given!r}, which is too short to be measured',
            hint=f"Write at least '{FRESHNESS_TARGET_SECONDS_MIN * 1000:g} ms'.",
        )
    return target_s
