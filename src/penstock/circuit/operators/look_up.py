"""look_up: one step of a join's delta path: rows joined with what stands under their key.

    look_up(rows) = rows x B_old,  or  rows x (B_old + dB)  where the path sees the epoch's new rows

An inner join of n inputs is n paths, each from one input's delta through the others:

    d (A1 x ... x An) = sum over i of  A1_new x ... x A(i-1)_new x dAi x A(i+1)_old x ... x An_old

No intermediate result is stored; the arrangements are shared with every view that needs the same
input by the same key.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from penstock.base.limits import FEW_ROWS_MAX
from penstock.circuit.operator import Delta, Result, Stateless
from penstock.circuit.operators.look_up_few import FewLookUp
from penstock.evaluate.compile import Predicate, compile_predicate
from penstock.kernels.hashing import hash_columns
from penstock.plan.expr import Expr
from penstock.state.arrangement import Arrangement, Found, probe_batches
from penstock.state.batch import Batch, Layout
from penstock.zset import weights as w
from penstock.zset.few import Few
from penstock.zset.taking import gather_columns, take_later
from penstock.zset.zset import ZSet


class LookUp(Stateless):
    """Inputs: the rows, and (where it sees the epoch's new rows) the arrangement's delta.

    >>> from penstock.circuit.operators.arrange import Arrange
    >>> from penstock.zset.column import from_pylist
    >>> from penstock.zset.types import BIGINT
    >>> arrange = Arrange([BIGINT, BIGINT], key=[0], not_null=[0])
    >>> stored = ZSet((from_pylist(BIGINT, [1, 1]), from_pylist(BIGINT, [10, 11])), np.array([1, 1]))
    >>> b = Arrangement("b", arrange.layouts[0], arrange.step([stored], [])[1])
    >>> rows = ZSet((from_pylist(BIGINT, [1, 2]),), np.array([-1, 1]))
    >>> LookUp(probe=[0], not_null=[0], columns=[1]).step([rows], [b])[0]
    ZSet([((1, 10), -1), ((1, 11), -1)])
    """

    name = "look_up"

    def __init__(
        self,
        probe: Sequence[int],  # the rows' key columns, in the order of the arrangement's key
        not_null: Sequence[int],  # those of them where NULL matches nothing
        columns: Sequence[int],  # those of the arrangement that the output has after the rows' own
        filters: Sequence[Expr] = (),  # over the output's columns
        names: Sequence[str] = (),
    ) -> None:
        self._probe = list(probe)
        self._not_null = list(not_null)
        self._columns = list(columns)
        self._filters = [compile_predicate(f, names=names) for f in filters]
        self.routes = (tuple(probe), None)
        self._few: FewLookUp | None = None  # made when the layout is known

    def step(self, deltas: Sequence[Delta], state: Sequence[Arrangement]) -> Result:
        rows = deltas[0]
        if rows is None:
            return None, ()
        pending = deltas[1] if len(deltas) > 1 else None
        assert isinstance(rows, ZSet)
        assert pending is None or isinstance(pending, Batch)
        return self.join(rows, state[0], pending), ()

    def join(self, rows: ZSet, arrangement: Arrangement, pending: Batch | None) -> ZSet | None:
        """The rows joined with the arrangement, and with the batch that is pending for it."""
        batches = arrangement.batches if pending is None else [*arrangement.batches, pending]
        if isinstance(rows, Few) and len(rows) <= FEW_ROWS_MAX:
            few = self._join_few(rows, arrangement.layout, batches)
            if few is not None:
                return _pass(few, self._filters) if few.rows else None
        rows = _matchable(rows, self._not_null)
        count = len(rows)
        if not count or not batches:
            return None
        keys = [rows.columns[p] for p in self._probe]
        hashes = hash_columns(keys, count)
        found = probe_batches(arrangement.layout, batches, hashes, keys)
        if not found:
            return None
        return _pass(self._joined(rows, found), self._filters)

    def _join_few(self, rows: Few, layout: Layout, batches: Sequence[Batch]) -> Few | None:
        if self._few is None or self._few.layout is not layout:
            self._few = FewLookUp(layout, self._probe, self._not_null, self._columns)
        return self._few.join(rows, batches) if self._few.fits else None

    def _joined(self, rows: ZSet, found: Sequence[Found]) -> ZSet:
        """The rows side by side with those found. What is found in several batches is put together first:
        the rows' own columns, most of the work, are then taken once."""
        if len(found) == 1:
            batch, mine, theirs = found[0]
            others = take_later([batch.columns[p] for p in self._columns], theirs)
            weight = batch.weights[theirs]
        else:
            mine, weight = np.concatenate([f[1] for f in found]), _weights(found)
            columns = [[batch.columns[p] for p in self._columns] for batch, _, _ in found]
            others = gather_columns(columns, [theirs for _, _, theirs in found])
        if len(mine) == len(rows) and (mine == np.arange(len(mine))).all():
            return ZSet((*rows.columns, *others), w.times(rows.weights, weight))
        return ZSet((*take_later(rows.columns, mine), *others), w.times(rows.weights[mine], weight))


def _weights(found: Sequence[Found]) -> np.ndarray:
    return np.concatenate([batch.weights[theirs] for batch, _, theirs in found])


def _matchable(rows: ZSet, positions: Sequence[int]) -> ZSet:
    valid = None
    for position in positions:
        mask = rows.columns[position].validity()
        if mask is not None:
            valid = mask if valid is None else valid & mask
    return rows if valid is None or valid.all() else rows.filter(valid)


def _pass(rows: ZSet, filters: Sequence[Predicate]) -> ZSet:
    for passes in filters:
        mask = passes(rows.columns, len(rows))
        if not mask.all():
            rows = rows.filter(mask)
    return rows
