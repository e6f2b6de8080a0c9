"""Which rows a statement can touch, where its WHERE names primary keys: a look-up instead of a scan."""

from __future__ import annotations

from typing import Any

import numpy as np

from penstock.base.errors import PenstockError
from penstock.base.limits import POINT_KEYS_MAX
from penstock.engine.catalog import Table
from penstock.plan.named import named_values
from penstock.plan.nodes import Filter, Node, Scan
from penstock.plan.tree import walk
from penstock.sql.bind import Binder
from penstock.sql.tokens import fold
from penstock.zset.column import concat, constant, nulls
from penstock.zset.zset import ZSet


def named_keys(binder: Binder, table: Table, sql: str) -> ZSet | None:
    """Rows with the keys that a query over the table names, and nothing else; None if it may touch any row."""
    if table.keyed is None:
        return None
    try:
        plan = binder.plan(sql)
    except PenstockError:
        return None  # DuckDB will say what is wrong with it, or run it as it is
    keys = _keys(plan, table)
    if keys is None:
        return None
    return _as_rows(table, keys)


def _keys(plan: Node, table: Table) -> list[tuple[Any, ...]] | None:
    scans = [n for n in walk(plan) if isinstance(n, Scan) and fold(n.table) == fold(table.name)]
    filters = [n for n in walk(plan) if isinstance(n, Filter) and n.input in scans]
    if len(scans) != 1 or len(filters) != 1:
        return None
    places = {position: index for index, position in enumerate(scans[0].columns)}
    if not all(k in places for k in table.key):
        return None
    return named_values(filters[0].predicate, [places[k] for k in table.key], POINT_KEYS_MAX)


def _as_rows(table: Table, keys: list[tuple[Any, ...]]) -> ZSet:
    columns = [nulls(t, len(keys)) for t in table.schema.types]
    for place, position in enumerate(table.key):
        type = table.schema.types[position]
        if keys:
            columns[position] = concat([constant(type, key[place], 1) for key in keys])
    return ZSet(tuple(columns), np.ones(len(keys), np.int64))
