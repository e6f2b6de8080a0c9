"""SHOW, DESCRIBE, EXPLAIN and EXPLAIN INCREMENTAL: statements that look and change nothing."""

from __future__ import annotations

from penstock.sql.cursor import Cursor
from penstock.sql.options import parse_options
from penstock.sql.parameters import read_parameters
from penstock.sql.statements import (
    Describe,
    Explain,
    ExplainIncremental,
    OptionValue,
    Show,
    Slice,
    Statement,
)
from penstock.sql.tokens import quote, string_value

_SHOWN = (("TABLES",), ("VIEWS",), ("MATERIALIZED", "VIEWS"), ("COLUMNS",))


def parse_show(c: Cursor, text: Slice) -> Statement:
    c.expect("SHOW")
    words = next((words for words in _SHOWN if c.take(*words)), None)
    if words is None:
        expected = "TABLES, VIEWS, MATERIALIZED VIEWS or COLUMNS FROM"
        c.fail(expected, hint="DESCRIBE shows the columns of one table or view.")
    name = like = None
    if words == ("COLUMNS",):
        if not c.take("IN"):
            c.expect("FROM")
        name, _ = c.object_name("the name of a table or view")
    if c.take("LIKE"):
        if c.at_end or c.tokens[c.position].kind != "string":
            c.fail("a pattern such as 'a%'")
        like = string_value(c.next())
    return Show(text, read_parameters(c.tokens), " ".join(words).lower(), name, like)


def parse_describe(c: Cursor, text: Slice) -> Statement:
    if not c.take("DESC"):
        c.expect("DESCRIBE")
    if c.at("PENSTOCK", "."):  # its relations have no entry in the catalog: they are described as queries
        start = c.offset
        c.position += 2
        relation = c.identifier("the name of a relation of schema penstock")
        columns = Slice(f"SELECT * FROM penstock.{quote(relation)}", start)
        return Describe(text, read_parameters(c.tokens), None, columns)
    name, query = _name_or_query(c)
    return Describe(text, read_parameters(c.tokens), name, query)


def parse_explain(c: Cursor, text: Slice) -> Statement:
    c.expect("EXPLAIN")
    options: dict[str, OptionValue] = {}
    if c.at("(") and not c.at_query():
        options = parse_options(c)
    else:
        for word in ("ANALYZE", "VERBOSE"):
            if c.take(word):
                options[word.lower()] = True
    if not c.at_query():
        c.fail("a query", hint="EXPLAIN takes a query, EXPLAIN INCREMENTAL a query or the name of a view.")
    return Explain(text, read_parameters(c.tokens), c.rest("a query"), options)


def parse_explain_incremental(c: Cursor, text: Slice) -> Statement:
    c.expect("EXPLAIN", "INCREMENTAL")
    estimate = c.take("(", "ESTIMATE", ")")
    # VIEW is not reserved: alone it is the name of a view.
    if (
        not c.take("MATERIALIZED", "VIEW")
        and c.at("VIEW")
        and c.position + 1 < c.stop
        and c.keyword(1) != "."
    ):
        c.take("VIEW")
    if estimate and c.at_query():
        c.fail("the name of a view", hint="What a change costs is measured: the view must be there.")
    name, query = _name_or_query(c)
    return ExplainIncremental(text, read_parameters(c.tokens), name, query, estimate)


def _name_or_query(c: Cursor) -> tuple[str | None, Slice | None]:
    if c.at_query():
        return None, c.rest("a query")
    return c.object_name("the name of a view or table, or a query")[0], None
