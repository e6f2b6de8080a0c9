"""flow.spark_sql against Spark itself: the same rows, the same types, the same names of columns."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

import penstock
from spark.sql_rows import TABLES, create, make_tables

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

HERE = Path(__file__).parent
SEED = 20261116
AT_ONCE = 20  # expressions in one query: a query of Spark's takes a while, whatever is in it

# Java's own versions of these differ from the C library's in the last bit.
INEXACT = ("exp(", "ln(", "log10(", "power(", "stddev", "var", "avg(d)", "avg(w)")


def lines() -> list[str]:
    text = (HERE / "expressions.txt").read_text().splitlines()
    return [line for line in text if line and not line.startswith("#")]


def queries() -> list[tuple[str, bool]]:
    """Each query, and whether it can be a materialized view."""
    text = (HERE / "queries.sql").read_text().split(";\n")
    found = [re.sub(r"^--(?! select$).*\n", "", part, flags=re.M).strip() for part in text]
    return [
        (query.removeprefix("-- select").strip(), not query.startswith("-- select"))
        for query in found
        if query
    ]


@pytest.fixture(scope="module")
def sides(spark: SparkSession) -> Iterator[tuple[penstock.Flow, SparkSession]]:
    """A flow and Spark with the same tables, which the flow got in two ticks."""
    flow = penstock.Flow()
    for name, rows in make_tables(SEED).items():
        spark.createDataFrame(rows).createOrReplaceTempView(name)
        flow.spark_sql(create(name))
        flow.tick(name, rows)
    yield flow, spark
    for name in TABLES:
        spark.catalog.dropTempView(name)
    flow.close()


def plain(type: pa.DataType) -> str:
    """A type without what Spark and we name differently: long texts, the field of a list, whether NULL may be."""
    text = str(type).replace("large_", "").replace(" not null", "")
    return re.sub(r"list<\w+:", "list<item:", text)


def value(found: Any, exact: bool) -> Any:
    if isinstance(found, float):
        if math.isnan(found):
            return "NaN"
        return found if exact else float(f"{found:.12g}")
    if isinstance(found, dict):
        return tuple((name, value(each, exact)) for name, each in found.items())
    if isinstance(found, list):
        return tuple(value(each, exact) for each in found)
    if isinstance(found, Decimal):
        return str(found)
    return found


def bag(table: pa.Table, exact: bool) -> Counter[Any]:
    return Counter(
        tuple(value(each, exact) for each in row) for row in zip(*(c.to_pylist() for c in table), strict=True)
    )


def compare(ours: pa.Table, spark: pa.Table, exact: bool) -> None:
    assert ours.column_names == spark.column_names
    assert [plain(field.type) for field in ours.schema] == [plain(field.type) for field in spark.schema]
    assert bag(ours, exact) == bag(spark, exact)


@pytest.mark.slow
@pytest.mark.parametrize("start", range(0, len(lines()), AT_ONCE))
def test_expressions(sides: tuple[penstock.Flow, SparkSession], start: int) -> None:
    flow, spark = sides
    batch = lines()[start : start + AT_ONCE]
    columns = ", ".join(f"{each} AS c{i}" for i, each in enumerate(batch))
    query = f"SELECT id, {columns} FROM t"
    theirs = spark.sql(query).toArrow().sort_by("id")
    flow.spark_sql(f"CREATE OR REPLACE MATERIALIZED VIEW v AS {query}")
    for ours in (flow.spark_sql(query).sort_by("id"), flow.sql("SELECT * FROM v").sort_by("id")):
        for i, each in enumerate(batch):
            exact = not each.startswith(INEXACT)
            a, b = ours.column(f"c{i}"), theirs.column(f"c{i}")
            assert plain(a.type) == plain(b.type), each
            assert [value(x, exact) for x in a.to_pylist()] == [value(x, exact) for x in b.to_pylist()], each


@pytest.mark.slow
@pytest.mark.parametrize("query", [query for query, _ in queries()])
def test_queries(sides: tuple[penstock.Flow, SparkSession], query: str) -> None:
    flow, spark = sides
    exact = not any(name in query for name in INEXACT)
    theirs = spark.sql(query).toArrow()
    compare(flow.spark_sql(query), theirs, exact)
    if not dict(queries())[query]:
        return
    if len(set(theirs.column_names)) == len(theirs.column_names):
        flow.spark_sql(f"CREATE OR REPLACE MATERIALIZED VIEW v AS {query}")
        compare(flow.sql("SELECT * FROM v"), theirs, exact)
