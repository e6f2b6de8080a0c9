"""Catalog queries of one client: classified, described and run by the private PostgreSQL."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

from penstock.engine.flow import Flow
from penstock.engine.outline import RelationOutline, outline, relation_names
from penstock.engine.session import Session
from penstock.gateway.backend import Field, row_description
from penstock.gateway.catalog.classify import catalog_query, may_be_catalog, renamed
from penstock.gateway.catalog.connection import ConnectionLost, PrivateConnection, Rows
from penstock.gateway.catalog.mirror import text
from penstock.gateway.catalog.private import PrivatePostgres
from penstock.gateway.command import Command
from penstock.gateway.errors import NotSupported
from penstock.gateway.result import fields
from penstock.gateway.types import ColumnType, PgType

Columns = list[tuple[str, ColumnType]]


@dataclass(frozen=True)
class CatalogQuery(Command):
    """A query that the catalog answers. `sets` are the settings that it changes by the way, as SET does."""

    sql: str
    sets: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True)
class RawValues:
    """A client's values for the parameters, as it sent them."""

    values: Sequence[bytes | None] = ()
    formats: Sequence[int] = ()


NO_VALUES = RawValues()


@dataclass
class RawResult:
    """Rows as the private PostgreSQL gave them: what `Result` is for rows of our own."""

    columns: Columns
    rows: list[bytes]
    formats: list[int]
    at: int = 0
    types: list[ColumnType] = field(init=False)

    def __post_init__(self) -> None:
        self.types = [t for _, t in self.columns]

    @property
    def left(self) -> int:
        return len(self.rows) - self.at

    def skip(self, count: int | None) -> int:
        taken = self.left if count is None else min(count, self.left)
        self.at += taken
        return taken

    @property
    def at_hand(self) -> float:
        return self.left

    @property
    def description(self) -> bytes:
        """RowDescription."""
        return row_description(fields(self.columns, self.formats))

    def close(self) -> None:
        """The rows that are left are not wanted."""
        self.rows, self.at = [], 0

    def fetch(self, count: int | None) -> Iterator[bytes]:
        start = self.at
        self.skip(count)
        yield b"".join(self.rows[start : self.at])

    def window(self, count: int | None, formats: Sequence[int]) -> RawResult:
        """The next rows, for FETCH; they are bytes already, and stay as they are."""
        if list(formats) != self.formats:
            raise NotSupported(
                "FETCH in another format than that of its cursor", hint="DECLARE it BINARY, or not."
            )
        start, taken = self.at, self.skip(count)
        return RawResult(self.columns, self.rows[start : start + taken], self.formats)


class CatalogDoor:
    """The way from one client to the private PostgreSQL.

    `process` is the number that the client was given; `activity` gives the rows of pg_stat_activity (see prelude.py).
    """

    def __init__(
        self, private: PrivatePostgres, flow: Flow, session: Session, role: str, process: int,
        activity: Callable[[], list[dict[str, object]]] = list,
    ) -> None:  # fmt: skip
        self._activity = activity
        self._private = private
        self._is_ours = relation_names(flow)
        self._session = session
        self._role = role
        self._process = process

    def read(self, sql: str, functions: Collection[str]) -> CatalogQuery | None:
        """The catalog query that a statement is; None if it is none. `functions` are the session's own."""
        if not may_be_catalog(sql):
            return None
        found = catalog_query(sql, self._is_ours, functions)
        return None if found is None else CatalogQuery(renamed(sql), found.sets)

    def describe(self, query: CatalogQuery, oids: Sequence[int]) -> tuple[tuple[ColumnType, ...], Columns]:
        """The types of the parameters, and the columns."""
        self._session.not_cancelled()
        found = self._asked(query, lambda connection: connection.describe(query.sql, oids))
        return tuple(_type(oid) for oid in found.parameters), _columns(found)

    def run(
        self, query: CatalogQuery, oids: Sequence[int], values: RawValues, formats: Sequence[int]
    ) -> RawResult:
        found = self._asked(
            query,
            lambda connection: connection.query(query.sql, oids, values.values, values.formats, formats),
        )
        columns = _columns(found)
        return RawResult(columns, found.rows, [f.format for f in found.fields or ()])

    def _asked(self, query: CatalogQuery, ask: Callable[[PrivateConnection], Rows]) -> Rows:
        """The answer; asked once more if the connection is lost on the way, since nothing is changed by asking."""
        try:
            with self._transaction(query) as connection:
                return ask(connection)
        except ConnectionLost:
            with self._transaction(query) as connection:
                return ask(connection)

    @contextmanager
    def _transaction(self, query: CatalogQuery) -> Iterator[PrivateConnection]:
        """Read only, and undone: nothing that a query may set outlives it."""
        with self._private.connection(self._role) as connection, self._session.working(connection.cancel):
            begin = f"BEGIN READ ONLY; SET LOCAL penstock.process = {self._process}"
            if "pg_stat_activity" in query.sql.lower():
                begin += f"; SET LOCAL penstock.activity = {text(json.dumps(self._activity()))}"
            connection.run(begin)
            try:
                yield connection
            finally:
                connection.run("ROLLBACK")


def private_postgres(flow: Flow, extra: Iterable[RelationOutline] = ()) -> PrivatePostgres:
    """One for a server: nothing is started before it is asked. `extra` are relations of the server's own, such as
    those of `penstock`: they are only shown in the catalog, and read elsewhere."""
    further = tuple(extra)
    return PrivatePostgres(lambda known: outline(flow, known, further))


def _columns(found: Rows) -> Columns:
    return [(f.name, _type_of(f)) for f in found.fields or ()]


def _type_of(f: Field) -> ColumnType:
    return ColumnType(PgType("", f.oid, 0, f.size, ""), 0, f.modifier)


def _type(oid: int) -> ColumnType:
    return ColumnType(PgType("", oid, 0, -1, ""))
