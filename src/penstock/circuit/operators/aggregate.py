"""aggregate: GROUP BY with COUNT, SUM, AVG, variances, BOOL_AND/OR, MIN and MAX.

    measures(new) = measures(old) + measures(delta)                for the groups in the delta
    d = -(old row of the group) + (new row of the group)           where they differ

State: the measures of each group, which add; for MIN and MAX also the rows of each group in order,
and the extremes last emitted. DISTINCT arguments come in as further inputs that are distinct already.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from penstock.base.limits import FEW_ROWS_MAX
from penstock.circuit import accumulators as acc
from penstock.circuit.accumulators import MeasureSpec
from penstock.circuit.finish_few import finish_one
from penstock.circuit.operator import Delta, Recorded, Result
from penstock.circuit.operators.aggregate_few import FewRows
from penstock.circuit.operators.extremum import Extremum, Registers
from penstock.evaluate.compile import Predicate, compile_expr, compile_predicate
from penstock.evaluate.forms import Eval
from penstock.plan.expr import Expr
from penstock.plan.nodes import Agg
from penstock.state import measures as m
from penstock.state.arrangement import Arrangement
from penstock.state.batch import Batch, Layout
from penstock.state.grouping import Groups, group_rows
from penstock.state.laws import ACCUMULATOR_SUM, FLOAT_LIMB_SUM
from penstock.state.measures import Measure
from penstock.zset import weights as weight
from penstock.zset.column import Column, equal_rows, nulls
from penstock.zset.column import concat as concat_columns
from penstock.zset.few import Few
from penstock.zset.types import SqlType
from penstock.zset.zset import ZSet, union

EXTREMES = {"min": False, "max": True, "first": False}  # name: descending


@dataclass(frozen=True)
class AggregateInput:
    """An aggregate, with its argument and filter over the columns of one of the inputs."""

    agg: Agg
    arg: Expr | None
    filter: Expr | None
    input: int


class Aggregate(Recorded):
    """Measures and extremes of each group.

    >>> from penstock.plan.expr import Col
    >>> from penstock.zset.column import from_pylist
    >>> from penstock.zset.types import BIGINT, HUGEINT
    >>> total = AggregateInput(Agg("sum", Col(BIGINT, 1), HUGEINT), Col(BIGINT, 1), None, 0)
    >>> by_key = Aggregate([BIGINT], [[0]], [total], [["k", "v"]])
    >>> groups = Arrangement("groups", by_key.layouts[0])
    >>> rows = ZSet((from_pylist(BIGINT, [1, 1]), from_pylist(BIGINT, [10, 20])), np.array([1, 1]))
    >>> out, appended = by_key.step([rows], [groups])
    >>> groups.append(appended[0])
    >>> out, by_key.step([rows.take(np.array([0]))], [groups])[0]
    (ZSet([((1, Decimal('30')), 1)]), ZSet([((1, Decimal('30')), -1), ((1, Decimal('40')), 1)]))
    """

    name = "aggregate"

    def __init__(
        self,
        key_types: Sequence[SqlType],
        keys: Sequence[Sequence[int]],  # the key's positions in each input
        aggs: Sequence[AggregateInput],
        names: Sequence[Sequence[str]],  # column names of each input, for messages
    ) -> None:
        self._key_types = tuple(key_types)
        self._keys = [list(k) for k in keys]
        specs: dict[MeasureSpec, int] = {MeasureSpec(acc.ROWS): 0}
        extremes: dict[tuple[Expr, Expr | None, bool], int] = {}
        # How each aggregate follows from its measures; None: an extreme, and the place of it.
        self._outputs: list[tuple[acc.Finish | None, list[int]]] = []
        for a in aggs:
            if a.agg.name in EXTREMES:
                assert a.arg is not None
                key = (a.arg, a.filter, EXTREMES[a.agg.name])
                self._outputs.append((None, [extremes.setdefault(key, len(extremes))]))
                continue
            wanted = acc.measures_of(a.agg, a.arg, a.filter, a.input)
            places = [specs.setdefault(s, len(specs)) for s in wanted]
            self._outputs.append((acc.finisher(a.agg, a.arg.type if a.arg else None), places))
        self._specs = list(specs)
        self._compiled = [_compile(s.arg, s.filter, names[s.input]) for s in self._specs]
        self._extremes = [
            Extremum(self._key_types, arg, filter, down, names[0]) for arg, filter, down in extremes
        ]
        self._registers = Registers(self._key_types, [e.type for e in self._extremes])
        groups = Layout(self._key_types, tuple(range(len(self._key_types))), unique=True)
        self.layouts: tuple[Layout, ...] = (groups,)
        self.routes = tuple(tuple(k) for k in keys)
        if self._extremes:
            self.layouts = (groups, self._registers.layout, *(e.layout for e in self._extremes))

        self._few = None
        types = [a.agg.type for a in aggs]
        if len(keys) == 1 and not self._extremes and FewRows.fits(self._key_types, self._specs, types):
            outputs = [
                (finish_one(a.agg, a.arg.type if a.arg else None), places)
                for a, (_, places) in zip(aggs, self._outputs, strict=True)
            ]
            self._few = FewRows(self._key_types, keys[0], self._specs, self._compiled, outputs, types)

    # -- one step --------------------------------------------------------------------------

    def step(self, deltas: Sequence[Delta], state: Sequence[Arrangement]) -> Result:
        rows, few = deltas[0], self._few
        if few is not None and (
            rows.__class__ is Few or (isinstance(rows, ZSet) and len(rows) <= FEW_ROWS_MAX)
        ):
            result = few.step(rows, state[0])
            if result is not None:
                return result
        if isinstance(rows, Batch):
            return self._add(rows.hashes, rows.columns, rows.measures, state)
        columns, groups, owners = self._group(deltas)
        changes = self._measures(deltas, groups, owners)
        if not self._extremes:
            return self._add(groups.hashes, columns, changes, state)
        hashes = groups.hashes
        old = state[0].lookup(hashes, columns, changes)
        new = [m.plus(a, b) for a, b in zip(old, changes, strict=True)]
        old_extremes, new_extremes, more = self._step_extremes(deltas[0], columns, groups, owners, new, state)
        appends = [_nonzero(hashes, columns, changes), *more]
        return self._emit(columns, old, new, old_extremes, new_extremes), appends

    def _add(
        self,
        hashes: np.ndarray,
        columns: tuple[Column, ...],
        changes: Sequence[Measure],
        state: Sequence[Arrangement],
    ) -> Result:
        """Add measures to those of the groups."""
        old = state[0].lookup(hashes, columns, changes)
        new = [m.plus(a, b) for a, b in zip(old, changes, strict=True)]
        return self._emit(columns, old, new, (), ()), [_nonzero(hashes, columns, changes)]

    # -- in several places -----------------------------------------------------------------

    @property
    def combines(self) -> bool:
        """Whether measures that were added up elsewhere may come in the place of rows."""
        return len(self._keys) == 1 and not self._extremes

    def partial(self, rows: ZSet) -> Batch | None:
        """The measures of these rows by group: what `step` takes instead of them. Since measures add, it does
        not matter in how many places that is done."""
        assert self.combines
        columns, groups, owners = self._group([rows])
        return _nonzero(groups.hashes, columns, self._measures([rows], groups, owners))

    def _group(self, deltas: Sequence[Delta]) -> tuple[tuple[Column, ...], Groups, list[np.ndarray | None]]:
        """The groups that the deltas touch: their key columns, and which rows of the inputs they own."""
        present = [(i, d) for i, d in enumerate(deltas) if d is not None]
        parts = [d.zset() if isinstance(d, Batch) else d for _, d in present]
        keys = [p.select(self._keys[i]) for (i, _), p in zip(present, parts, strict=True)]
        together = keys[0] if len(keys) == 1 else union(keys)
        groups = group_rows(together.columns, len(together))
        first = groups.first_rows()
        columns = (
            together.columns
            if len(first) == len(together) == 1
            else tuple(c.take(first) for c in together.columns)
        )
        owners: list[np.ndarray | None] = [None] * len(deltas)
        if len(present) > 1:
            member = groups.member_of(len(together))
            at = 0
            for (i, _), part in zip(present, parts, strict=True):
                owners[i] = member[at : at + len(part)]
                at += len(part)
        return columns, groups, owners

    def _measures(
        self, deltas: Sequence[Delta], groups: Groups, owners: Sequence[np.ndarray | None]
    ) -> list[Measure]:
        changes: list[Measure] = []
        count = len(groups.starts)
        arranged: dict[int, tuple[ZSet, np.ndarray | None, np.ndarray, np.ndarray | None]] = {}
        for i, delta in enumerate(deltas):
            if delta is not None:
                arranged[i] = _arranged(delta, groups, owners[i])
        for spec, (arg, passes) in zip(self._specs, self._compiled, strict=True):
            if spec.input not in arranged:
                changes.append(acc.empty_measure(spec.kind, count))
                continue
            delta, order, starts, present = arranged[spec.input]
            weights = delta.weights
            if passes is not None:
                weights = np.where(passes(delta.columns, len(delta)), weights, 0)
            column = arg(delta.columns, len(delta)) if arg is not None else None
            if order is not None:
                weights = weight.take(weights, order)
                column = None if column is None else column.take(order)
            change = acc.measure(spec.kind, column, weights, starts)
            if present is not None:
                change = m.add_at(acc.empty_measure(spec.kind, count), present, change)
            changes.append(change)
        return changes

    def _step_extremes(
        self,
        delta: Delta,
        columns: tuple[Column, ...],
        groups: Groups,
        owners: Sequence[np.ndarray | None],
        new: Sequence[Measure],
        state: Sequence[Arrangement],
    ) -> tuple[list[Column], list[Column], list[Batch | None]]:
        hashes = groups.hashes
        old_values = self._registers.read(state[1], hashes, columns)
        if delta is None:
            return old_values, old_values, [None] * (1 + len(self._extremes))
        assert isinstance(delta, ZSet)
        member = owners[0] if owners[0] is not None else groups.member_of(len(delta))
        new_values, appends = [], []
        for extremum, old, arrangement in zip(self._extremes, old_values, state[2:], strict=False):
            value, batch = extremum.step(delta, columns, hashes, member, old, arrangement)
            new_values.append(value)
            appends.append(batch)
        register = self._registers.change(columns, old_values, new_values)
        return old_values, new_values, [register, *appends]

    # -- output ----------------------------------------------------------------------------

    def _emit(
        self,
        columns: tuple[Column, ...],
        old: Sequence[Measure],
        new: Sequence[Measure],
        old_extremes: Sequence[Column],
        new_extremes: Sequence[Column],
    ) -> ZSet | None:
        before = self._values(old, old_extremes)
        after = self._values(new, new_extremes)
        if self._key_types:
            was, is_now = m.arrays(old)[0] > 0, m.arrays(new)[0] > 0
        else:  # without keys there is always one row
            was = is_now = np.ones(len(new[0]), np.bool_)
        same = was & is_now
        for a, b in zip(before, after, strict=True):
            if not same.any():
                break
            same = same & equal_rows(a, b)
        return replaced((*columns, *before), (*columns, *after), was & ~same, is_now & ~same)

    def _values(self, measures: Sequence[Measure], extremes: Sequence[Column]) -> list[Column]:
        values = []
        for finish, places in self._outputs:
            if finish is None:
                values.append(extremes[places[0]])
            else:
                values.append(finish([measures[p] for p in places]))
        return values

    def seed(self) -> ZSet | None:
        if self._key_types:
            return None
        nothing = [acc.empty_measure(s.kind, 1) for s in self._specs]
        values = self._values(nothing, [nulls(e.type, 1) for e in self._extremes])
        return ZSet(tuple(values), np.ones(1, np.int64))

    def law(self) -> str:
        floats = any(s.kind.startswith("float_") for s in self._specs)
        laws = f"{ACCUMULATOR_SUM.title} + {FLOAT_LIMB_SUM.title}" if floats else ACCUMULATOR_SUM.title
        return f"{laws}; extremum_requires_rmw" if self._extremes else laws


def replaced(old: Sequence[Column], new: Sequence[Column], gone: np.ndarray, come: np.ndarray) -> ZSet | None:
    """The old rows that go and the new rows that come, by mask."""
    count = len(gone)
    if count > 1 and not gone.any():  # a load: all are new
        kept = np.flatnonzero(come)
        rows = ZSet(tuple(new), weight.constant(1, count))
        return (rows if len(kept) == count else rows.take(kept)) if len(kept) else None
    both = np.concatenate((gone, come))
    kept = np.flatnonzero(both)
    if not len(kept):
        return None
    weights = np.ones(2 * count, np.int64)
    weights[:count] = -1
    rows = ZSet(tuple([concat_columns((a, b)) for a, b in zip(old, new, strict=True)]), weights)
    return rows if len(kept) == 2 * count else rows.take(kept)


def _compile(
    arg: Expr | None, filter: Expr | None, names: Sequence[str]
) -> tuple[Eval | None, Predicate | None]:
    return (
        compile_expr(arg, names=names) if arg is not None else None,
        compile_predicate(filter, names=names) if filter is not None else None,
    )


def _arranged(
    delta: Delta, groups: Groups, owner: np.ndarray | None
) -> tuple[ZSet, np.ndarray | None, np.ndarray, np.ndarray | None]:
    """An input's rows, the order that brings groups together (None: theirs), where each group begins in it, and
    which groups it touches (None: all)."""
    assert isinstance(delta, ZSet)
    if owner is None:
        return delta, groups.order, groups.starts, None
    order = np.argsort(owner, kind="stable")
    sorted_owner = owner[order]
    change = np.concatenate(([True], sorted_owner[1:] != sorted_owner[:-1]))
    starts = np.flatnonzero(change)
    return delta, order, starts, sorted_owner[starts]


def _nonzero(hashes: np.ndarray, columns: tuple[Column, ...], changes: Sequence[Measure]) -> Batch | None:
    keep = m.any_nonzero(changes)
    batch = Batch(hashes, columns, tuple(changes))
    if keep.all():
        return batch
    kept = np.flatnonzero(keep)
    return batch.take(kept) if len(kept) else None
