"""The value of an aggregate from the measures of one group, in plain Python: `accumulators.finisher` of one row."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from penstock.circuit.accumulators import Finish, finisher
from penstock.kernels.wide import integers
from penstock.plan.nodes import Agg
from penstock.zset.column import INT64_MAX, INT64_MIN
from penstock.zset.few import values_of
from penstock.zset.types import SqlType

FinishOne = Callable[[Sequence[int]], Any]


def finish_one(agg: Agg, arg_type: SqlType | None) -> FinishOne:
    """The function from the measures of one group, all integers, to the aggregate's value (None for NULL).

    >>> from penstock.plan.expr import Col
    >>> from penstock.zset.types import BIGINT, DOUBLE, HUGEINT
    >>> total = finish_one(Agg("sum", Col(BIGINT, 0), HUGEINT), BIGINT)
    >>> total([2, 30]), total([0, 0]), finish_one(Agg("avg", Col(BIGINT, 0), DOUBLE), BIGINT)([4, 30])
    (30, None, 7.5)
    """
    if agg.name in ("count", "count_star"):
        return _first
    slow = _one_of(finisher(agg, arg_type))
    if agg.name == "sum" and not agg.type.is_float:
        return lambda x: _sum(x, slow)
    return slow


def _first(x: Sequence[int]) -> int:
    return x[0]


def _sum(x: Sequence[int], slow: FinishOne) -> int | None:
    count, total = x
    if count <= 0:
        return None
    return total if INT64_MIN <= total <= INT64_MAX else slow(x)  # which knows what does not fit


def _one_of(finish: Finish) -> FinishOne:
    return lambda x: values_of(finish([integers((value,)) for value in x]))[0]
