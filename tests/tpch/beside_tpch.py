"""The 22 queries as views of a flow that has an inline twin: loaded, filled, and changed at random."""

from __future__ import annotations

from typing import Any

from beside import Beside
from tpch import data
from tpch.changes import Changes


def run(flow: Beside, tables: dict[str, Any], epochs: int, seed: int) -> None:
    """`Beside` compares every table and view with the twin's after every statement and tick."""
    queries = list(data.queries().items())
    assert len(queries) == 22
    for statement in data.statements():
        flow.sql(statement)
    for name, query in queries[::2]:  # half of the views see the load as a delta, half are created over it
        flow.sql(f"CREATE MATERIALIZED VIEW {name} AS {query}")
    flow.tick(tables)
    for name, query in queries[1::2]:
        flow.sql(f"CREATE MATERIALIZED VIEW {name} AS {query}")
    changes = Changes(tables, seed)
    for _ in range(epochs):
        flow.tick(changes.epoch())
