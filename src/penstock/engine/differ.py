"""Two multisets of rows compared inside DuckDB: what is missing, and what is too much."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from penstock.base.limits import (
    VERIFY_ABSOLUTE_TOLERANCE,
    VERIFY_PAIRED_ROWS_MAX,
    VERIFY_RELATIVE_TOLERANCE,
    VERIFY_RELATIVE_TOLERANCE_FLOAT32,
)
from penstock.engine.read import column_list, plain_names
from penstock.engine.recompute import Recompute
from penstock.sql.tokens import quote
from penstock.zset.interchange import to_arrow
from penstock.zset.types import Schema, SqlType
from penstock.zset.zset import ZSet

HELD = quote("penstock held")
WRONG = quote("penstock wrong")
WEIGHT = quote("penstock weight")

Row = tuple[Any, ...]


@dataclass(frozen=True)
class Difference:
    """Rows that should be there and are not, and the reverse: how many, and the first with their `_count`, the last column."""

    missing: int
    extra: int
    missing_rows: pa.Table
    extra_rows: pa.Table

    def __bool__(self) -> bool:
        return bool(self.missing or self.extra)


def hold(duck: Recompute, schema: Schema, rows: ZSet) -> None:
    """The rows that a flow holds of a relation, each with its weight, as the view HELD."""
    # Not one row for each multiplicity: a row that is there minus one times must be seen as such.
    columns = [*(to_arrow(c) for c in rows.columns), pa.array(rows.weights)]
    duck.register("penstock held rows", pa.table(columns, names=[*plain_names(schema), "penstock weight"]))
    duck.run(
        f"CREATE OR REPLACE TEMP VIEW {HELD} AS SELECT {column_list(schema)}, {WEIGHT} FROM {quote('penstock held rows')}"
    )


def hold_table(duck: Recompute, rows: pa.Table) -> None:
    """Rows that DuckDB gave as the view HELD, each once."""
    duck.register("penstock held rows", rows)
    duck.run(
        f"CREATE OR REPLACE TEMP VIEW {HELD} AS SELECT *, 1::BIGINT AS {WEIGHT} FROM {quote('penstock held rows')}"
    )


def differ(
    duck: Recompute, schema: Schema, right: str, limit: int, magnitude: Callable[[], float]
) -> Difference:
    """HELD against the relation `right`. Floats may differ in their last digits: `magnitude` is the size
    of the numbers that they were made of."""
    names = [quote(n) for n in schema.names]
    columns = ", ".join(names)
    duck.run(
        f"CREATE OR REPLACE TEMP TABLE {WRONG} AS SELECT {columns}, sum({WEIGHT})::BIGINT AS {WEIGHT} FROM ("
        f"SELECT {columns}, {WEIGHT} FROM {HELD} UNION ALL SELECT {columns}, -1 FROM {right}"
        f") GROUP BY {columns} HAVING sum({WEIGHT}) <> 0"
    )
    floats = {quote(n): _tolerance(t) for n, t in zip(schema.names, schema.types, strict=True) if t.is_float}
    if floats and len(duck.run(f"SELECT DISTINCT sign({WEIGHT}) FROM {WRONG}")) == 2:
        absolute = VERIFY_ABSOLUTE_TOLERANCE * magnitude()
        _pair_off(duck, names, floats, absolute)
        _pair_off_rest(duck, schema, floats, absolute)
    return Difference(*_counts(duck), _shown(duck, columns, "<", limit), _shown(duck, columns, ">", limit))


def _counts(duck: Recompute) -> tuple[int, int]:
    query = f"SELECT coalesce(sum(-{WEIGHT}) FILTER ({WEIGHT} < 0), 0), coalesce(sum({WEIGHT}) FILTER ({WEIGHT} > 0), 0)"
    ((missing, extra),) = duck.run(f"{query} FROM {WRONG}")
    return int(missing), int(extra)


def _shown(duck: Recompute, columns: str, sign: str, limit: int) -> pa.Table:
    return duck.table(
        f"SELECT {columns}, abs({WEIGHT}) AS _count FROM {WRONG} WHERE {WEIGHT} {sign} 0 ORDER BY {columns} LIMIT {limit}"
    )


def _pair_off(duck: Recompute, names: list[str], floats: dict[str, float], absolute: float) -> None:
    """Take out the pairs that agree but for the last digits, where sorting brings them to the same place."""
    exact = [n for n in names if n not in floats]
    partition = f"PARTITION BY {', '.join(exact)} " if exact else ""
    rows = (
        f"SELECT *, row_number() OVER ({partition}ORDER BY {', '.join(floats)}) AS penstock_place "
        f"FROM {WRONG}, range(abs({WEIGHT})) WHERE {WEIGHT} {{}} 0"
    )
    same = [f"m.{n} IS NOT DISTINCT FROM e.{n}" for n in exact]
    close = [_close(f"m.{n}", f"e.{n}", relative, absolute) for n, relative in floats.items()]
    places = ["m.penstock_place = e.penstock_place", *same, *close]
    columns = ", ".join(names)
    duck.run(
        f"CREATE OR REPLACE TEMP TABLE {quote('penstock paired')} AS "
        f"SELECT {', '.join(f'm.{n} AS m{i}, e.{n} AS e{i}' for i, n in enumerate(names))} "
        f"FROM ({rows.format('<')}) m JOIN ({rows.format('>')}) e ON {' AND '.join(places)}"
    )
    left, right = (", ".join(f"{side}{i}" for i in range(len(names))) for side in "me")
    duck.run(
        f"CREATE OR REPLACE TEMP TABLE {WRONG} AS SELECT {columns}, sum({WEIGHT})::BIGINT AS {WEIGHT} FROM ("
        f"SELECT {columns}, {WEIGHT} FROM {WRONG} "
        f"UNION ALL SELECT {left}, 1 FROM {quote('penstock paired')} "
        f"UNION ALL SELECT {right}, -1 FROM {quote('penstock paired')}"
        f") GROUP BY {columns} HAVING sum({WEIGHT}) <> 0"
    )


def _tolerance(type: SqlType) -> float:
    return VERIFY_RELATIVE_TOLERANCE_FLOAT32 if type.id == "FLOAT" else VERIFY_RELATIVE_TOLERANCE


def _close(a: str, b: str, relative: float, absolute: float) -> str:
    # Halves, because the difference of two large floats is an error in DuckDB when it is infinite.
    bound = f"greatest({relative!r} * greatest(abs({a}), abs({b})), {absolute!r}) / 2"
    near = f"abs({a} / 2 - {b} / 2) <= {bound}"
    return f"CASE WHEN isfinite({a}) AND isfinite({b}) THEN {near} ELSE {a} IS NOT DISTINCT FROM {b} END"


def _pair_off_rest(duck: Recompute, schema: Schema, floats: dict[str, float], absolute: float) -> None:
    """The same where two columns of floats, or a row that is really wrong, put the rows out of step."""
    (count,) = duck.run(f"SELECT coalesce(sum(abs({WEIGHT})), 0) FROM {WRONG}")[0]
    if not count or count > VERIFY_PAIRED_ROWS_MAX:
        return
    loose = {i: floats[quote(n)] for i, n in enumerate(schema.names) if quote(n) in floats}
    columns = ", ".join(quote(n) for n in schema.names)
    rows: list[Row] = duck.run(f"SELECT rowid, {columns}, {WEIGHT} FROM {WRONG} ORDER BY ALL")
    groups: dict[str, tuple[list[list[Any]], list[list[Any]]]] = defaultdict(lambda: ([], []))
    for rowid, *values, weight in rows:
        key = repr([v for i, v in enumerate(values) if i not in loose])
        numbers = [(values[i], relative) for i, relative in loose.items()]
        groups[key][weight > 0].append([rowid, abs(weight), numbers])
    left: dict[int, int] = {}
    for missing, extra in groups.values():
        for one in missing:
            for other in extra:
                if all(
                    _is_close(a, b, relative, absolute)
                    for (a, relative), (b, _) in zip(one[2], other[2], strict=True)
                ):
                    pairs = min(one[1], other[1])
                    one[1] -= pairs
                    other[1] -= pairs
        left.update({rowid: -count for rowid, count, _ in missing})
        left.update({rowid: count for rowid, count, _ in extra})
    for rowid, weight in left.items():
        duck.run(f"UPDATE {WRONG} SET {WEIGHT} = {weight} WHERE rowid = {rowid} AND {WEIGHT} <> {weight}")
    duck.run(f"DELETE FROM {WRONG} WHERE {WEIGHT} = 0")


def _is_close(a: float | None, b: float | None, relative: float, absolute: float) -> bool:
    if a is None or b is None or not (math.isfinite(a) and math.isfinite(b)):
        return a == b or (a is not None and b is not None and math.isnan(a) and math.isnan(b))
    return math.isclose(a, b, rel_tol=relative, abs_tol=absolute)
