"""A CHECK constraint as data, so that tasks elsewhere can compile it too."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from penstock.evaluate.compile import compile_expr
from penstock.evaluate.forms import Eval
from penstock.plan.expr import Expr
from penstock.zset.column import Column


@dataclass(frozen=True)
class RowCheck:
    """An expression over some columns of a table's rows."""

    expr: Expr
    columns: tuple[int, ...]
    names: tuple[str, ...]  # of those columns, for messages

    @cached_property
    def _compute(self) -> Eval:
        return compile_expr(self.expr, names=self.names)

    def compile(self) -> None:
        """Raise if it cannot be evaluated."""
        assert self._compute is not None

    def __call__(self, rows: Sequence[Column], count: int) -> Column:
        return self._compute([rows[c] for c in self.columns], count)

    def __getstate__(self) -> dict[str, object]:
        """Without what was compiled: that is a function, and stays where it is."""
        return {"expr": self.expr, "columns": self.columns, "names": self.names}
