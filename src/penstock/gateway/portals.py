"""Prepared statements and portals: what a client has named and may come back to."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from penstock.gateway.catalog.query import NO_VALUES, RawResult, RawValues
from penstock.gateway.command import Command
from penstock.gateway.reports import Notice
from penstock.gateway.result import Result
from penstock.gateway.types import ColumnType
from penstock.sql import statements as st
from penstock.sql.binding import Typed

if TYPE_CHECKING:
    from penstock.gateway.stream import Stream

Value = Typed | str | None
Values = list[Value]


@dataclass
class Prepared:
    """A prepared statement; `columns` is what was announced for it, () before that."""

    sql: str
    command: Command | None
    statement: st.Statement | None  # None: a command, or nothing at all
    oids: tuple[int, ...]
    parameters: tuple[ColumnType | None, ...] | None = None  # None: not worked out yet
    ducks: tuple[str | None, ...] = ()
    columns: list[tuple[str, ColumnType]] | None = None
    described: bool = False
    told: list[ColumnType] | None = (
        None  # the types of its rows, as announced for its newest described portal
    )
    notifies: bool = False  # SELECT pg_notify(...): the statement gives its arguments
    # By the formats of a Bind: found.Shape, and how to read the values.
    shapes: dict[tuple[int, ...], Any] = field(default_factory=dict)
    decoders: dict[tuple[int, ...], list[Callable[[bytes | None], Value]]] = field(default_factory=dict)

    def announced(self, portal_described: bool) -> list[ColumnType] | None:
        """The types that a client reads the rows of a portal by; None if it is told them with the rows. pgjdbc describes
        one portal of a statement, and takes the rows of later ones to be like it."""
        if self.described:
            return None if self.columns is None else [t for _, t in self.columns]
        return None if portal_described else self.told


@dataclass(slots=True)
class Portal:
    """A statement with its values, and its rows once it has run. Cursors are portals."""

    prepared: Prepared
    values: Values
    formats: tuple[int, ...]
    result: Result | RawResult | None = None
    stream: Stream | None = None  # of SUBSCRIBE, whose rows have no end
    tag: str = ""
    done: bool = False
    hold: bool = False
    described: bool = False
    raw: RawValues = NO_VALUES  # of a catalog query: the values as they came
    notices: list[str | Notice] = field(default_factory=list)
    reports: list[bytes] = field(default_factory=list)  # settings that have changed

    @property
    def description(self) -> bytes | None:
        """RowDescription for its rows; None if it has none, or has not run yet."""
        if self.stream is not None:
            return self.stream.description
        return None if self.result is None else self.result.description

    @property
    def announced(self) -> list[ColumnType] | None:
        """The types that the client reads its rows by; None if it is told them with the rows."""
        return self.prepared.announced(self.described)

    @property
    def columns(self) -> list[tuple[str, ColumnType]] | None:
        """The columns of its rows; None if it has none, or has not run yet."""
        if self.stream is not None:
            return self.stream.columns
        return None if self.result is None else self.result.columns
