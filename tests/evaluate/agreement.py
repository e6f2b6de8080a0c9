"""DuckDB's answer and ours for the same bound expression, row by row and all rows at once."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cache, lru_cache
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from penstock.base.errors import PenstockError
from penstock.duck.connect import DuckError, connect
from penstock.evaluate.compile import compile_expr
from penstock.evaluate.forms import Eval
from penstock.plan.nodes import Node, Project, Scan
from penstock.sql.bind import Binder
from penstock.zset.column import Column
from penstock.zset.interchange import from_arrow, to_arrow
from penstock.zset.types import SqlType, by_name, decimal

ERROR = "an error"
DUCK = connect(threads=1)


def type_of(name: str) -> SqlType:
    if name.startswith("DECIMAL"):
        width, scale = name[8:-1].split(",")
        return decimal(int(width), int(scale))
    found = by_name(name)
    assert found is not None
    return found


@lru_cache(maxsize=16)
def bound(definition: str, sql: str) -> tuple[Eval, SqlType]:
    """The expression, bound over a table with these columns, as one function of its columns."""
    plan = _binder(definition).plan(f"SELECT {sql} AS r FROM t")
    return _compiled(plan)[0], plan.schema.types[0]


@cache
def _binder(definition: str) -> Binder:
    binder = Binder()
    binder.create_table(f"CREATE TABLE t ({definition})")
    return binder


def _compiled(node: Node) -> list[Eval]:
    """Projections over the table, as functions of the table's columns."""
    if isinstance(node, Scan):
        return [lambda columns, count, i=i: columns[i] for i in node.columns]
    assert isinstance(node, Project), node
    below = _compiled(node.input)
    return [_after(compile_expr(e, node.input.schema.names), below) for e in node.exprs]


def _after(outer: Eval, below: Sequence[Eval]) -> Eval:
    return lambda columns, count: outer([e(columns, count) for e in below], count)


def held(column: Column) -> list[Any]:
    """The values as the column holds them: Python has no date after the year 9999."""
    if column.type.kind == "arrow":
        return column.values.to_pylist()
    return [
        None if null else v for v, null in zip(column.values.tolist(), column.is_null().tolist(), strict=True)
    ]


def answers(definition: str, columns: Sequence[Column], sql: str, type: SqlType) -> list[Any]:
    """What DuckDB gives for each row: a value, None, or ERROR."""
    DUCK.execute(f"CREATE OR REPLACE TABLE t ({definition})")
    DUCK.register(
        "rows_of_t", pa.table([to_arrow(c) for c in columns], names=[f"c{i}" for i in range(len(columns))])
    )
    DUCK.execute("INSERT INTO t SELECT * FROM rows_of_t")
    wire = {"HUGEINT": "DECIMAL(38,0)", "UUID": "VARCHAR", "JSON": "VARCHAR"}.get(type.id, type.duck)
    try:
        table = DUCK.sql(f"SELECT TRY({sql})::{wire} AS r, TRY(({sql}) IS NULL) AS n FROM t").to_arrow_table()
    except DuckError:
        return _one_by_one(len(columns[0]), sql, wire, type)
    values = held(from_arrow(table.column(0), type))
    return [ERROR if n is None else v for v, n in zip(values, table.column(1).to_pylist(), strict=True)]


def _one_by_one(count: int, sql: str, wire: str, type: SqlType) -> list[Any]:
    """For errors that TRY does not catch."""
    found = []
    for row in range(count):
        try:
            table = DUCK.sql(f"SELECT ({sql})::{wire} FROM t WHERE rowid = {row}").to_arrow_table()
            found.append(held(from_arrow(table.column(0), type))[0])
        except DuckError:
            found.append(ERROR)
    return found


def same(a: Any, b: Any) -> bool:
    if isinstance(a, float) and isinstance(b, float) and (math.isnan(a) or math.isnan(b)):
        return math.isnan(a) and math.isnan(b)
    return type(a) is type(b) and bool(a == b)


def check(definition: str, columns: Sequence[Column], sql: str, reference: str | None = None) -> None:
    """We agree with DuckDB on each row alone, on all rows that have a value, and on no rows.

    `reference` is the expression that DuckDB is asked, where it is not the same."""
    run, type = bound(definition, sql)
    expected = answers(definition, columns, reference or sql, type)

    def judge(rows: Sequence[int], found: Sequence[Any], where: str) -> None:
        for row, value in zip(rows, found, strict=True):
            if not same(value, expected[row]):
                inputs = [held(c.slice(row, row + 1))[0] for c in columns]
                pytest.fail(f"{sql} on {inputs} {where}: {value!r}, DuckDB {expected[row]!r}")

    for row in range(len(expected)):
        try:
            column = run([c.slice(row, row + 1) for c in columns], 1)
            _well_formed(column, type, 1)
            found = held(column)
        except PenstockError as error:
            if "Error:" in str(error) or "{" in error.message:
                pytest.fail(f"not our words: {error}")
            found = [ERROR]
        judge([row], found, "alone")
    good = np.array([i for i, e in enumerate(expected) if e is not ERROR], np.int64)
    for rows in (good, np.repeat(good, 2), good[:0]):
        column = run([c.take(rows) for c in columns], len(rows))
        _well_formed(column, type, len(rows))
        judge(rows.tolist(), held(column), "among others")
    if len(good) < len(expected):
        with pytest.raises(PenstockError):
            run(columns, len(expected))


def _well_formed(column: Column, type: SqlType, count: int) -> None:
    """The right type and length, zero under NULL, and the numpy type that the SQL type has."""
    assert column.type == type
    assert len(column) == count
    if column.type.kind == "arrow":
        assert column.values.type == column.type.arrow
        return
    assert column.values.dtype == column.type.numpy or (
        column.type.kind == "wide" and column.values.dtype == object
    )
    if column.valid is not None:
        assert column.valid.dtype == np.bool_
        assert len(column.valid) == count
        assert not column.values[~column.valid].any()
