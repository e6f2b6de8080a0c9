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
_SPOKEN_FOR = quote("penstock inside")


@dataclass(frozen=True)
class Unlimited:
    """A query without its LIMIT; the sort keys are these columns of its result."""

    sql: str
    keys: tuple[str, ...]
    extra: int  # columns that were added for keys
    offset: int


def is_one_answer(duck: Recompute, view: MaterializedView) -> bool | None:
    """Whether HELD is an answer to the view's query; None if only its text's outermost LIMIT could tell."""
    found = _unlimited(duck, view)
    if found is None:
        return None
    names = [quote(n) for n in view.schema.names]
    columns = ", ".join(names)
    query = typed_query(view, found.sql, found.extra)
    try:
        # row_number() over nothing counts the rows in the order in which the sorted query gives them.
        duck.run(
            f"CREATE OR REPLACE TEMP TABLE {_ALL} AS SELECT *, row_number() OVER () - 1 AS penstock_place FROM ({query})"
        )
    except PenstockError:
        return None  # a key that only means something inside the query, such as one of a DISTINCT
    ((wanted,),) = duck.run(f"SELECT count(*) FROM {quote(view.name)}")
    first, last = found.offset, found.offset + wanted
    keys = ", ".join(found.keys)
    over = f"PARTITION BY {keys}" if keys else ""
    duck.run(
        f"CREATE OR REPLACE TEMP TABLE {_GROUPS} AS SELECT {columns}, min(penstock_place) OVER ({over}) AS low, "
        f"max(penstock_place) OVER ({over}) + 1 AS high FROM {_ALL}"
    )
    # What is held, less the groups that must be there whole, must come from the groups at the border.
    duck.run(
        f"CREATE OR REPLACE TEMP TABLE {_SPOKEN_FOR} AS SELECT {columns}, sum({WEIGHT})::BIGINT AS {WEIGHT} FROM ("
        f"SELECT {columns}, {WEIGHT} FROM {HELD} UNION ALL "
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
    ((held,),) = duck.run(f"SELECT coalesce(sum({WEIGHT}), 0) FROM {HELD}")
    return not problems and not negative and held == wanted


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
