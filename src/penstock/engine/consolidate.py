"""Adding up equal rows, where a person is going to look at them."""

from __future__ import annotations

from penstock.base.limits import FEW_ROWS_MAX
from penstock.kernels.hashing import hash_few
from penstock.state.batch import Layout, build
from penstock.zset.few import Few
from penstock.zset.types import SqlType
from penstock.zset.zset import ZSet


def consolidated(rows: ZSet, types: tuple[SqlType, ...]) -> ZSet:
    """Each row once, with its whole weight; those that cancel are gone."""
    if isinstance(rows, Few):
        given = rows.rows
        if len(set(given)) == len(given):  # and no weight of them is zero
            return rows
    elif len(rows) <= FEW_ROWS_MAX and all(rows.weights.tolist()):
        hashes = hash_few(rows.columns, len(rows))
        if len(set(hashes)) == len(hashes):
            return rows  # different hashes: different rows
    layout = Layout(types, tuple(range(len(types))), unique=True)
    return build(layout, rows.columns, (rows.weights,)).zset()
