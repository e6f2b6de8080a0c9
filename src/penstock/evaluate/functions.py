"""The table of functions that are ours; everything else is DuckDB's.

To add one: write a builder (see `forms.Builder`) in the file it belongs to, and name it here.
`total` says that no row can make it fail, so that AND and OR may run it on rows already decided.
"""

from __future__ import annotations

import operator

import pyarrow.compute as pc

from penstock.evaluate import arithmetic, cast, compare, like, logic, numeric, temporal, text
from penstock.evaluate.forms import Builder, Compiler, Eval, Function
from penstock.plan.expr import Call


def _either(*builders: Builder) -> Builder:
    """The first builder that knows the types."""

    def build(call: Call, compiler: Compiler) -> Eval | None:
        for builder in builders:
            found = builder(call, compiler)
            if found is not None:
                return found
        return None

    return build


_POSITION = Function(text.builder(text.position))
_LENGTH = Function(text.builder(len, pc.utf8_length))
_LOWER = Function(text.builder(text.lower, text.lower_vector))
_UPPER = Function(text.builder(text.upper, text.upper_vector))
_SUBSTRING = Function(text.builder(text.substring, text.substring_vector))
_PREFIX = Function(text.builder(str.startswith, text.of_pattern(pc.starts_with)))
_SUFFIX = Function(text.builder(str.endswith, text.of_pattern(pc.ends_with)))

FUNCTIONS: dict[str, Function] = {
    # three-valued logic and what is evaluated lazily
    "and": Function(logic.build_and, total=True),
    "or": Function(logic.build_or, total=True),
    "not": Function(logic.build_not, total=True),
    "is_null": Function(logic.build_is_null, total=True),
    "is_not_null": Function(logic.build_is_not_null, total=True),
    "case": Function(logic.build_case),
    "coalesce": Function(logic.build_coalesce),
    "nullif": Function(logic.build_nullif),
    "in": Function(logic.in_builder(negated=False), total=True),
    "not_in": Function(logic.in_builder(negated=True), total=True),
    # comparisons
    "=": Function(compare.builder("="), total=True),
    "<>": Function(compare.builder("<>"), total=True),
    "<": Function(compare.builder("<"), total=True),
    "<=": Function(compare.builder("<="), total=True),
    ">": Function(compare.builder(">"), total=True),
    ">=": Function(compare.builder(">="), total=True),
    "is_distinct": Function(compare.build_is_distinct, total=True),
    "is_not_distinct": Function(compare.build_is_not_distinct, total=True),
    # arithmetic
    "+": Function(_either(arithmetic.build_add, temporal.build_add)),
    "-": Function(_either(arithmetic.build_subtract, temporal.build_subtract)),
    "*": Function(arithmetic.build_multiply),
    "/": Function(arithmetic.build_divide),
    "//": Function(arithmetic.build_divide),
    "%": Function(arithmetic.build_modulo),
    "add": Function(_either(arithmetic.build_add, temporal.build_add)),
    "subtract": Function(_either(arithmetic.build_subtract, temporal.build_subtract)),
    "multiply": Function(arithmetic.build_multiply),
    "divide": Function(arithmetic.build_divide),
    "mod": Function(arithmetic.build_modulo),
    "cast": Function(cast.build_cast, total=cast.never_fails),
    "try_cast": Function(cast.build_try_cast),
    # numbers
    "abs": Function(numeric.build_abs),
    "@": Function(numeric.build_abs),
    "sign": Function(numeric.build_sign, total=True),
    "round": Function(numeric.build_round),
    "floor": Function(numeric.build_floor),
    "ceil": Function(numeric.build_ceil),
    "ceiling": Function(numeric.build_ceil),
    "greatest": Function(numeric.extreme_builder(greatest=True), total=True),
    "least": Function(numeric.extreme_builder(greatest=False), total=True),
    # text
    "||": Function(text.builder(text.join, text.join_vector)),
    "concat": Function(text.builder(text.concat, text.concat_vector, strict=False)),
    "lower": _LOWER,
    "lcase": _LOWER,
    "upper": _UPPER,
    "ucase": _UPPER,
    "length": _LENGTH,
    "len": _LENGTH,
    "char_length": _LENGTH,
    "character_length": _LENGTH,
    "substring": _SUBSTRING,
    "substr": _SUBSTRING,
    "left": Function(text.builder(text.left)),
    "right": Function(text.builder(text.right)),
    "trim": Function(text.builder(text.trimmer("strip"))),
    "ltrim": Function(text.builder(text.trimmer("lstrip"))),
    "rtrim": Function(text.builder(text.trimmer("rstrip"))),
    "replace": Function(text.builder(text.replace)),
    "strpos": _POSITION,
    "instr": _POSITION,
    "position": _POSITION,
    "prefix": _PREFIX,
    "starts_with": _PREFIX,
    "^@": _PREFIX,
    "suffix": _SUFFIX,
    "ends_with": _SUFFIX,
    "contains": Function(text.builder(operator.contains, text.of_pattern(pc.match_substring))),
    "~~": Function(text.builder(like.like, like.like_vector)),
    "!~~": Function(text.builder(like.not_like, like.not_like_vector)),
    "~~*": Function(text.builder(like.ilike, like.ilike_vector)),
    "!~~*": Function(text.builder(like.not_ilike, like.not_ilike_vector)),
    "like_escape": Function(text.builder(like.like, like.like_vector)),
    "not_like_escape": Function(text.builder(like.not_like, like.not_like_vector)),
    "ilike_escape": Function(text.builder(like.ilike, like.ilike_vector)),
    "not_ilike_escape": Function(text.builder(like.not_ilike, like.not_ilike_vector)),
    # dates and timestamps
    "date_part": Function(temporal.build_date_part),
    "datepart": Function(temporal.build_date_part),
    "date_trunc": Function(temporal.build_date_trunc),
    "datetrunc": Function(temporal.build_date_trunc),
    **{name: Function(temporal.part_builder(name)) for name in temporal.PARTS},
}
