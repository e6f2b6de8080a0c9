"""aggregate, for a delta of a few rows: the same step in plain Python.

Arrays of one number cost what arrays of a thousand cost. Rows are tuples here, groups are looked up one by one, and
what leaves the step becomes arrays only if somebody asks for them (zset/few.py, state/few_groups.py).
"""

from __future__ import annotations

from collections.abc import Sequence
from operator import add
from typing import Any

from penstock.circuit.accumulators import MeasureSpec
from penstock.circuit.finish_few import FinishOne
from penstock.circuit.operator import Result
from penstock.evaluate.compile import Predicate
from penstock.evaluate.forms import Eval
from penstock.native import kernels
from penstock.plan.expr import Col
from penstock.state.arrangement import Arrangement
from penstock.state.few_groups import Added, FewGroups
from penstock.zset.column import INT64_MAX, INT64_MIN
from penstock.zset.few import Few, Row, is_plain, values_at, values_of
from penstock.zset.types import SqlType
from penstock.zset.zset import ZSet

# The kinds of measures, as compiled code calls them.
_KINDS = {"rows": "r", "count": "c", "true": "t", "sum": "s", "squares": "q"}


class FewRows:
    """The step of an aggregate with one input, plain keys, integer measures and no extremes."""

    def __init__(
        self,
        key_types: Sequence[SqlType],
        keys: Sequence[int],
        specs: Sequence[MeasureSpec],
        compiled: Sequence[tuple[Eval | None, Predicate | None]],
        outputs: Sequence[tuple[FinishOne, Sequence[int]]],
        types: Sequence[SqlType],  # of the outputs
    ) -> None:
        self._keys = list(keys)
        self._key_types = tuple(key_types)
        self._wide = [i for i, type in enumerate(key_types) if type.kind == "wide"]
        self._measures = [(s, *c) for s, c in zip(specs, compiled, strict=True)]
        self._counts_rows = len(specs) == 1 and specs[0].filter is None  # and nothing else
        self._outputs = list(outputs)
        self._counts = len(self._outputs)  # columns with the number of rows, where that is all there is
        self._types = (*key_types, *types)
        self._compiled = None if self._wide else _for_compiled(keys, specs, outputs)

    @staticmethod
    def fits(key_types: Sequence[SqlType], specs: Sequence[MeasureSpec], types: Sequence[SqlType]) -> bool:
        """Whether an aggregate with these keys, measures and output types can be done here."""
        plain = all(map(is_plain, (*key_types, *types)))
        return plain and all(s.kind in _KINDS and s.input == 0 for s in specs)

    def step(self, delta: ZSet, state: Arrangement) -> Result | None:
        """The result of the step; None where a key is larger than any integer that is hashed here."""
        if self._compiled is not None and kernels is not None and delta.__class__ is Few:
            rows, counts, added = kernels.step_groups(
                delta.rows, delta.counts, *self._compiled, state.young.known, state.total
            )
            return (Few(self._types, rows, counts) if rows else None), (FewGroups(self._key_types, added),)
        changes = self._changes(delta)
        if changes is None:
            return None
        gone: list[Row] = []
        come: list[Row] = []
        groups: list[tuple[Row, Added]] = []
        known, width, keyed = state.young.known, len(self._measures), bool(self._keys)
        row = self._counted_row if self._counts_rows else self._row
        for key, added in changes.items():
            if any(added):
                groups.append((key, added))
            old = known.get(key) or state.total(key, width)
            new = (old[0] + added[0],) if width == 1 else tuple(map(add, old, added))
            before = row(key, old) if old[0] > 0 or not keyed else None
            after = row(key, new) if new[0] > 0 or not keyed else None
            if before == after:
                continue
            if before is not None:
                gone.append(before)
            if after is not None:
                come.append(after)
        out = Few(self._types, gone + come, [-1] * len(gone) + [1] * len(come)) if gone or come else None
        return out, (FewGroups(self._key_types, groups),)

    def _counted_row(self, key: Row, measures: Added) -> Row:
        return key + measures * self._counts

    def _row(self, key: Row, measures: Added) -> Row:
        """The group's row in the output."""
        return (*key, *[finish.compute([measures[p] for p in places]) for finish, places in self._outputs])

    def _changes(self, delta: ZSet) -> dict[Row, Added] | None:
        """For each group what is added to its measures."""
        if self._counts_rows and isinstance(delta, Few) and not self._wide:
            return self._counted(delta)
        keys: list[Row]
        if len(self._keys) == 1:
            keys = [(value,) for value in values_at(delta, self._keys[0])]
        elif self._keys:
            keys = list(zip(*[values_at(delta, k) for k in self._keys], strict=True))
        else:
            keys = [()] * len(delta)
        for wide in self._wide:
            if any(k[wide] is not None and not INT64_MIN <= k[wide] <= INT64_MAX for k in keys):
                return None
        weights = delta.counts if isinstance(delta, Few) else delta.weights.tolist()
        terms = [weights] if self._counts_rows else self._terms(delta, weights)
        changes: dict[Row, Added] = {}
        for key, added in zip(keys, zip(*terms, strict=True), strict=True):
            before = changes.get(key)
            changes[key] = added if before is None else tuple(map(add, before, added))
        return changes

    def _counted(self, delta: Few) -> dict[Row, Added]:
        """`_changes` where rows are counted, and nothing else: the usual, without a list for each step."""
        keys = self._keys
        counted: dict[Row, Added] = {}
        weights = delta.counts
        for place, row in enumerate(delta.rows):
            weight = weights[place]
            key = (row[keys[0]],) if len(keys) == 1 else tuple([row[k] for k in keys])
            before = counted.get(key)
            counted[key] = (weight,) if before is None else (before[0] + weight,)
        return counted

    def _terms(self, delta: ZSet, weights: list[int]) -> list[list[int]]:
        """For each measure what each row adds to it."""
        found = []
        for spec, arg, passes in self._measures:
            terms = weights
            if passes is not None:
                chosen = passes(delta.columns, len(weights)).tolist()
                terms = [w if p else 0 for w, p in zip(terms, chosen, strict=True)]
            if arg is not None:
                if isinstance(spec.arg, Col):
                    terms = _weighted(spec.kind, values_at(delta, spec.arg.index), terms)
                else:
                    terms = _weighted(spec.kind, values_of(arg(delta.columns, len(weights))), terms)
            found.append(terms)
        return found


def _for_compiled(
    keys: Sequence[int], specs: Sequence[MeasureSpec], outputs: Sequence[tuple[FinishOne, Sequence[int]]]
) -> tuple[tuple[Any, ...], ...] | None:
    """The same as compiled code is told of it; None where a measure is of an expression or has a filter."""
    measures = []
    for spec in specs:
        if spec.filter is not None or not (spec.arg is None or isinstance(spec.arg, Col)):
            return None
        measures.append((_KINDS[spec.kind], -1 if spec.arg is None else spec.arg.index))
    finish = [(how.kind, tuple(places), how.compute) for how, places in outputs]
    return tuple(keys), tuple(measures), tuple(finish)


def _weighted(kind: str, values: list[Any], weights: list[int]) -> list[int]:
    """What each row adds to a measure of its argument."""
    pairs = zip(weights, values, strict=True)
    if kind == "count":
        return [0 if v is None else w for w, v in pairs]
    if kind == "true":
        return [w if v else 0 for w, v in pairs]
    if kind == "squares":
        return [v * v * w if v is not None else 0 for w, v in pairs]
    return [v * w if v is not None else 0 for w, v in pairs]
