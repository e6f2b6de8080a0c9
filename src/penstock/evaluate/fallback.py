"""DuckDB's answer for an expression: slower than ours, but it has every function.

A fallback renders its expression once; each thread that runs it binds it once, over a table that
is handed to DuckDB anew for each run, as Arrow, without a copy.
"""

from __future__ import annotations

import os
import threading
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import pyarrow as pa

from penstock.base.errors import PenstockError
from penstock.duck.connect import DuckConnection, DuckError, connect, translate
from penstock.evaluate.forms import Eval
from penstock.evaluate.render import render
from penstock.plan.expr import Call, Col, Expr, walk
from penstock.zset.column import Column
from penstock.zset.interchange import from_arrow, to_arrow
from penstock.zset.types import HUGEINT, JSON, UUID, VARCHAR, SqlType, decimal

_threads = threading.local()


class _Session:
    """A thread's private connection, and the names in it that nothing uses any more."""

    def __init__(self) -> None:
        self.process = os.getpid()
        self.connection: DuckConnection = connect(threads=1)
        self.names = 0
        self.unused: deque[str] = deque()

    def new_name(self) -> str:
        while self.unused:
            self.connection.unregister(self.unused.popleft())
        self.names += 1
        return f"input{self.names}"


def _session() -> _Session:
    """This thread's session; a forked process makes its own."""
    session: _Session | None = getattr(_threads, "session", None)
    if session is None or session.process != os.getpid():
        session = _threads.session = _Session()
    return session


class _Feed:
    """A table whose rows change between runs, as DuckDB reads it."""

    def __init__(self, schema: pa.Schema) -> None:
        self.schema = schema
        self.batch: pa.RecordBatch | None = None

    def __arrow_c_schema__(self) -> Any:
        return self.schema.__arrow_c_schema__()

    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
        batches = [] if self.batch is None else [self.batch]
        reader = pa.RecordBatchReader.from_batches(self.schema, batches)
        return reader.__arrow_c_stream__(requested_schema)


class _Bound:
    """A query over a feed, bound in one session."""

    def __init__(self, session: _Session, schema: pa.Schema, sql: str) -> None:
        self.session = session
        self.name = session.new_name()
        self.feed = _Feed(schema)
        session.connection.register(self.name, self.feed)
        self.relation = session.connection.sql(f"SELECT {sql} AS r FROM {self.name}")

    def __del__(self) -> None:
        # Perhaps in another thread, which must not touch the connection: its own thread clears up.
        if hasattr(self, "name"):
            self.session.unused.append(self.name)


def _wire(type: SqlType) -> SqlType:
    """The type whose Arrow form DuckDB and we share: what it exports otherwise is not what we hold."""
    if type in (JSON, UUID):
        return VARCHAR
    if type == HUGEINT:
        return decimal(38, 0)
    if type.id == "ARRAY":
        return SqlType("LIST", children=(("", _wire(type.children[0][1])),))
    if type.children:
        return replace(type, children=tuple((name, _wire(child)) for name, child in type.children))
    return type


def compile_fallback(expr: Expr, message: Callable[[], str]) -> Eval:
    """The expression as a query that DuckDB runs for each call; `message` says it in words."""
    types = {e.index: e.type for e in walk(expr) if isinstance(e, Col)}
    needed = sorted(types)
    # A table without columns has no rows either: one more column makes the count known.
    schema = pa.schema([("n", pa.int8()), *((f"c{i}", _wire(types[i]).arrow) for i in needed)])
    position = expr.position if isinstance(expr, Call) else None
    result = _wire(expr.type)
    sql = render(expr, lambda i: _as_type(f"c{i}", types[i]))
    if expr.type.id != "NULL":
        sql = f"CAST({sql} AS {result.duck})"
    kept = threading.local()

    def bound() -> _Bound:
        session = _session()
        found: _Bound | None = getattr(kept, "bound", None)
        if found is None or found.session is not session:
            found = kept.bound = _Bound(session, schema, sql)
        return found

    def run(columns: Sequence[Column], count: int) -> Column:
        arrays = [pa.nulls(count, pa.int8()), *(_exported(columns[i]) for i in needed)]
        try:
            query = bound()
            query.feed.batch = pa.RecordBatch.from_arrays(arrays, schema=schema)
            table = query.relation.to_arrow_table()
        except DuckError as error:
            raise _explained(translate(error), message(), position) from None
        query.feed.batch = None  # the rows are not ours to keep
        return from_arrow(table.column(0), expr.type)

    return run


def _as_type(name: str, type: SqlType) -> str:
    return name if _wire(type) == type else f"CAST({name} AS {type.duck})"


def _exported(column: Column) -> pa.Array:
    array = to_arrow(column)
    wire = _wire(column.type).arrow
    return array if array.type == wire else array.cast(wire)


def _explained(error: PenstockError, text: str, position: int | None) -> PenstockError:
    """The same error, naming the expression that the user wrote."""
    message = error.message.split(" in (")[0]
    return type(error)(f"{message} in {text}", hint=error.hint, position=position)
