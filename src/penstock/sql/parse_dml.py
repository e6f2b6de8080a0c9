"""INSERT, UPDATE, DELETE and TRUNCATE, each taken apart into the clauses that the engine runs."""

from __future__ import annotations

from penstock.base.errors import SqlSyntaxError
from penstock.sql.cursor import Cursor, add_once
from penstock.sql.parameters import read_parameters
from penstock.sql.statements import Assignment, Delete, Insert, OnConflict, Slice, Statement, Truncate, Update
from penstock.sql.tokens import tokenize

# Reserved words that no expression has outside of brackets. The engine puts our texts into queries
# of its own, where the LIMIT of "DELETE ... WHERE a LIMIT 1" would quietly mean something.
_CLAUSE_WORDS = """
    SELECT FROM WHERE GROUP HAVING WINDOW QUALIFY ORDER LIMIT OFFSET FETCH FOR UNION INTERSECT EXCEPT
    INTO RETURNING
"""
_NEVER_IN_CLAUSE = frozenset(_CLAUSE_WORDS.split())
_NEVER_IN_EXPRESSION = _NEVER_IN_CLAUSE | {"USING", "ON"}


def parse_with(c: Cursor) -> Slice:
    """The text of `WITH a AS (...), b AS (...)`; the cursor then stands at the verb."""
    start = c.position
    c.expect("WITH")
    c.take("RECURSIVE")
    while True:
        c.identifier("the name of a common table expression")
        if c.at("("):
            c.position = c.closing(c.position) + 1
        if c.take("USING", "KEY"):  # DuckDB's WITH RECURSIVE t(k, v) USING KEY (k)
            c.group()
        c.expect("AS")
        if not c.take("NOT", "MATERIALIZED"):
            c.take("MATERIALIZED")
        c.group()
        if not c.take(","):
            break
    stop, c.position = c.position, start
    return c.slice(stop, "WITH")


def parse_insert(c: Cursor, text: Slice, with_text: Slice | None = None) -> Statement:
    c.expect("INSERT")
    if c.at("OR"):
        c.fail("INTO", hint="Write INSERT INTO ... ON CONFLICT (key) DO UPDATE SET ... or DO NOTHING.")
    c.expect("INTO")
    table, offset = c.object_name("a table name")
    alias = c.identifier("an alias") if c.take("AS") else None
    columns = c.column_list() if c.at("(") and not c.at_query() else None
    by_name = c.take("BY", "NAME")
    if not by_name:
        c.take("BY", "POSITION")
    body = c.until(_find_on_conflict(c))
    default_values = body.at("DEFAULT", "VALUES")
    if not default_values and not body.at_query():
        body.fail("VALUES, a query or DEFAULT VALUES")
    has_default = not default_values and body.at("VALUES") and _has_default(body)
    source = body.slice(body.position + 2 if default_values else body.stop, "VALUES or a query")
    body.done()
    on_conflict = _on_conflict(c) if c.at("ON") else None
    return Insert(
        text,
        read_parameters(c.tokens),
        table,
        offset,
        alias,
        columns,
        by_name,
        source,
        default_values,
        has_default,
        on_conflict,
        _returning(c),
        with_text,
    )


def parse_update(c: Cursor, text: Slice, with_text: Slice | None = None) -> Statement:
    c.expect("UPDATE")
    table, offset = c.object_name("a table name")
    alias = None
    # SET is not reserved, but a bare SET after the table is always the keyword.
    if c.take("AS") or (c.at_name() and not c.at("SET")):
        alias = c.identifier("an alias")
    c.expect("SET")
    assignments = _assignments(c.until(c.find("FROM", "WHERE", "RETURNING")))
    from_text = None
    if c.take("FROM"):
        from_text = _clause(c, c.find("WHERE", "RETURNING"), "a table", _NEVER_IN_CLAUSE)
    where = _where(c)
    returning = _returning(c)
    parameters = read_parameters(c.tokens)
    return Update(text, parameters, table, offset, alias, assignments, from_text, where, returning, with_text)


def parse_delete(c: Cursor, text: Slice, with_text: Slice | None = None) -> Statement:
    c.expect("DELETE", "FROM")
    table, offset = c.object_name("a table name")
    alias = c.identifier("an alias") if c.take("AS") or c.at_name() else None
    using_text = None
    if c.take("USING"):
        using_text = _clause(c, c.find("WHERE", "RETURNING"), "a table", _NEVER_IN_CLAUSE)
    where = _where(c)
    returning = _returning(c)
    parameters = read_parameters(c.tokens)
    return Delete(text, parameters, table, offset, alias, using_text, where, returning, with_text)


def parse_truncate(c: Cursor, text: Slice) -> Statement:
    c.expect("TRUNCATE")
    c.take("TABLE")
    return Truncate(text, read_parameters(c.tokens), c.object_names("a table name"))


def values_rows(source: Slice) -> tuple[tuple[Slice, ...], ...] | None:
    """The items of each row of a `VALUES (..), (..)` text; None if it is any other query.

    >>> [[str(item) for item in row] for row in values_rows(Slice("VALUES (1, f(2, 3)), (4, DEFAULT)", 0))]
    [['1', 'f(2, 3)'], ['4', 'DEFAULT']]
    """
    tokens = [t for t in tokenize(source.text) if t.kind not in ("space", "comment")]
    c = Cursor(source.text, tokens, len(source.text))
    rows: list[tuple[Slice, ...]] = []
    if not c.take("VALUES"):
        return None
    while c.at("("):
        items = _items(c.group())
        rows.append(tuple(Slice(item.text, source.whole(item.offset)) for item in items))
        if not c.take(","):
            break
    return tuple(rows) if rows and c.at_end else None


def _find_on_conflict(c: Cursor) -> int:
    """Where the rows of an INSERT end. `JOIN b ON conflict = 1` is no clause: CONFLICT is not reserved."""
    end = c.find("RETURNING")
    for index in c.top_level():
        if index + 1 < end and c.tokens[index].keyword == "ON" and c.tokens[index + 1].keyword == "CONFLICT":
            following = c.tokens[index + 2].keyword if index + 2 < end else "DO"
            if following in ("(", "DO", "ON", "WHERE", "NOTHING", "UPDATE"):
                return index
    return end


def _has_default(c: Cursor) -> bool:
    """Whether DEFAULT is a value, as in `VALUES (1, DEFAULT)`."""
    return any(
        c.tokens[i].keyword == "DEFAULT"
        and c.tokens[i - 1].keyword in ("(", ",")
        and c.tokens[i + 1].keyword in (")", ",")
        for i in range(c.position + 1, c.stop - 1)
    )


def _on_conflict(c: Cursor) -> OnConflict:
    c.expect("ON", "CONFLICT")
    target = None
    if c.at("ON", "CONSTRAINT"):
        c.fail("(columns) or DO", hint="Name the key's columns: ON CONFLICT (id) DO ...")
    if c.at("("):
        target = c.column_list()
    if c.at("WHERE"):
        c.fail("DO", hint="There are no partial keys: put the condition after DO UPDATE SET ...")
    c.expect("DO")
    if c.take("NOTHING"):
        return OnConflict(target, "nothing")
    if not c.take("UPDATE"):
        c.fail("NOTHING or UPDATE")
    c.expect("SET")
    assignments = _assignments(c.until(c.find("WHERE", "RETURNING")))
    return OnConflict(target, "update", assignments, _where(c))


def _assignments(c: Cursor) -> tuple[Assignment, ...]:
    """The SET list that fills the cursor."""
    found: list[Assignment] = []
    names: dict[str, str] = {}
    while True:
        offset = c.offset
        columns = c.column_list() if c.at("(") else (c.identifier("a column name"),)
        for column in columns:
            add_once(names, column, offset, SqlSyntaxError)  # Postgres's code for a SET list
        if c.at(".") or c.at("["):
            c.fail("=", hint="SET takes the plain name of a column; replace the whole value of a nested one.")
        several = c.tokens[c.position - 1].keyword == ")"
        c.expect("=")
        value = c.until(_next_comma(c))
        found.extend(_row_assignments(columns, value) if several else (_assignment(columns, value),))
        if not c.take(","):
            break
    c.done()
    return tuple(found)


def _assignment(columns: tuple[str, ...], value: Cursor) -> Assignment:
    return Assignment(columns, _expression(value, "an expression"))


def _row_assignments(columns: tuple[str, ...], value: Cursor) -> list[Assignment]:
    """`(a, b) = (1, 2)`, `= ROW(1, 2)` or `= (SELECT ...)`."""
    start = value.position
    is_row = value.take("ROW")
    if not value.at("("):
        value.fail("a row such as (1, 2), ROW(1, 2) or (SELECT ...)")
    inside = value.group()
    value.done()
    if not is_row and _is_subquery(inside):
        value.position = start
        return [Assignment(columns, value.rest("a query"))]
    items = _items(inside)
    if len(items) != len(columns):
        counts = f"{_counted(len(columns), 'column')} but {_counted(len(items), 'value')}"
        raise SqlSyntaxError(counts, position=value.tokens[start].offset)
    return [Assignment((column,), item) for column, item in zip(columns, items, strict=True)]


def _is_subquery(c: Cursor) -> bool:
    """Tells `SELECT 1, 2` and `(SELECT 1, 2) UNION SELECT 3, 4` from the row `(SELECT 1), 2`."""
    if not c.at_query():
        return False
    return not c.at("(") or _next_comma(c) == c.stop or c.find("UNION", "INTERSECT", "EXCEPT") < c.stop


def _counted(count: int, noun: str) -> str:
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def _next_comma(c: Cursor) -> int:
    return next((i for i in c.top_level() if c.tokens[i].keyword == ","), c.stop)


def _items(c: Cursor) -> list[Slice]:
    """The expressions between commas that fill the cursor."""
    items = [_expression(c.until(_next_comma(c)), "an expression")]
    while c.take(","):
        items.append(_expression(c.until(_next_comma(c)), "an expression"))
    return items


def _where(c: Cursor) -> Slice | None:
    if not c.take("WHERE"):
        return None
    return _expression(c.until(c.find("RETURNING")), "a condition")


def _returning(c: Cursor) -> Slice | None:
    """The rest of the statement, if it is a RETURNING clause."""
    if not c.take("RETURNING"):
        return None
    return _clause(c, c.stop, "columns", _NEVER_IN_EXPRESSION)


def _expression(c: Cursor, what: str) -> Slice:
    """One expression that fills the cursor."""
    comma = _next_comma(c)
    found = _clause(c, comma, what, _NEVER_IN_EXPRESSION)
    c.done()
    return found


def _clause(c: Cursor, stop: int, what: str, never: frozenset[str]) -> Slice:
    """The text up to `stop`, refused if it has a keyword at depth zero that cannot belong to it."""
    part = c.until(stop)
    stray = part.find(*never)
    if part.position < stray < part.stop:
        part.position = stray
        part.done()
    if stray == part.position:
        part.fail(what)
    return part.rest(what)
