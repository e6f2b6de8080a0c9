"""Adding up equal rows, where a person is going to look at them."""

from __future__ import annotations

from penstock.state.batch import Layout, build
from penstock.zset.types import SqlType
from penstock.zset.zset import ZSet


def consolidated(rows: ZSet, types: tuple[SqlType, ...]) -> ZSet:
    """Each row once, with its whole weight; those that cancel are gone."""
    layout = Layout(types, tuple(range(len(types))), unique=True)
    return build(layout, rows.columns, (rows.weights,)).zset()
