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
from penstock.base.limits import COMBINED_ROWS_MAX, ERROR_ROWS_MAX
from penstock.engine.accept_one import accept_one, upsert_one
from penstock.engine.catalog import Table
from penstock.engine.consolidate import consolidated
from penstock.engine.shown_value import shorten
from penstock.kernels.hashing import hash_columns
from penstock.kernels.order import sort_order
from penstock.kernels.ranges import run_starts
from penstock.native import kernels
from penstock.state.arrangement import Arrangement
from penstock.state.batch import Batch, Layout, build
from penstock.state.grouping import exact_groups, group_rows
from penstock.state.newest import newest_places, newest_rows
from penstock.zset.comparing import equal_at
from penstock.zset.zeros import unsigned_rows
from penstock.zset.zset import ZSet, union


def accept(table: Table, delta: ZSet, pending: ZSet | None = None) -> tuple[ZSet, Batch | None]:
    """The whole change of the epoch (what is pending, then the delta) and, for tables with a key, the
    same arranged by key. Raises if the table would not be right after it; nothing is changed here."""
    if table.zeros:
        delta = unsigned_rows(delta, table.zeros)
    if (table.not_null or table.checks) and len(delta):
        _check_values(table, delta)
    whole = delta if pending is None else union([pending, delta])
    if table.keyed is None:
        return _accept_bag(table, whole), None
    return accept_one(table, whole) or _accept_keyed(table, whole, delta, pending)


def _check_values(table: Table, delta: ZSet) -> None:
    for position in table.not_null if delta.may_have_nulls(table.not_null) else ():
        if delta.has_nulls(position):
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
            raise CheckViolation(
                f'a row of "{table.name}" breaks CHECK ({text}): {row}',
                hint="Give values for which it holds.",
            )


def _accept_bag(table: Table, delta: ZSet) -> ZSet:
    """A table without a key: what is removed must be there often enough."""
    if not delta.removes():
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


def _accept_keyed(table: Table, delta: ZSet, given: ZSet, pending: ZSet | None) -> tuple[ZSet, Batch]:
    """A table with a key: after the epoch each key has one row at most, and what goes was there. `given` is what the
    delta adds to what is pending."""
    assert table.keyed is not None
    batch, starts, tidy = _by_key(table, delta)
    owners, missing = _look_up(table, batch, starts) if tidy else (starts, starts)
    if not tidy or len(missing):
        # Rows may have come and gone again within the delta: only what is left of them counts.
        batch, starts, _ = _by_key(table, consolidated(delta, table.schema.types))
        owners, missing = _look_up(table, batch, starts)
    if len(missing):
        raise missing_row(table, batch.zset(), missing)
    balance = np.add.reduceat(batch.weights, starts) if len(starts) else np.zeros(0, np.int64)
    balance[owners] += 1
    over = np.flatnonzero(balance > 1)
    if len(over):
        first = int(starts[over[0]])
        row = batch.zset().take(np.array([first + int(batch.weights[first] < 0)]))
        raise _duplicate(table, row, given, pending)
    return batch.zset(), batch


def _by_key(table: Table, rows: ZSet) -> tuple[Batch, np.ndarray, bool]:
    """Rows sorted by key, for each key those that go before those that come; where each key begins; and whether
    each key has one row that goes, or one that comes, or one of each."""
    count, weights = len(rows), rows.weights
    hashes = hash_columns([rows.columns[k] for k in table.key], count)
    if count <= 1:
        batch, starts = Batch(hashes, rows.columns, (weights,)), np.zeros(count, np.int64)
        return batch, starts, _is_tidy(batch, starts)
    order, starts, tidy = _sorted_by_key(hashes, weights)
    batch = Batch(hashes, rows.columns, (weights,)).take(order)
    if len(starts) < count:
        keys = [batch.columns[k] for k in table.key]
        first = np.repeat(starts, np.diff(np.append(starts, count)))
        if not equal_at(keys, first, keys, np.arange(count)).all():
            exact, starts = exact_groups(batch.hashes, keys)
            batch = batch.take(exact)
            tidy = None
    return batch, starts, _is_tidy(batch, starts) if tidy is None else tidy


def _sorted_by_key(hashes: np.ndarray, weights: np.ndarray) -> tuple[np.ndarray, np.ndarray, bool | None]:
    """The order by hash, what goes first, where each hash begins in it, and whether it is tidy (if that is known)."""
    if kernels is not None and len(hashes) <= COMBINED_ROWS_MAX:
        try:
            return kernels.by_key(hashes, np.ascontiguousarray(weights))
        except TypeError:  # numbers that lie across words
            pass
    early = np.argsort(weights > 0, kind="stable")
    order = early[sort_order(hashes[early])]
    return order, run_starts(hashes[order]), None


def _is_tidy(batch: Batch, starts: np.ndarray) -> bool:
    """Each key has one row that goes, or one that comes, or one of each."""
    weights = batch.weights
    if (np.abs(weights) != 1).any():
        return False
    sizes = np.diff(np.append(starts, len(batch)))
    pairs = starts[sizes == 2]
    return bool((sizes <= 2).all() and (weights[pairs] + weights[pairs + 1] == 0).all())


def _look_up(table: Table, batch: Batch, starts: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The keys that the table has, and the rows that go though they do not stand under their key."""
    assert table.keyed is not None
    keys = [batch.columns[k] for k in table.key]
    if len(starts) < len(batch):
        keys = [k.take(starts) for k in keys]
    places = newest_places(table.keyed, batch.hashes[starts], keys)
    weights = batch.weights
    goes = weights < 0
    for owners, stored, theirs in places:
        rows = starts[owners]
        removes = np.flatnonzero(weights[rows] == -1)
        if len(removes):
            rows, theirs = rows[removes], theirs[removes]
            goes[rows[_same_values(table, batch, rows, stored, theirs)]] = False
    owners = np.concatenate([p[0] for p in places]) if places else np.zeros(0, np.int64)
    return owners, np.flatnonzero(goes)


def _same_values(
    table: Table, batch: Batch, rows: np.ndarray, stored: Batch, theirs: np.ndarray
) -> np.ndarray:
    """Row by row, whether all columns are the same; those of the key have been compared to find the row."""
    others = [c for c in range(len(batch.columns)) if c not in table.key]
    given, there = [batch.columns[c] for c in others], [stored.columns[c] for c in others]
    return equal_at(given, rows, there, theirs)


def upsert(table: Table, delta: ZSet, pending: ZSet | None) -> ZSet:
    """The delta that sets rows by key: rows in order, the last one of a key counts; what stood under the
    key goes. A negative weight removes the key's row, whatever the other columns say."""
    if table.keyed is None:
        raise InvalidDelta(
            f'table "{table.name}" has no primary key to upsert by', hint="Declare a PRIMARY KEY."
        )
    one = upsert_one(table, delta) if pending is None or not len(pending) else None
    if one is not None:
        return one
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


def missing_row(table: Table, rows: ZSet, which: np.ndarray) -> MissingRow:
    shown = "; ".join(describe_row(table, rows, int(i)) for i in which[:ERROR_ROWS_MAX])
    more = f" and {len(which) - ERROR_ROWS_MAX} more" if len(which) > ERROR_ROWS_MAX else ""
    return MissingRow(
        f'the delta removes rows that "{table.name}" does not have: {shown}{more}',
        hint="Nothing of the delta was applied. Remove rows exactly as they are in the table.",
    )


def _duplicate(table: Table, one: ZSet, given: ZSet, pending: ZSet | None) -> UniqueViolation:
    """The key of this row is there already, or comes twice, the row that had it being gone."""
    names = [table.schema.names[k] for k in table.key]
    values = [shorten(one.columns[k].to_pylist()[0]) for k in table.key]
    key = ", ".join(f"{n} = {v}" for n, v in zip(names, values, strict=True))
    if not len(rows_at(table, one, pending)) or _removes(table, one, given):
        return UniqueViolation(
            f'two rows that the change gives to table "{table.name}" have the same key ({key})',
            hint="Give each row a key of its own.",
        )
    return UniqueViolation(
        f'table "{table.name}" already has a row with the key ({key})',
        hint='Use INSERT ... ON CONFLICT, or mode="upsert" for tick().',
    )


def _removes(table: Table, one: ZSet, delta: ZSet) -> bool:
    """Whether a delta takes away a row with the key of this one."""
    gone = delta.filter(delta.weights < 0)
    both = union([one.select(table.key), gone.select(table.key)])
    member = group_rows(both.columns, len(both)).member_of(len(both))
    return bool((member[1:] == member[0]).any())
