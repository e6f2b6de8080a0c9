"""PREPARE and EXECUTE: prepared statements in SQL. They are those of the protocol, under the same names.

The values of EXECUTE are worked out first, by themselves: they see no column of the statement, and one that is used
twice is the same twice. They then take the way that the values of a Bind message take.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from penstock.base.errors import PenstockError, SqlSyntaxError
from penstock.base.limits import PREPARED_MAX
from penstock.gateway.command import Command
from penstock.gateway.decode import fitting
from penstock.gateway.errors import DuplicateStatement, NotSupported, WrongNumber
from penstock.gateway.portals import Portal, Prepared, Values
from penstock.gateway.types import ColumnType, column_type
from penstock.sql.binding import Typed
from penstock.sql.cursor import Cursor
from penstock.sql.statements import Slice
from penstock.sql.tokens import fold

NUMERIC_PARAMETER = "DECIMAL(38,9)"  # what a statement is bound with when a client says numeric

if TYPE_CHECKING:
    from penstock.gateway.work import Work


@dataclass(frozen=True)
class Prepare(Command):
    """`PREPARE name (int, text) AS statement`"""

    name: str
    types: tuple[Slice, ...]
    body: Slice


@dataclass(frozen=True)
class Execute(Command):
    """`EXECUTE name (1, 'x')`"""

    name: str
    values: tuple[Slice, ...]


def parse_prepare(c: Cursor) -> Command:
    c.expect("PREPARE")
    name = _name(c)
    types = _items(c, "a type")
    c.expect("AS")
    return Prepare(name, types, c.rest("a statement"))


def parse_execute(c: Cursor) -> Command:
    c.expect("EXECUTE")
    return Execute(_name(c), _items(c, "a value"))


def _name(c: Cursor) -> str:
    quoted = not c.at_end and c.tokens[c.position].kind == "quoted"
    name = c.identifier("the name of a prepared statement")
    return name if quoted else fold(name)


def _items(c: Cursor, what: str) -> tuple[Slice, ...]:
    """What stands between parentheses and commas."""
    if not c.at("("):
        return ()
    inside = c.group()
    if inside.at_end:
        return ()
    items = []
    while True:
        stop = next((i for i in inside.top_level() if inside.tokens[i].keyword == ","), inside.stop)
        items.append(inside.slice(stop, what))
        if not inside.take(","):
            return tuple(items)


def run_prepare(work: Work, command: Prepare, portal: Portal) -> None:
    if command.name in work.statements:
        raise DuplicateStatement(f'prepared statement "{command.name}" already exists')
    if len(work.statements) >= PREPARED_MAX:
        raise NotSupported(f"more than {PREPARED_MAX} prepared statements", hint="DEALLOCATE some.")
    oids = tuple(_type(work, text).oid for text in command.types)
    work.offset += command.body.offset
    prepared = work.prepare(command.body.text, oids)
    if prepared.statement is None or isinstance(prepared.command, Command):
        word = command.body.text.split()[0].upper()
        raise SqlSyntaxError(
            f"{word} cannot be prepared", hint="SELECT, INSERT, UPDATE, DELETE and VALUES can."
        )
    work.work_out(prepared, columns=True)
    work.statements[command.name] = prepared
    portal.tag = "PREPARE"


def run_execute(work: Work, command: Execute, portal: Portal) -> None:
    prepared = prepared_of(work, command)
    inner = Portal(prepared, _values(work, command, prepared), portal.formats)
    # An error inside has its place in the text that was prepared, which the client did not send just now.
    try:
        work.run(inner)
    except PenstockError as error:
        error.position = None
        raise
    portal.result, portal.stream, portal.tag = inner.result, inner.stream, inner.tag
    portal.notices += inner.notices
    portal.reports += inner.reports
    for i, held in enumerate(work.streams):
        if held is inner:
            work.streams[i] = portal


def prepared_of(work: Work, command: Execute) -> Prepared:
    """The statement that is meant, with its parameters and columns worked out."""
    prepared = work.statement(command.name)
    work.work_out(prepared, columns=True)
    return prepared


def _type(work: Work, text: Slice) -> ColumnType:
    """The type that a client names."""
    described = work.session.describe(f"SELECT CAST(NULL AS {text.text}) AS value", {})
    assert described.columns is not None
    if len(described.columns) != 1:
        raise SqlSyntaxError(f"{text.text!r} is not a type", position=text.offset)
    return column_type(described.columns[0][1])


def _values(work: Work, command: Execute, prepared: Prepared) -> Values:
    types = prepared.parameters or ()
    if len(command.values) != len(types):
        raise WrongNumber(
            f'wrong number of parameters for prepared statement "{command.name}": '
            f"expected {len(types)} but got {len(command.values)}"
        )
    values: Values = []
    for text, type, duck in zip(command.values, types, prepared.ducks, strict=True):
        values.append(_value(work, text, _cast(type, duck)))
    return values


def _cast(type: ColumnType | None, duck: str | None) -> str | None:
    """The type that a value has to have, in DuckDB's words; None if its place takes whatever it is."""
    if duck is not None or type is None:
        return duck
    return type.pg.duck + "[]" * type.depth


def _value(work: Work, text: Slice, wanted: str | None) -> Any:
    """A value as a Bind message would give it: its text, with its type."""
    precise = wanted == "DECIMAL"  # as precise as the value is
    value = f"({text.text})" if wanted is None or precise else f"CAST(({text.text}) AS {wanted})"
    shape = work.session.describe(f"SELECT {value} AS value", {}).columns
    if shape is None or len(shape) != 1:
        raise SqlSyntaxError(f"{text.text!r} is not one value", position=text.offset)
    duck = shape[0][1]
    many = duck.endswith("[]")
    texts = work.session.execute(f"SELECT CAST({value} AS VARCHAR{'[]' if many else ''}) AS value")[-1].table
    if texts.num_rows != 1:
        raise SqlSyntaxError(f"{text.text!r} is not one value", position=text.offset)
    found = texts.column(0)[0].as_py()
    if precise:
        return Typed(found, NUMERIC_PARAMETER if found is None else fitting("DECIMAL", found))
    if duck in ('"NULL"', "NULL"):
        return None
    if many and found is not None:
        return Typed(tuple(Typed(item, duck.removesuffix("[]")) for item in found), duck)
    return found if duck == "VARCHAR" and wanted is None else Typed(found, duck)
