"""Marks in place of placeholders, that are found again in the plan with the type that their place gave them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from penstock.base.errors import NotMaintainable
from penstock.sql.binding import Verbatim
from penstock.sql.read_types import Json, read_type

_PREFIX = "penstock placeholder "


def marked(number: int) -> Verbatim:
    """A call whose type is that of NULL: DuckDB casts it to what its place needs, and does not fold it."""
    return Verbatim(f"error('{_PREFIX}{number}')")


def marked_types(plan: Json) -> dict[int, str]:
    """The types that the casts in a plan (not an optimised one) give to the marks, by number."""
    found: dict[int, str] = {}
    for item in _casts(plan):
        number = _number(item["children"][0])
        if number is not None:
            try:
                found.setdefault(number, read_type(item["return_type"]).duck)
            except NotMaintainable:
                continue  # a type that tables cannot have: the value stays text
    return found


def _casts(item: Any) -> Iterator[Json]:
    waiting = [item]
    while waiting:
        item = waiting.pop()
        if isinstance(item, dict):
            if item.get("type") == "OPERATOR_CAST" and item.get("children"):
                yield item
            waiting += item.values()
        elif isinstance(item, list):
            waiting += item


def _number(item: Json) -> int | None:
    name = (item.get("qname") or {}).get("path") or [""]
    if name[-1] != "error" or not item.get("children"):
        return None
    value = (item["children"][0].get("value") or {}).get("value")
    return int(value.removeprefix(_PREFIX)) if isinstance(value, str) and value.startswith(_PREFIX) else None
