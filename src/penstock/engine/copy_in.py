"""Rows that come as text, for COPY: cast by DuckDB to the columns of a table, which become a delta."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from penstock.base.errors import BindError, ReadOnlyTransaction
from penstock.engine import dml
from penstock.engine.catalog import Table
from penstock.engine.transaction import Transaction
from penstock.sql.tokens import fold, quote


def targets(table: Table, columns: Sequence[str] | None) -> list[int]:
    """The places of the columns that are given."""
    if columns is None:
        return list(range(len(table.schema)))
    found = dml.positions(table, columns)
    if len({fold(c) for c in columns}) != len(columns):
        raise BindError("a column is named twice")
    return found


def copy_in(transaction: Transaction, table: Table, places: Sequence[int], texts: pa.Table) -> int:
    """Add rows of text (columns c0, c1, ... for the places) to the transaction; how many."""
    if transaction.read_only:
        raise ReadOnlyTransaction("the transaction is read only", hint="BEGIN one that is not.")
    given = {place: f"c{i}" for i, place in enumerate(places)}
    items = []
    for i, (name, type) in enumerate(zip(table.schema.names, table.schema.types, strict=True)):
        value = given.get(i) or f"({table.default_texts[i] or 'NULL'})"
        items.append(f"CAST({value} AS {type.duck}) AS {quote(name)}")
    sql = f"SELECT {', '.join(items)} FROM penstock_copied"
    transaction.apply(table, dml.as_rows(table, transaction.query(sql, extra={"penstock_copied": texts})))
    return texts.num_rows
