"""The value of an aggregate from the measures of one group, in plain Python: `accumulators.finisher` of one row."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from penstock.circuit.accumulators import Finish, finisher
from penstock.kernels.wide import integers
from penstock.plan.nodes import Agg
from penstock.zset.column import INT64_MAX, INT64_MIN
from penstock.zset.few import values_of
from penstock.zset.types import SqlType

Compute = Callable[[Sequence[int]], Any]


class FinishOne(NamedTuple):
    """The function from the measures of one group, all integers, to the aggregate's value (None for NULL)."""

    kind: str  # "c": a count, "s": a sum, both of which compiled code knows; "?": another
    compute: Compute


def finish_one(agg: Agg, arg_type: SqlType | None) -> FinishOne:
    """How the value of an aggregate is made.

    >>> from penstock.plan.expr import Col
    >>> from penstock.zset.types import BIGINT, DOUBLE, HUGEINT
    >>> total = finish_one(Agg("sum", Col(BIGINT, 0), HUGEINT), BIGINT)
    >>> mean = finish_one(Agg("avg", Col(BIGINT, 0), DOUBLE), BIGINT)
    >>> total.compute([2, 30]), total.compute([0, 0]), mean.compute([4, 30])
    (30, None, 7.5)
    """
    if agg.name in ("count", "count_star"):
        slow = _one_of(finisher(agg, arg_type))
        return FinishOne("c", lambda x: x[0] if x[0] <= INT64_MAX else slow(x))
    slow = _one_of(finisher(agg, arg_type))
    if agg.name == "sum" and not agg.type.is_float:
        return FinishOne("s", lambda x: _sum(x, slow))
    return FinishOne("?", slow)


def _sum(x: Sequence[int], slow: Compute) -> int | None:
    count, total = x
    if count <= 0:
        return None
    return total if INT64_MIN <= total <= INT64_MAX else slow(x)  # which knows what does not fit


def _one_of(finish: Finish) -> Compute:
    return lambda x: values_of(finish([integers((value,)) for value in x]))[0]
