"""Which rows a statement can touch, where its WHERE names primary keys: a look-up instead of a scan."""

from __future__ import annotations

from itertools import product

import numpy as np

from penstock.base.errors import PenstockError
from penstock.base.limits import POINT_KEYS_MAX
from penstock.engine.catalog import Table
from penstock.plan.expr import Call, Col, Const, conjuncts
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


def _keys(plan: Node, table: Table) -> list[tuple[Const, ...]] | None:
    scans = [n for n in walk(plan) if isinstance(n, Scan) and fold(n.table) == fold(table.name)]
    filters = [n for n in walk(plan) if isinstance(n, Filter) and n.input in scans]
    if len(scans) != 1 or len(filters) != 1:
        return None
    choices: dict[int, list[Const]] = {}
    for term in conjuncts(filters[0].predicate):
        found = _constants(term)
        if found is not None:
            choices.setdefault(scans[0].columns[found[0]], found[1])
    if not all(k in choices for k in table.key):
        return None
    size = 1
    for k in table.key:
        size *= len(choices[k])
    return list(product(*(choices[k] for k in table.key))) if size <= POINT_KEYS_MAX else None


def _constants(term: object) -> tuple[int, list[Const]] | None:
    """(column, constants) for `column = constant` and `column IN (constants)`."""
    if not isinstance(term, Call) or term.name not in ("=", "in"):
        return None
    first, *rest = term.args
    if isinstance(first, Const) and term.name == "=":
        first, rest = rest[0], [first]
    if not isinstance(first, Col) or not all(isinstance(c, Const) and c.type == first.type for c in rest):
        return None
    return first.index, [c for c in rest if isinstance(c, Const) and c.value is not None]


def _as_rows(table: Table, keys: list[tuple[Const, ...]]) -> ZSet:
    columns = [nulls(t, len(keys)) for t in table.schema.types]
    for place, position in enumerate(table.key):
        type = table.schema.types[position]
        if keys:
            columns[position] = concat([constant(type, key[place].value, 1) for key in keys])
    return ZSet(tuple(columns), np.ones(len(keys), np.int64))
