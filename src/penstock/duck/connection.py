"""A DuckDB connection through which Ctrl-C comes as what it is.

DuckDB looks for signals while it works. What their handler raises, KeyboardInterrupt as a rule, it turns into errors of
its own or into RuntimeError("Query interrupted"), and whoever pressed Ctrl-C would be told that his query is wrong.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import duckdb
import pyarrow as pa

from penstock.base.undivided import Undivided

T = TypeVar("T")


def asked(work: Callable[..., T], *args: Any) -> T:
    """What DuckDB answers, or what the handler of SIGINT raised meanwhile."""
    with Undivided() as shield:
        return shield.stoppable(work, *args)


class DuckRelation:
    """A query that is bound, and run when its rows are asked for."""

    __slots__ = ("_relation", "columns", "types")

    def __init__(self, relation: duckdb.DuckDBPyRelation) -> None:
        self._relation = relation
        self.columns: list[str] = relation.columns
        self.types: list[Any] = relation.types

    def to_arrow_table(self) -> pa.Table:
        return asked(self._relation.to_arrow_table)

    def to_arrow_reader(self, rows: int) -> pa.RecordBatchReader:
        return asked(self._relation.to_arrow_reader, rows)


class DuckConnection:
    """What we use of DuckDB's connection, under the names that it has there."""

    __slots__ = ("_duck",)

    def __init__(self, duck: duckdb.DuckDBPyConnection) -> None:
        self._duck = duck

    def execute(self, sql: str, parameters: Any = None) -> DuckConnection:
        if parameters is None:
            asked(self._duck.execute, sql)
        else:
            asked(self._duck.execute, sql, parameters)
        return self

    def fetchall(self) -> list[Any]:
        return asked(self._duck.fetchall)

    def fetchone(self) -> tuple[Any, ...] | None:
        return asked(self._duck.fetchone)

    def sql(self, sql: str) -> Any:
        """A DuckRelation; None for a statement without a result."""
        relation = asked(self._duck.sql, sql)
        return None if relation is None else DuckRelation(relation)

    def register(self, name: str, rows: Any) -> None:
        with Undivided():  # short, and half of it would be a name that can be neither read nor registered
            self._duck.register(name, rows)

    def unregister(self, name: str) -> None:
        with Undivided():
            self._duck.unregister(name)

    def cursor(self) -> DuckConnection:
        return DuckConnection(self._duck.cursor())

    def interrupt(self) -> None:
        self._duck.interrupt()

    def close(self) -> None:
        self._duck.close()
