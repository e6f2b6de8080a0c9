"""Checking a delta against its table before anything happens: keys, NULLs, missing rows, CHECKs."""

from __future__ import annotations

from typing import Any

import numpy as np

from penstock.base.errors import (
    CheckViolation,
    InvalidDelta,
    MissingRow,
    NotNullViolation,
    UniqueViolation,
)
from penstock.base.limits import ERROR_ROWS_MAX, ERROR_VALUE_LENGTH_MAX
from penstock.engine.catalog import Table
from penstock.engine.consolidate import consolidated
from penstock.state.arrangement import Arrangement
from penstock.state.batch import Batch, Layout, build
from penstock.state.grouping import group_rows
from penstock.state.newest import newest_rows
from penstock.zset.column import equal_rows
from penstock.zset.zset import ZSet, union


def accept(table: Table, delta: ZSet, pending: ZSet | None = None) -> tuple[ZSet, Batch | None]:
    """The whole change of the epoch (what is pending, then the delta) and, for tables with a key, the
    same arranged by key. Raises if the table would not be right after it; nothing is changed here."""
    if len(delta):
        _check_values(table, delta)
    whole = delta if pending is None else union([pending, delta])
    if table.keyed is None:
        return _accept_bag(table, whole), None
    return _accept_keyed(table, whole)


def _check_values(table: Table, delta: ZSet) -> None:
    for position in table.not_null:
        null = delta.columns[position].validity()
        if null is not None and not null.all():
            name = table.schema.names[position]
            raise NotNullViolation(
                f'column "{name}" of "{table.name}" must not be NULL', hint="Give it a value or a default."
            )
    added = None
    for text, check in table.checks:
        added = delta.filter(delta.weights > 0) if added is None else added
        result = check(added.columns, len(added))
        failed = ~result.values if result.valid is None else result.valid & ~result.values
        if failed.any():
            row = describe_row(table, added, int(np.flatnonzero(failed)[0]))
            raise CheckViolation(f'a row of "{table.name}" breaks CHECK ({text}): {row}')


def _accept_bag(table: Table, delta: ZSet) -> ZSet:
    """A table without a key: what is removed must be there often enough."""
    if not (delta.weights < 0).any():
        return delta
    assert table.bag is not None
    types = table.schema.types
    batch = build(Layout(types, tuple(range(len(types))), unique=True), delta.columns, (delta.weights,))
    rows = batch.zset()
    removed = np.flatnonzero(rows.weights < 0)
    if len(removed):
        gone = rows.take(removed)
        missing = np.flatnonzero(table.bag.weights_of(gone) + gone.weights < 0)
        if len(missing):
            raise missing_row(table, gone, missing)
    return rows


def _accept_keyed(table: Table, delta: ZSet) -> tuple[ZSet, Batch]:
    """A table with a key: after the epoch each key has one row at most, and what goes was there."""
    assert table.keyed is not None
    if len(delta) > 1:
        delta = _net(table, delta)
    weights = delta.weights
    keys = [delta.columns[k] for k in table.key]
    groups = group_rows(keys, len(delta))
    member = groups.member_of(len(delta))
    asked = keys if len(delta) <= 1 else [k.take(groups.first_rows()) for k in keys]
    owners, stored = newest_rows(table.keyed, groups.hashes, asked)
    removed = np.flatnonzero(weights < 0)
    if len(removed):
        _check_removed(table, delta, removed, member, owners, stored)
    balance = np.zeros(len(groups.hashes), np.int64)
    balance[owners] = 1
    np.add.at(balance, member, weights)
    over = np.flatnonzero(balance > 1)
    if len(over):
        rows = np.flatnonzero((member == over[0]) & (weights > 0))
        raise _duplicate(table, delta, int(rows[0]))
    batch = build(table.keyed.layout, delta.columns, (weights,))
    return batch.zset(), batch


def _net(table: Table, delta: ZSet) -> ZSet:
    """The delta with equal rows added up, where a key stands in it more than once in the same direction
    (or comes before it goes): what is left has at most one row going and one coming for a key."""
    keys = [delta.columns[k] for k in table.key]
    groups = group_rows(keys, len(delta))
    if len(groups.starts) == len(delta) and (np.abs(delta.weights) == 1).all():
        return delta
    order = np.arange(len(delta)) if groups.order is None else groups.order
    weights = delta.weights[order]
    sizes = np.diff(np.append(groups.starts, len(delta)))
    pairs = groups.starts[sizes == 2]
    tidy = (sizes <= 2).all() and (np.abs(weights) == 1).all()
    if tidy and (weights[pairs] + weights[pairs + 1] == 0).all():
        going = order[np.where(weights[pairs] < 0, pairs, pairs + 1)]
        coming = order[np.where(weights[pairs] < 0, pairs + 1, pairs)]
        same = np.ones(len(pairs), np.bool_)
        for column in delta.columns:
            if not same.any():
                break
            same &= equal_rows(column.take(going), column.take(coming))
        if not same.any():
            return delta
    return consolidated(delta, table.schema.types)


def _check_removed(
    table: Table, delta: ZSet, removed: np.ndarray, member: np.ndarray, owners: np.ndarray, stored: Batch | None
) -> None:
    """Each row that goes must be the one that stands under its key."""
    # Equal rows have been added up, so a key has one row that goes, or several that cannot all be there.
    goes = np.full(int(member.max()) + 1, -1)
    goes[member[removed]] = removed
    there = np.zeros(len(delta), np.bool_)
    if stored is not None:
        asked = goes[owners]
        rows = np.flatnonzero(asked >= 0)
        same = np.ones(len(rows), np.bool_)
        for mine, theirs in zip(delta.columns, stored.columns, strict=True):
            theirs = theirs if len(rows) == len(owners) else theirs.take(rows)
            same &= equal_rows(mine.take(asked[rows]), theirs)
        there[asked[rows[same]]] = True
    often = delta.weights[removed] < -1
    missing = removed[~there[removed] | often]
    if len(missing):
        raise missing_row(table, delta, missing)


def upsert(table: Table, delta: ZSet, pending: ZSet | None) -> ZSet:
    """The delta that sets rows by key: rows in order, the last one of a key counts; what stood under the
    key goes. A negative weight removes the key's row, whatever the other columns say."""
    if table.keyed is None:
        raise InvalidDelta(
            f'table "{table.name}" has no primary key to upsert by', hint="Declare a PRIMARY KEY."
        )
    keys = [delta.columns[k] for k in table.key]
    groups = group_rows(keys, len(delta))
    order = np.arange(len(delta)) if groups.order is None else groups.order
    stops = np.append(groups.starts, len(delta))[1:] - 1
    last = order[stops]  # the sort is stable, so the last row of a key is the last one given
    kept = delta.take(last)
    old = rows_at(table, kept, pending)
    gone = kept.weights < 0
    if gone.any():
        present = set(_keys_of(table, old))
        for i in np.flatnonzero(gone).tolist():
            row = kept.take(np.array([i]))
            first = bool((delta.weights[groups.member_of(len(delta)) == i] > 0).any())
            if _keys_of(table, row)[0] not in present and not first:
                raise missing_row(table, row, np.array([0]))
    added = kept.filter(~gone)
    added = ZSet(added.columns, np.ones(len(added), np.int64))
    return union([old.negate(), added])


def rows_at(table: Table, rows: ZSet, pending: ZSet | None) -> ZSet:
    """The table's rows, with what is pending, under the keys of these rows."""
    assert table.keyed is not None
    arrangement = table.keyed
    if pending is not None and len(pending):
        batch = build(arrangement.layout, pending.columns, (pending.weights,))
        arrangement = Arrangement(arrangement.name, arrangement.layout, [*arrangement.batches, batch])
    keys = [rows.columns[k] for k in table.key]
    groups = group_rows(keys, len(rows))
    _, found = newest_rows(arrangement, groups.hashes, [k.take(groups.first_rows()) for k in keys])
    return rows.take(np.zeros(0, np.int64)) if found is None else found.zset()


def _keys_of(table: Table, rows: ZSet) -> list[tuple[Any, ...]]:
    return list(zip(*(rows.columns[k].to_pylist() for k in table.key), strict=True))


def describe_row(table: Table, rows: ZSet, row: int) -> str:
    """A row for a message: (id = 1, name = 'ann')."""
    one = rows.take(np.array([row]))
    values = [shorten(c.to_pylist()[0]) for c in one.columns]
    return "(" + ", ".join(f"{n} = {v}" for n, v in zip(table.schema.names, values, strict=True)) + ")"


def shorten(value: Any) -> str:
    """A value for a message."""
    if value is None:
        return "NULL"
    text = repr(value) if isinstance(value, (str, bytes)) else str(value)
    return text if len(text) <= ERROR_VALUE_LENGTH_MAX else text[:ERROR_VALUE_LENGTH_MAX] + "..."


def missing_row(table: Table, rows: ZSet, which: np.ndarray) -> MissingRow:
    shown = "; ".join(describe_row(table, rows, int(i)) for i in which[:ERROR_ROWS_MAX])
    more = f" and {len(which) - ERROR_ROWS_MAX} more" if len(which) > ERROR_ROWS_MAX else ""
    return MissingRow(
        f'the delta removes rows that "{table.name}" does not have: {shown}{more}',
        hint="Nothing of the delta was applied. Remove rows exactly as they are in the table.",
    )


def _duplicate(table: Table, rows: ZSet, row: int) -> UniqueViolation:
    one = rows.take(np.array([row]))
    names = [table.schema.names[k] for k in table.key]
    values = [shorten(one.columns[k].to_pylist()[0]) for k in table.key]
    key = ", ".join(f"{n} = {v}" for n, v in zip(names, values, strict=True))
    return UniqueViolation(
        f'table "{table.name}" already has a row with the key ({key})',
        hint='Use INSERT ... ON CONFLICT, or mode="upsert" for tick().',
    )
