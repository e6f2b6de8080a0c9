"""What the plans look like: TPC-H and the queries of queries.py, as text that a person can review.

`PENSTOCK_GOLDENS=rewrite pytest tests/plan/test_goldens.py` writes the files anew.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from penstock.plan import tree
from penstock.plan.nodes import Aggregate, Filter, MultiJoin, Node, Project
from penstock.plan.show import show
from penstock.sql.bind import ATTEMPTS, Binder
from plan.queries import QUERIES, SCHEMA

HERE = Path(__file__).parent
GOLDENS = HERE / "goldens"
TPCH = HERE.parent / "tpch"
NUMBERS = range(1, 23)


def binder_of(statements: str) -> Binder:
    binder = Binder()
    for statement in statements.split(";"):
        if "CREATE TABLE" in statement:
            binder.create_table(statement)
        elif "CREATE VIEW" in statement:
            binder.create_view(statement)
    return binder


@pytest.fixture(scope="module")
def tpch() -> Iterator[Binder]:
    binder = binder_of((TPCH / "schema.sql").read_text())
    yield binder
    binder.close()


def query(number: int) -> str:
    return (TPCH / "queries" / f"q{number:02d}.sql").read_text()


def check(name: str, text: str) -> None:
    """The text is the file's, or becomes it."""
    path = GOLDENS / f"{name}.txt"
    if os.environ.get("PENSTOCK_GOLDENS") == "rewrite":
        path.parent.mkdir(exist_ok=True)
        path.write_text(text + "\n")
    assert path.read_text() == text + "\n", f"plan of {name} changed"


@pytest.mark.parametrize("number", NUMBERS)
def test_tpch_plan(tpch: Binder, number: int) -> None:
    check(f"q{number:02d}", show(tpch.plan(query(number))))


def test_plans_of_the_queries() -> None:
    binder = binder_of(SCHEMA)
    check(
        "queries", "\n\n".join(f"-- {name}: {sql}\n{show(binder.plan(sql))}" for name, sql in QUERIES.items())
    )
    binder.close()


@pytest.mark.parametrize("attempt", range(len(ATTEMPTS)))
@pytest.mark.parametrize("number", NUMBERS)
def test_tpch_has_no_cross_product(tpch: Binder, number: int, attempt: int) -> None:
    plan = tpch.plan(query(number), ATTEMPTS[attempt : attempt + 1])
    for node in tree.walk(plan):
        if isinstance(node, MultiJoin):
            assert is_connected(node), show(node)


def is_connected(node: MultiJoin) -> bool:
    """True where equalities reach every input, but for those that always have one row."""
    owner = [i for i, part in enumerate(node.parts) for _ in range(tree.width(part))]
    wanted = {i for i, part in enumerate(node.parts) if not has_one_row(part)}
    reached = {min(wanted)}
    for _ in node.parts:
        for a, b, _ in node.equalities:
            if {owner[a], owner[b]} & reached:
                reached |= {owner[a], owner[b]}
    return wanted <= reached


def has_one_row(node: Node) -> bool:
    while isinstance(node, Project | Filter):
        node = node.input
    return isinstance(node, Aggregate) and not node.keys


def test_equal_subplans_are_equal_across_views(tpch: Binder) -> None:
    """Two queries that call the same things by other names share nodes."""
    a = tpch.plan("SELECT o_custkey AS a, sum(o_totalprice) AS b FROM orders GROUP BY o_custkey")
    b = tpch.plan("SELECT sum(x.o_totalprice) AS n, x.o_custkey AS k FROM orders AS x GROUP BY k")
    assert a.inputs == b.inputs
    assert hash(a.inputs) == hash(b.inputs)


def test_a_shared_cte_is_one_node(tpch: Binder) -> None:
    plan = tpch.plan(query(15))
    sums = [n for n in tree.walk(plan) if isinstance(n, Aggregate) and n.keys]
    assert len(sums) == 1
