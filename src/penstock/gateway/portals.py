"""Prepared statements and portals: what a client has named and may come back to."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from penstock.gateway.command import Command
from penstock.gateway.reports import Notice
from penstock.gateway.result import Result
from penstock.gateway.types import ColumnType
from penstock.sql import statements as st
from penstock.sql.binding import Typed

Values = list[Typed | str | None]


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
    shapes: dict[tuple[int, ...], Any] = field(default_factory=dict)  # found.Shape by the formats of a Bind


@dataclass
class Portal:
    """A statement with its values, and its rows once it has run. Cursors are portals."""

    prepared: Prepared
    values: Values
    formats: tuple[int, ...]
    result: Result | None = None
    tag: str = ""
    done: bool = False
    hold: bool = False
    notices: list[str | Notice] = field(default_factory=list)
    reports: list[bytes] = field(default_factory=list)  # settings that have changed
