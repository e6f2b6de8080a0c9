"""What `WITH (...)` says of a table or a materialized view."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from penstock.base.errors import InvalidOption
from penstock.base.quantities import seconds

_KNOWN = {"table": ("retain_history", "dedup"), "materialized view": ("retain_history",)}


@dataclass(frozen=True)
class RelationOptions:
    """How long history is kept (None: as the flow says), and whether repeated deltas are dropped."""

    retain_s: float | None = None
    dedup: bool = False


NO_OPTIONS = RelationOptions()


def read_options(given: Mapping[str, object], kind: str, name: str) -> RelationOptions:
    """The options of a relation of this kind; one that is unknown or has no sense is refused.

    >>> read_options({"retain_history": "1 hour", "dedup": "content"}, "table", "orders")
    RelationOptions(retain_s=3600.0, dedup=True)
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
        None if retain is None else seconds(retain, f'RETAIN HISTORY of "{name}"'), dedup is not None
    )
