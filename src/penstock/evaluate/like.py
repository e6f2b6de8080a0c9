"""LIKE and ILIKE: % is any text, _ any character; a character is quoted only with ESCAPE."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from penstock.evaluate.text import all_ascii


@lru_cache(maxsize=256)
def to_regex(pattern: str, escape: str = "") -> str | None:
    """The regular expression for a LIKE pattern; None if it ends in the escape character.

    >>> to_regex("a%_b")
    'a.*.b'
    """
    parts = []
    characters = iter(pattern)
    for character in characters:
        if escape and character == escape:
            quoted = next(characters, None)
            if quoted is None:
                return None
            parts.append(re.escape(quoted))
        else:
            parts.append({"%": ".*", "_": "."}.get(character) or re.escape(character))
    return "".join(parts)


@lru_cache(maxsize=256)
def _compiled(pattern: str, escape: str = "") -> re.Pattern[str] | None:
    regex = to_regex(pattern, escape)
    return None if regex is None else re.compile(regex, re.DOTALL)


def like(text: str, pattern: str, escape: str = "") -> Any:
    """
    >>> like("5% more", "5!% m%", "!")
    True
    """
    regex = _compiled(pattern, escape) if len(escape) < 2 else None
    return NotImplemented if regex is None else regex.fullmatch(text) is not None


def not_like(text: str, pattern: str, escape: str = "") -> Any:
    found = like(text, pattern, escape)
    return found if found is NotImplemented else not found


def ilike(text: str, pattern: str, escape: str = "") -> Any:
    if not (text.isascii() and pattern.isascii() and escape.isascii()):
        return NotImplemented  # which letters are the same is DuckDB's to say
    return like(text.lower(), pattern.lower(), escape.lower())


def not_ilike(text: str, pattern: str, escape: str = "") -> Any:
    found = ilike(text, pattern, escape)
    return found if found is NotImplemented else not found


def like_vector(values: pa.Array, patterns: pa.Array, escapes: pa.Array | None = None) -> Any:
    if len(patterns) != 1 or len(values) == 1 or (escapes is not None and len(escapes) != 1):
        return NotImplemented
    pattern = patterns[0].as_py()
    escape = "" if escapes is None else escapes[0].as_py()
    regex = None if pattern is None or escape is None or len(escape) > 1 else to_regex(pattern, escape)
    if regex is None:
        return NotImplemented
    return pc.match_substring_regex(values, f"^(?s:{regex})$")


def not_like_vector(values: pa.Array, patterns: pa.Array, escapes: pa.Array | None = None) -> Any:
    found = like_vector(values, patterns, escapes)
    return found if found is NotImplemented else pc.invert(found)


def ilike_vector(values: pa.Array, patterns: pa.Array, escapes: pa.Array | None = None) -> Any:
    if escapes is not None or not all_ascii(values) or not all_ascii(patterns):
        return NotImplemented
    return like_vector(pc.ascii_lower(values), pc.ascii_lower(patterns))


def not_ilike_vector(values: pa.Array, patterns: pa.Array, escapes: pa.Array | None = None) -> Any:
    found = ilike_vector(values, patterns, escapes)
    return found if found is NotImplemented else pc.invert(found)
