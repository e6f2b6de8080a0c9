"""What a statement takes and gives, before it runs: the types of its placeholders and of its columns.

A placeholder has the type that its place gives it. To learn it, the placeholder is replaced by a call of error(),
whose type is that of NULL, and DuckDB binds the statement: the cast that it puts around the call says the type.
Values that go into a column as they are have the column's type. What stays open is left open.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from penstock.base.errors import PenstockError, SqlSyntaxError
from penstock.engine.as_of import Past
from penstock.engine.catalog import Table, View
from penstock.engine.core import Core
from penstock.engine.error_places import positions_in, positions_unknown
from penstock.engine.past_relations import past_relations
from penstock.sql import statements as st
from penstock.sql.binding import Typed, bind
from penstock.sql.mark import marked
from penstock.sql.parse import parse
from penstock.sql.parse_dml import values_rows
from penstock.sql.tokens import fold, quote, tokenize

Columns = list[tuple[str, str]]  # names and types in DuckDB's words
_TEXT = "VARCHAR"
_SHOWN = ("column_name", "column_type", "null", "key", "default")


@dataclass(frozen=True)
class Description:
    """A type that could not be told is None: a value for it is text, and takes whatever type its place needs.
    `columns` is None for a statement that gives no rows."""

    parameters: tuple[str | None, ...]
    columns: Columns | None


def describe(
    core: Core,
    sql: str,
    given: Mapping[int, str],
    columns: Callable[[str], Columns],
    past: Callable[[], Past],
) -> Description:
    """`given` are the types of placeholders that the client says, by number."""
    statement = _only(sql)
    count = statement.parameter_count
    if any(isinstance(p.key, str) for p in statement.parameters):
        raise SqlSyntaxError("a prepared statement has the placeholders $1, $2 or ?, not names")
    found = dict(given)
    if any(n not in found for n in range(1, count + 1)):
        found = {**_infer(core, sql, given, count), **given}
    types = tuple(found.get(n) for n in range(1, count + 1))
    bound = bind(sql, [None if t is None else Typed(None, t) for t in types])
    try:
        return Description(types, _bound_columns(core, _only(bound.text), columns, past))
    except PenstockError as error:
        if error.position is not None:
            error.position = bound.origin(error.position)
        raise


def _bound_columns(
    core: Core, s: st.Statement, columns: Callable[[str], Columns], past: Callable[[], Past]
) -> Columns | None:
    if not s.as_of:
        return _columns(core, s, columns)
    with past_relations(core, s.as_of, past):
        return _columns(core, s, core.reader.columns)


def _only(sql: str) -> st.Statement:
    statements = parse(sql)
    if len(statements) > 1:
        raise SqlSyntaxError("a prepared statement is one statement", position=statements[1].text.offset)
    return statements[0]


def _columns(core: Core, s: st.Statement, columns: Callable[[str], Columns]) -> Columns | None:
    if isinstance(s, st.Query):
        with positions_in(s.text):
            return columns(s.text.text)
    if isinstance(s, (st.Insert, st.Update, st.Delete)) and s.returning is not None:
        table = core.table(s.table)
        source = f"{quote(table.name)} AS {quote(s.alias or table.name)}"
        with positions_unknown():
            return columns(f"SELECT {s.returning.text} FROM {source}")
    if isinstance(s, (st.Explain, st.ExplainIncremental)):
        return [("explain", _TEXT)]
    if isinstance(s, st.Describe):
        return [(n, _TEXT) for n in (_SHOWN if s.name else _SHOWN[:2])]
    if isinstance(s, st.Show):
        return [(n, _TEXT) for n in (_SHOWN if s.name else ("name", "kind"))]
    if isinstance(s, st.Subscribe):
        relation = core.catalog.get(s.name)
        if isinstance(relation, View):  # refused when it runs, and with a better reason
            return None
        return s.columns(
            [(n, t.duck) for n, t in zip(relation.schema.names, relation.schema.types, strict=True)]
        )
    return None


# -- the types of placeholders ---------------------------------------------------------------------


def _infer(core: Core, sql: str, given: Mapping[int, str], count: int) -> dict[int, str]:
    """The types that are to be had, by the number of the placeholder."""
    values = [Typed(None, given[n]) if n in given else marked(n) for n in range(1, count + 1)]
    statement = _only(bind(sql, values).text)
    found: dict[int, str] = {}
    for text in _queries(core, statement):
        try:
            found = {**core.binder.marked_types(text), **found}
        except PenstockError:
            continue  # DuckDB needs to know more than we can tell: it stays open
    return {**found, **_direct(core, _only(sql))}


def _queries(core: Core, s: st.Statement) -> Iterator[str]:
    """Queries in which the placeholders stand as they do in the statement."""
    if isinstance(s, st.Query):
        yield s.text.text
    if not isinstance(s, (st.Insert, st.Update, st.Delete)):
        return
    table = quote(core.table(s.table).name)
    source = f"{table} AS {quote(s.alias or s.table)}"
    before = f"{s.with_text.text} " if s.with_text else ""
    if isinstance(s, st.Insert):
        if not s.default_values and not s.has_default:
            yield f"{before}SELECT * FROM ({s.source.text})"
    else:
        more = s.from_text if isinstance(s, st.Update) else s.using_text
        tables = f"{source}, {more.text}" if more else source
        where = f" WHERE {s.where.text}" if s.where else ""
        yield f"{before}SELECT 1 FROM {tables}{where}"
        if isinstance(s, st.Update):
            for assignment in s.assignments:
                if not assignment.is_default:
                    yield f"{before}SELECT {assignment.expression} FROM {tables}"
    if s.returning is not None:
        yield f"SELECT {s.returning.text} FROM {source}"


def _direct(core: Core, s: st.Statement) -> dict[int, str]:
    """Placeholders that are the value of a column."""
    if not isinstance(s, (st.Insert, st.Update)):
        return {}
    table = core.table(s.table)
    types = {fold(n): t.duck for n, t in zip(table.schema.names, table.schema.types, strict=True)}
    numbers = {p.offset: int(p.key) for p in s.parameters}
    found: dict[int, str] = {}
    for name, value in _values(table, s):
        tokens = [t for t in tokenize(value.text) if t.kind not in ("space", "comment")]
        if len(tokens) == 1 and tokens[0].kind == "parameter" and fold(name) in types:
            found.setdefault(numbers[value.offset + tokens[0].offset], types[fold(name)])
    return found


def _values(table: Table, s: st.Insert | st.Update) -> Iterator[tuple[str, st.Slice]]:
    """Columns, each with the text of a value for it."""
    assignments = s.assignments if isinstance(s, st.Update) else ()
    if isinstance(s, st.Insert):
        columns = s.columns or table.schema.names
        for row in values_rows(s.source) or ():
            yield from zip(columns, row, strict=False)
        assignments = s.on_conflict.assignments if s.on_conflict else ()
    for assignment in assignments:
        if len(assignment.columns) == 1:
            yield assignment.columns[0], assignment.value
