"""The JSON text of a serialised plan, with what DuckDB writes wrongly in it put right."""

from __future__ import annotations

import json
import re
from typing import Any

from penstock.base.errors import NotMaintainable


def parse(text: str) -> Any:
    """The JSON value.

    >>> parse('{"nan": NAN}')
    {'nan': nan}
    """
    try:
        return json.loads(text)
    except ValueError:
        return _repaired(text)


def _repaired(text: str) -> Any:
    """The JSON with the NaNs that DuckDB writes as bare words."""
    pattern = r'"(?:[^"\\]|\\.)*"|-?\bnan\b'
    fixed = re.sub(pattern, lambda m: m[0] if m[0][0] == '"' else "NaN", text, flags=re.IGNORECASE)
    try:
        return json.loads(fixed)
    except ValueError:
        raise NotMaintainable("DuckDB cannot write down a plan of this query") from None


def count_characters(item: Any, data: bytes) -> None:
    """Positions in bytes made positions in characters, in place."""
    if isinstance(item, list):
        for value in item:
            count_characters(value, data)
    elif isinstance(item, dict):
        place = item.get("query_location")
        if isinstance(place, int) and place < len(data):
            item["query_location"] = len(data[:place].decode(errors="ignore"))
        for value in item.values():
            count_characters(value, data)
