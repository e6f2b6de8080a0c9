"""Where an error lies in the text that the user wrote, although DuckDB has read another one.

DuckDB tells a place in the text that it was given, which often is one of ours with pieces of the user's in it. A place
that cannot be followed back to such a piece is left out: none is better than a wrong one.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from penstock.base.errors import (
    AmbiguousColumn,
    PenstockError,
    UndefinedColumn,
    UndefinedFunction,
    UndefinedTable,
    UndefinedType,
)
from penstock.sql.statements import Slice
from penstock.sql.tokens import fold

_OF_NAMES = (AmbiguousColumn, UndefinedColumn, UndefinedFunction, UndefinedTable, UndefinedType)
_IN_A_NAME = re.compile(r"[\w$\"]")


@contextmanager
def positions_in(piece: Slice) -> Iterator[None]:
    """Errors in a piece of the statement's text say where they lie in the whole text."""
    try:
        yield
    except PenstockError as error:
        if error.position is not None:
            error.position = piece.whole(error.position)
        raise


@contextmanager
def positions_unknown() -> Iterator[None]:
    """Errors in text that we composed ourselves have no place in the user's."""
    try:
        yield
    except PenstockError as error:
        error.position = None
        raise


@contextmanager
def positions_from(composed: str, pieces: Iterable[Slice | None]) -> Iterator[None]:
    """Errors in a text of ours say where they lie in the user's, of which the pieces stand in ours."""
    try:
        yield
    except PenstockError as error:
        if error.position is not None:
            # An operator's error tells a place in the text of its view.
            error.position = None if error.node is not None else origin(composed, error.position, pieces)
        raise


def origin(composed: str, position: int, pieces: Iterable[Slice | None]) -> int | None:
    """The place in the whole text of a position in a composed one; None if it is in no piece, or in one of several.

    >>> origin("SELECT a FROM (SELECT b, c)", 25, [Slice("SELECT b, c", 100)])
    110
    >>> origin("SELECT a FROM (SELECT b, c)", 7, [Slice("SELECT b, c", 100)]) is None
    True
    >>> origin("VALUES (b, b)", 11, [Slice("b", 100), Slice("b", 103)]) is None
    True
    """
    longest, places = 0, set[int]()
    for piece in pieces:
        if piece is None or len(piece.text) < longest:
            continue
        for start in _around(composed, position, piece.text):
            if len(piece.text) > longest:  # a short piece may stand in a longer one by chance
                longest, places = len(piece.text), set()
            places.add(piece.whole(position - start))
    return places.pop() if len(places) == 1 else None


def _around(composed: str, position: int, text: str) -> Iterator[int]:
    """Where a text begins that has the position in it and is no part of a longer name."""
    start = composed.find(text, max(0, position - len(text) + 1), position + len(text))
    while text and start >= 0:
        end = start + len(text)
        before, after = composed[max(0, start - 1) : start], composed[end : end + 1]
        if not (_splits_name(before, text[0]) or _splits_name(text[-1], after)):
            yield start
        start = composed.find(text, start + 1, position + len(text))


def _splits_name(left: str, right: str) -> bool:
    return bool(_IN_A_NAME.match(left) and _IN_A_NAME.match(right))


def is_plausible(error: PenstockError, text: Slice) -> bool:
    """Whether the position is one in the statement's text and, of an unknown name, that name stands there.

    >>> text = Slice("SELECT nope", 10)
    >>> is_plausible(UndefinedColumn('column "nope" does not exist', position=17), text)
    True
    >>> is_plausible(UndefinedColumn('column "nope" does not exist', position=10), text)
    False
    """
    if error.position is None:
        return True
    if not text.offset <= error.position <= text.end:
        return False
    if not isinstance(error, _OF_NAMES):
        return True
    there = fold(text.text[error.position - text.offset :].replace('"', ""))
    return any(there.startswith(fold(name)) for name in _names(error.message))


def _names(message: str) -> list[str]:
    """The names in a message, quoted or, of types and functions, bare."""
    bare = re.match(r"(?:type|function|no function) ([^\s(]+)", message)
    return [
        name.replace('"', "")
        for name in (*re.findall(r'"([^"]+)"', message), *(bare.groups() if bare else ()))
    ]
