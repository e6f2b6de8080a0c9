"""What the parser tests share: one parsed statement, checked to be made of slices of its text."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import Any, TypeVar

from penstock.sql import statements as s
from penstock.sql.parse import parse

S = TypeVar("S", bound=s.Statement)


def one(sql: str, kind: type[S]) -> S:
    """The only statement of a text, after checking that every slice says where it stands."""
    (statement,) = parse(sql)
    assert type(statement) is kind
    for piece in slices(statement):
        assert sql[piece.offset : piece.end] == piece.text
    for parameter in statement.parameters:
        assert sql[parameter.offset :].startswith(parameter.text)
    return statement


def slices(value: Any) -> Iterator[s.Slice]:
    if isinstance(value, s.Slice):
        yield value
    elif isinstance(value, tuple):
        for item in value:
            yield from slices(item)
    elif dataclasses.is_dataclass(value):
        for field in dataclasses.fields(value):
            yield from slices(getattr(value, field.name))


def text(piece: s.Slice | None) -> str | None:
    return None if piece is None else piece.text


def sets(assignments: tuple[s.Assignment, ...]) -> list[tuple[str, str]]:
    return [(",".join(a.columns), a.value.text) for a in assignments]
