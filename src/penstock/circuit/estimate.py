"""Estimates of sizes, only to choose between the orders of a join: never a matter of right or wrong."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from penstock.plan import nodes as p
from penstock.plan.expr import Col

FILTER_KEEPS = 0.25
ROWS_UNKNOWN = 1_000  # a table that is still empty


class Estimator:
    """Sizes of plans, from the number of rows, the primary keys and samples of their tables."""

    def __init__(
        self,
        rows: Callable[[str], int],
        key: Callable[[str], tuple[int, ...]],
        distinct: Callable[[str, tuple[int, ...]], float],
    ) -> None:
        self._rows = rows
        self._key = key
        self._distinct = distinct

    def rows(self, plan: p.Node) -> float:
        """About how many rows a plan has."""
        if isinstance(plan, p.Scan):
            return self._rows(plan.table) or ROWS_UNKNOWN
        if isinstance(plan, p.Filter):
            return max(1.0, self.rows(plan.input) * FILTER_KEEPS)
        if isinstance(plan, p.Aggregate) and not plan.keys:
            return 1.0
        return max([1.0, *(self.rows(x) for x in plan.inputs)])

    def matches(self, plan: p.Node, columns: Sequence[int]) -> float:
        """About how many rows of a plan have one value in these columns."""
        if not columns:
            return self.rows(plan)
        if isinstance(plan, p.Filter):
            return self.matches(plan.input, columns) * FILTER_KEEPS
        if isinstance(plan, p.Project):
            exprs = [plan.exprs[c] for c in columns]
            places = [e.index for e in exprs if isinstance(e, Col)]
            return self.matches(plan.input, places) if places else self.rows(plan) ** 0.5
        if isinstance(plan, p.Aggregate):
            keys = [c for c in columns if c < len(plan.keys)]
            return 1.0 if len(keys) == len(plan.keys) else max(1.0, self.rows(plan) ** 0.5)
        if isinstance(plan, p.Scan):
            return self._matches_in_table(plan, tuple(sorted(plan.columns[c] for c in columns)))
        return max(1.0, self.rows(plan) ** 0.5)

    def _matches_in_table(self, plan: p.Scan, columns: tuple[int, ...]) -> float:
        key = self._key(plan.table)
        if key and set(key) <= set(columns):
            return 1.0
        rows = self._rows(plan.table)
        if not rows:
            return ROWS_UNKNOWN**0.5
        return max(1.0, rows / max(1.0, self._distinct(plan.table, columns)))
