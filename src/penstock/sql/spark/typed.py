"""An expression in the text that we understand, with the type that Spark gives it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from penstock.sql.spark.dialect import Tree
from penstock.sql.spark.types import as_decimal
from penstock.zset import types as t
from penstock.zset.types import SqlType

# name -> (fewest arguments, most arguments or None, function from the arguments to the result)
Functions = dict[str, tuple[int, int | None, Callable[..., "Typed"]]]


@dataclass(frozen=True)
class Typed:
    """Text whose type, evaluated by us, is exactly `type`."""

    sql: str
    type: SqlType
    tree: Tree | None = None  # where it comes from, for the place in an error
    literal: str | None = None  # the digits of a number, the characters of a text
    aggregate: bool = False

    def at(self, tree: Tree) -> Typed:
        return replace(self, tree=tree)


def number(digits: str, type: SqlType) -> Typed:
    """A number as it stands in the text, in a type of its own: bare, its type would follow its neighbours."""
    return Typed(f"CAST({digits} AS {type.duck})", type, literal=digits)


def text(characters: str) -> Typed:
    """A string.

    >>> text("it's").sql
    "'it''s'"
    """
    return Typed(string(characters), t.VARCHAR, literal=characters)


def string(characters: str) -> str:
    return "'" + characters.replace("'", "''") + "'"


def integer_of(value: Typed) -> int | None:
    """The value of a literal integer."""
    if value.literal is None or not value.type.is_integer:
        return None
    return int(value.literal)


def decimal_type(value: Typed) -> SqlType:
    """The decimal type of an operand; a literal integer has no more digits than it shows."""
    if value.literal is not None and value.type.is_integer:
        return t.decimal(len(value.literal.lstrip("-")), 0)
    return as_decimal(value.type)


def raw_cast(value: Typed, type: SqlType) -> Typed:
    """A change of type that changes no value: to a wider number, or what is equal anyway."""
    if value.type == type:
        return value
    literal = value.literal if value.type.is_integer and type.is_numeric else None
    inner = literal if literal is not None else value.sql
    return Typed(f"CAST({inner} AS {type.duck})", type, value.tree, literal, value.aggregate)
