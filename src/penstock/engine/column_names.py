"""Which names the columns of a table or view may have."""

from __future__ import annotations

from collections.abc import Sequence

from penstock.base.errors import BindError, DuplicateColumn, ReservedName
from penstock.engine.plain_dicts import WEIGHT
from penstock.sql.tokens import fold
from penstock.zset.types import Schema


def view_schema(name: str, schema: Schema, columns: Sequence[str] | None) -> Schema:
    """The columns of a view's query under the names that the view gives to the first of them."""
    names = schema.names
    if columns is not None:
        if len(columns) > len(names):
            raise BindError(f'"{name}" names {len(columns)} columns but the query has {len(names)}')
        names = (*columns, *names[len(columns) :])
    found = Schema(tuple(names), schema.types)
    check_names(name, found)
    return found


def check_names(relation: str, schema: Schema) -> None:
    """Raise if a column's name stands twice."""
    seen: set[str] = set()
    for column in schema.names:
        if fold(column) in seen:
            raise DuplicateColumn(
                f'column "{column}" stands twice in "{relation}"',
                hint="Give one of them another name with AS.",
            )
        seen.add(fold(column))


def check_not_weight(relation: str, schema: Schema) -> None:
    """Raise if a column has the name of the weight: a delta with both could not be told from one with either."""
    for column in schema.names:
        if fold(column) == WEIGHT:
            raise ReservedName(
                f'"{relation}" cannot have a column "{column}": in deltas and watches that is the weight of a row',
                hint="Give it another name, such as weight.",
            )
