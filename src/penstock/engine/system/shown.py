"""The relations of schema `penstock` in a DuckDB connection: declared and filled when a query mentions them."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable

import pyarrow as pa

from penstock.base.undivided import Undivided
from penstock.duck.connect import DuckConnection
from penstock.engine.system import RELATIONS, SCHEMA
from penstock.engine.system.relation import SystemRelation

Rows = Callable[[SystemRelation], pa.Table]


def may_mention(sql: str) -> bool:
    """Whether it is worth a closer look: most queries have nothing to do with the schema."""
    return SCHEMA in sql.lower()


class SystemShown:
    """Shows them in one connection. Views over registered rows: connections of one database share the views, each
    has rows of its own."""

    _declaring = threading.Lock()  # two connections must not declare the same views at once

    def __init__(self, duck: DuckConnection) -> None:
        self._duck = duck
        self._declared = False

    def declare(self) -> None:
        """All of them, without rows: so that a query that names one that does not exist is told so."""
        if self._declared:
            return
        for relation in RELATIONS:
            self._duck.register(relation.data_name, relation.empty())
        with self._declaring, Undivided():
            self._duck.execute(f"CREATE SCHEMA IF NOT EXISTS {SCHEMA}")
            for relation in RELATIONS:
                self._duck.execute(relation.view)
        self._declared = True

    def show(self, relations: Iterable[SystemRelation], rows: Rows) -> None:
        """The rows as they are now."""
        self.declare()
        for relation in relations:
            self._duck.register(relation.data_name, rows(relation))
