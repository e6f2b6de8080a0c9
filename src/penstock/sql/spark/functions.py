"""Spark's scalar functions that are translated: a name, how many arguments, and what becomes of them."""

from __future__ import annotations

from collections.abc import Sequence

from penstock.sql.spark.dialect import Tree, refuse
from penstock.sql.spark.functions_arrays import ARRAYS
from penstock.sql.spark.functions_dates import DATES
from penstock.sql.spark.functions_numbers import NUMBERS
from penstock.sql.spark.functions_text import TEXTS
from penstock.sql.spark.typed import Functions, Typed

FUNCTIONS: Functions = {**NUMBERS, **TEXTS, **DATES, **ARRAYS}

_MOMENT = (
    "A view's rows would change without a change of its tables. Give the moment as a column or a literal."
)
# Functions that are refused with a reason of their own.
REFUSED: dict[str, str] = {
    "current_date": _MOMENT, "current_timestamp": _MOMENT, "now": _MOMENT, "curdate": _MOMENT,
    "localtimestamp": _MOMENT, "unix_timestamp": _MOMENT, "rand": "It is different each time.",
    "random": "It is different each time.", "randn": "It is different each time.", "uuid": "It is different each time.",
    "monotonically_increasing_id": "It depends on where a row is stored.",
    "spark_partition_id": "It depends on where a row is stored.",
    "input_file_name": "It depends on where a row is stored.",
    "hash": "It is a hash of Spark's own; use md5.", "xxhash64": "It is a hash of Spark's own; use md5.",
    "bround": "It rounds half to even.", "initcap": "Which letters begin a word is Java's to say.",
    "soundex": "It is Spark's own.", "parse_url": "It is Java's own.",
    "first": "It depends on the order of rows; use min, max or any_value.",
    "last": "It depends on the order of rows; use min, max or any_value.",
    "first_value": "It depends on the order of rows; use min, max or any_value.",
    "last_value": "It depends on the order of rows; use min, max or any_value.",
    "approx_count_distinct": "Use count(DISTINCT ...), which is exact.",
    "approx_percentile": "Use percentile, which is exact.", "percentile_approx": "Use percentile, which is exact.",
    "max_by": "Which row wins a tie is not defined.", "min_by": "Which row wins a tie is not defined.",
}  # fmt: skip


def call(name: str, args: Sequence[Typed], tree: Tree) -> Typed:
    """The translation of a call, or the reason why there is none."""
    found = FUNCTIONS.get(name)
    if found is None:
        raise refuse(f"the function {name} is not translated", tree, REFUSED.get(name))
    fewest, most, make = found
    if len(args) < fewest or (most is not None and len(args) > most):
        raise refuse(f"the function {name} does not take {len(args)} arguments", tree)
    result = make(*args)
    aggregate = any(arg.aggregate for arg in args)
    return Typed(result.sql, result.type, tree, result.literal, aggregate)
