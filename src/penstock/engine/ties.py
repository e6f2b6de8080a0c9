"""ORDER BY ... LIMIT with ties at the border has several right answers: is what is held one of them?

The rows of a query without its LIMIT fall into groups of equal sort keys. A group that lies wholly
inside the limit must be there whole; one that the border cuts must be there with as many rows as are
inside, whichever; one outside must not be there.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from penstock.base.errors import PenstockError
from penstock.engine.catalog import MaterializedView
from penstock.engine.differ import HELD, WEIGHT
from penstock.engine.recompute import Recompute, key_name, typed_query
from penstock.sql.tokens import fold, quote

_ALL = quote("penstock unlimited")
_GROUPS = quote("penstock groups")
_DIGITS = {"DOUBLE": 8, "FLOAT": 5}  # after the first
_SPOKEN_FOR = quote("penstock inside")


@dataclass(frozen=True)
class Unlimited:
    """A query without its LIMIT; the sort keys are these columns of its result."""

    sql: str
    keys: tuple[str, ...]
    extra: int  # columns that were added for keys
    offset: int


def is_one_answer(duck: Recompute, view: MaterializedView, absolute: float) -> bool | None:
    """Whether HELD is an answer to the view's query; None if its text has no outermost LIMIT to tell by.

    Floats are compared by their first digits, and are 0 where they are no larger than `absolute`."""
    found = _unlimited(duck, view)
    if found is None:
        return None
    names = [quote(n) for n in view.schema.names]
    query = typed_query(view, found.sql, found.extra)
    try:
        # row_number() over nothing counts the rows in the order in which the sorted query gives them.
        duck.run(
            f"CREATE OR REPLACE TEMP TABLE {_ALL} AS SELECT *, row_number() OVER () - 1 AS penstock_place FROM ({query})"
        )
    except PenstockError:
        return None  # a key that only means something inside the query, such as one of a DISTINCT
    types = {quote(name): type for name, type, *_ in duck.run(f"DESCRIBE {_ALL}")}
    columns = ", ".join(f"{_snapped(n, types[n], absolute)} AS {n}" for n in names)
    keys = ", ".join(_snapped(k, types[k], absolute) for k in found.keys)
    over = f"PARTITION BY {keys}" if keys else ""
    duck.run(
        f"CREATE OR REPLACE TEMP TABLE {_GROUPS} AS SELECT {columns}, min(penstock_place) OVER ({over}) AS low, "
        f"max(penstock_place) OVER ({over}) + 1 AS high FROM {_ALL}"
    )
    held = f"SELECT {columns}, {WEIGHT} FROM {HELD}"
    return _fits(
        duck, ", ".join(names), held, found.offset, duck.run(f"SELECT count(*) FROM {quote(view.name)}")[0][0]
    )


def _fits(duck: Recompute, columns: str, held: str, first: int, wanted: int) -> bool:
    """Whether the rows held have every group between `first` and `first + wanted` as they should."""
    last = first + wanted
    # What is held, less the groups that must be there whole, must come from the groups at the border.
    duck.run(
        f"CREATE OR REPLACE TEMP TABLE {_SPOKEN_FOR} AS SELECT {columns}, sum({WEIGHT})::BIGINT AS {WEIGHT} FROM ("
        f"{held} UNION ALL "
        f"SELECT {columns}, -1 FROM {_GROUPS} WHERE low >= {first} AND high <= {last}"
        f") GROUP BY {columns} HAVING sum({WEIGHT}) <> 0"
    )
    border = f"low < {last} AND high > {first} AND NOT (low >= {first} AND high <= {last})"
    ((problems,),) = duck.run(
        f"SELECT count(*) FROM (SELECT {columns}, sum({WEIGHT}) AS n FROM ("
        f"SELECT {columns}, {WEIGHT} FROM {_SPOKEN_FOR} WHERE {WEIGHT} > 0 UNION ALL "
        f"SELECT {columns}, -1 FROM {_GROUPS} WHERE {border}) GROUP BY {columns} HAVING sum({WEIGHT}) > 0)"
    )
    ((negative,),) = duck.run(f"SELECT count(*) FROM {_SPOKEN_FOR} WHERE {WEIGHT} < 0")
    ((count,),) = duck.run(f"SELECT coalesce(sum({WEIGHT}), 0) FROM {HELD}")
    return not problems and not negative and count == wanted


def _snapped(column: str, type: str, absolute: float) -> str:
    """A column for comparing: of floats the digits that do not depend on the order of additions."""
    if type not in _DIGITS:
        return column
    digits = f"format('{{:.{_DIGITS[type]}e}}', CAST({column} AS DOUBLE))"
    near = f"CASE WHEN abs({column}) <= {absolute!r} THEN '0' ELSE {digits} END"
    return f"CASE WHEN isfinite({column}) THEN {near} ELSE CAST({column} AS VARCHAR) END"


def _unlimited(duck: Recompute, view: MaterializedView) -> Unlimited | None:
    tree = duck.parsed(view.sql)
    if tree.get("error") or len(tree.get("statements", ())) != 1:
        return None
    node = tree["statements"][0]["node"]
    kinds = [m["type"] for m in node["modifiers"]]
    if kinds not in (["LIMIT_MODIFIER"], ["ORDER_MODIFIER", "LIMIT_MODIFIER"]):
        return None
    limit = node["modifiers"].pop()
    offset = _whole_number(limit["offset"]) if limit["offset"] is not None else 0
    if offset is None:
        return None
    orders = node["modifiers"][0]["orders"] if node["modifiers"] else []
    keys: list[str] = []
    added: list[Any] = []
    for order in orders:
        expression = order["expression"]
        place = _output_column(expression, view)
        if place is not None:
            keys.append(quote(view.schema.names[place]))
            continue
        if node["type"] != "SELECT_NODE" or expression["class"] in ("STAR", "CONSTANT"):
            return None
        keys.append(key_name(len(added)))
        added.append(expression)
    if added:
        node["select_list"] = [*node["select_list"], *added]
    return Unlimited(duck.unparsed(tree), tuple(keys), len(added), offset)


def _output_column(expression: Any, view: MaterializedView) -> int | None:
    """The output column that ORDER BY means by a number or by a name."""
    number = _whole_number(expression)
    if number is not None and 0 < number <= len(view.schema):
        return number - 1
    names = expression.get("column_names") or []
    if expression["class"] == "COLUMN_REF" and len(names) == 1:
        # The query's own names, not those that CREATE ... VIEW v (a, b) gave instead.
        outputs = [fold(n) for n in view.plan.schema.names]
        if fold(names[0]) in outputs:
            return outputs.index(fold(names[0]))
    return None


def _whole_number(expression: Any) -> int | None:
    literal = expression.get("literal") or {}
    if expression["class"] != "CONSTANT" or literal.get("kind") != "INTEGER":
        return None
    return int(literal["text"])
