"""CREATE and DROP of tables, views and materialized views."""

from __future__ import annotations

from typing import NoReturn

from penstock.base.errors import SqlSyntaxError
from penstock.sql.cursor import Cursor
from penstock.sql.options import parse_options
from penstock.sql.parameters import read_parameters
from penstock.sql.statements import (
    CreateMaterializedView,
    CreateTable,
    CreateTableAs,
    CreateView,
    Drop,
    Slice,
    Statement,
)


def parse_create(c: Cursor, text: Slice) -> Statement:
    c.expect("CREATE")
    or_replace = c.take("OR", "REPLACE")
    if c.keyword() in ("TEMP", "TEMPORARY", "LOCAL", "GLOBAL", "UNLOGGED"):
        _refuse(c, f"{c.keyword()} tables and views do not exist here", "Leave the word out.")
    if c.at("RECURSIVE", "VIEW"):
        _refuse(c, "CREATE RECURSIVE VIEW does not exist here", "Write CREATE VIEW ... AS WITH RECURSIVE ...")
    if c.take("TABLE"):
        return _create_table(c, text, or_replace)
    if c.take("VIEW"):
        return _create_view(c, text, or_replace, materialized=False)
    if not c.take("MATERIALIZED"):
        c.fail("TABLE, VIEW or MATERIALIZED VIEW")
    c.expect("VIEW")
    return _create_view(c, text, or_replace, materialized=True)


def parse_drop(c: Cursor, text: Slice) -> Statement:
    c.expect("DROP")
    if c.take("TABLE"):
        kind = "table"
    elif c.take("VIEW"):
        kind = "view"
    elif c.take("MATERIALIZED"):
        c.expect("VIEW")
        kind = "materialized view"
    else:
        c.fail("TABLE, VIEW or MATERIALIZED VIEW")
    if_exists = c.take("IF", "EXISTS")
    names = c.object_names(f"the name of a {kind}")
    cascade = c.take("CASCADE")
    if not cascade:
        c.take("RESTRICT")
    return Drop(text, read_parameters(c.tokens), kind, names, if_exists, cascade)


def _create_table(c: Cursor, text: Slice, or_replace: bool) -> Statement:
    if_not_exists = _if_not_exists(c, or_replace)
    name, offset = c.object_name("a table name")
    if not c.at("(") and not c.at("AS") and not c.at("WITH", "("):
        c.fail("( or AS")
    after = c.closing(c.position) + 1 if c.at("(") else c.position
    then = c.closing(after + 1) + 1 if c.at_index(after, "WITH", "(") else after
    if c.at_index(then, "AS"):
        columns = c.column_list() if c.at("(") else None
        options = parse_options(c) if c.take("WITH") else {}
        c.expect("AS")
        query, with_data = _query_and_data(c)
        parameters = read_parameters(c.tokens)
        return CreateTableAs(
            text, parameters, name, offset, or_replace, if_not_exists, columns, query, with_data, options
        )
    _refuse_parameters(c)
    body = c.slice(after, "( or AS")
    options = parse_options(c) if c.take("WITH") else {}
    return CreateTable(text, (), name, offset, or_replace, if_not_exists, body, options)


def _create_view(c: Cursor, text: Slice, or_replace: bool, *, materialized: bool) -> Statement:
    if_not_exists = _if_not_exists(c, or_replace)
    name, offset = c.object_name("the name of a view")
    columns = c.column_list() if c.at("(") else None
    options = parse_options(c) if materialized and c.take("WITH") else {}
    c.expect("AS")
    _refuse_parameters(c)
    if not materialized:
        return CreateView(text, (), name, offset, or_replace, if_not_exists, columns, c.query())
    query, with_data = _query_and_data(c)
    if not with_data:
        hint = "A materialized view always has its rows: leave WITH NO DATA out."
        raise SqlSyntaxError(
            "a materialized view WITH NO DATA does not exist here", hint=hint, position=query.end
        )
    return CreateMaterializedView(text, (), name, offset, or_replace, if_not_exists, columns, query, options)


def _if_not_exists(c: Cursor, or_replace: bool) -> bool:
    if or_replace and c.at("IF", "NOT", "EXISTS"):
        _refuse(c, "OR REPLACE and IF NOT EXISTS exclude each other", "Write one of the two.")
    return c.take("IF", "NOT", "EXISTS")


def _query_and_data(c: Cursor) -> tuple[Slice, bool]:
    """The query up to the end, and whether it ends in WITH DATA (or nothing) or WITH NO DATA."""
    for words, with_data in ((("WITH", "NO", "DATA"), False), (("WITH", "DATA"), True)):
        start = c.stop - len(words)
        if start > c.position and c.at_index(start, *words) and c.is_clause(start):
            query = c.until(start).query()
            c.expect(*words)
            return query, with_data
    return c.query(), True


def _refuse(c: Cursor, message: str, hint: str) -> NoReturn:
    raise SqlSyntaxError(message, hint=hint, position=c.tokens[c.position].offset)


def _refuse_parameters(c: Cursor) -> None:
    """What is stored in the catalog is text, so there is nothing to bind a value to later."""
    for parameter in read_parameters(c.tokens):
        message = f'a table or view cannot have the parameter "{parameter.text}"'
        raise SqlSyntaxError(message, hint="Write the value itself.", position=parameter.offset)
