"""Tables and views that are defined from Python: one definition for each call, and names that are free."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest

import penstock
from penstock.base import errors


@pytest.fixture
def flow() -> Iterator[penstock.Flow]:
    with penstock.Flow() as flow:
        flow.sql("CREATE TABLE k (a INT)")
        flow.sql("INSERT INTO k VALUES (1)")
        flow.sql("CREATE MATERIALIZED VIEW kept AS SELECT a FROM k")
        yield flow


def names(flow: penstock.Flow) -> list[str]:
    return [row["name"] for what in ("TABLES", "VIEWS") for row in flow.sql(f"SHOW {what}").to_pylist()]


@pytest.mark.parametrize(
    ("query", "said"),
    [
        ("SELECT 1 AS a; DELETE FROM k; DROP TABLE k", "the text has 3 statements"),
        ("SELECT 1 AS a; SELECT 2 AS a", "the text has 2 statements"),
        ("DELETE FROM k", "this is DELETE"),
        ("WITH x AS (SELECT 1) DELETE FROM k", "this is WITH"),
        ("BEGIN", "this is BEGIN"),
        ("-- nothing", "no statement"),
        ("SELECT 1 AS a /* ; DELETE FROM k", "never closed"),
        (None, "is a text, not NoneType"),
    ],
)
def test_a_view_is_made_of_one_query_and_nothing_else_runs(
    flow: penstock.Flow, query: Any, said: str
) -> None:
    """What followed the semicolon was run."""
    for replace, name in ((False, "v"), (True, "kept")):
        epoch = flow.epoch
        with pytest.raises(errors.PenstockError, match=said):
            flow.register_view(name, query, replace=replace)
        assert (flow.epoch, names(flow)) == (epoch, ["k", "kept"])
        assert flow.sql("SELECT a FROM kept").to_pylist() == [{"a": 1}]


@pytest.mark.parametrize(
    "query", ["SELECT 1 AS a;", "SELECT 1 AS a ; ; -- done", "/* a */ (SELECT 1 AS a) -- b", "VALUES (1)"]
)
def test_a_semicolon_and_comments_are_fine(flow: penstock.Flow, query: str) -> None:
    flow.register_view("v", query)
    assert [tuple(row.values()) for row in flow.snapshot("v").to_pylist()] == [(1,)]


def test_a_name_is_a_name_whatever_is_in_it(flow: penstock.Flow) -> None:
    name = 'x" (a INT); DROP TABLE k; --'
    flow.register_source(
        name, pa.schema([(name, pa.int32()), ("s", pa.struct([(name, pa.int32())]))]), key=name
    )
    flow.tick(name, [{name: 1, "s": {name: 2}}])
    flow.register_view(f"{name} view", 'SELECT 1 AS "; DROP TABLE k"')
    assert names(flow) == ["k", name, "kept", f"{name} view"]
    for call in (flow.register_view, flow.register_source):
        with pytest.raises(errors.BindError, match="is a text, not int"):
            call(5, "SELECT 1")  # type: ignore[operator]


def test_a_column_cannot_have_the_name_of_the_weight(flow: penstock.Flow) -> None:
    definitions = (
        lambda: flow.sql("CREATE TABLE w (a INT, _weight INT)"),
        lambda: flow.sql('CREATE TABLE w (a INT, "_Weight" INT)'),
        lambda: flow.sql("CREATE TABLE w AS SELECT 1 AS _WEIGHT"),
        lambda: flow.sql("CREATE OR REPLACE TABLE k (a INT, _weight INT)"),
        lambda: flow.register_source("w", pa.schema([("_WEIGHT", pa.int64())])),
        lambda: flow.register_view("w", "SELECT a AS _weight FROM k"),
        lambda: flow.sql("CREATE MATERIALIZED VIEW w (_Weight) AS SELECT a FROM k"),
        lambda: flow.sql("CREATE OR REPLACE MATERIALIZED VIEW kept AS SELECT a AS _weight FROM k"),
    )
    for define in definitions:
        with pytest.raises(errors.ReservedName, match="the weight of a row") as caught:
            define()
        assert (caught.value.sqlstate, caught.value.hint) == (
            "42939",
            "Give it another name, such as weight.",
        )
        assert names(flow) == ["k", "kept"]
        assert flow.sql("SELECT a FROM kept").to_pylist() == [{"a": 1}]
    flow.sql("CREATE TABLE w (weight INT)")  # the name is free again, in every part


@pytest.mark.parametrize("type", [pa.null(), pa.list_(pa.null()), pa.decimal256(50, 2)], ids=str)
def test_a_source_with_a_type_that_has_no_column_is_refused_by_name(
    flow: penstock.Flow, type: pa.DataType
) -> None:
    with pytest.raises(errors.TypeMismatch, match='column "n" of "w"') as caught:
        flow.register_source("w", pa.schema([("a", pa.int32()), ("n", type)]))
    assert caught.value.hint
    assert names(flow) == ["k", "kept"]
