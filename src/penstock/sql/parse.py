"""SQL text to statements: the part of the grammar that is ours and not DuckDB's.

A text is cut at its semicolons, each statement is recognised by its first words and taken apart
into names and clauses. Queries and expressions stay text, which DuckDB reads later; so this knows
keywords, brackets and commas, and no operators, no types and no functions.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

from penstock.base.errors import SqlSyntaxError
from penstock.sql.as_of import check_place, has_as_of, take_out
from penstock.sql.cursor import Cursor
from penstock.sql.parameters import read_parameters
from penstock.sql.parse_access import (
    parse_alter_role,
    parse_create_role,
    parse_drop_role,
    parse_grant,
    parse_reassign,
)
from penstock.sql.parse_alter import parse_alter_system, parse_alter_view
from penstock.sql.parse_ddl import parse_create, parse_drop
from penstock.sql.parse_dml import parse_delete, parse_insert, parse_truncate, parse_update, parse_with
from penstock.sql.parse_inspect import parse_describe, parse_explain, parse_explain_incremental, parse_show
from penstock.sql.parse_subscribe import parse_subscribe
from penstock.sql.statements import (
    Begin,
    Commit,
    Query,
    Release,
    Rollback,
    RollbackTo,
    Savepoint,
    Slice,
    Statement,
)
from penstock.sql.tokens import Token, fold, tokenize


def parse(sql: str) -> list[Statement]:
    """The statements of a text, at least one.

    >>> [type(statement).__name__ for statement in parse("BEGIN; DELETE FROM t WHERE s = ';'; COMMIT")]
    ['Begin', 'Delete', 'Commit']
    >>> statement, = parse("UPDATE t SET a = b IS DISTINCT FROM c FROM u WHERE u.id = $1")
    >>> str(statement.assignments[0].value), str(statement.from_text), statement.parameter_count
    ('b IS DISTINCT FROM c', 'u', 1)
    """
    try:
        sql.encode()
    except UnicodeEncodeError as error:  # DuckDB would not say what is wrong with it
        raise SqlSyntaxError(
            "the text has half of a surrogate pair, which is no character", position=error.start
        ) from None
    statements = [_parse_one(cursor) for cursor in _split(sql)]
    if not statements:
        raise SqlSyntaxError("the text has no statement", hint=_HINT, position=0)
    return statements


def _split(sql: str) -> Iterator[Cursor]:
    """A cursor for each statement; empty ones are left out."""
    tokens: list[Token] = []
    for token in tokenize(sql):
        if token.keyword == ";":
            if tokens:
                yield Cursor(sql, tokens, token.offset)
            tokens = []
        elif token.kind not in ("space", "comment"):
            tokens.append(token)
    if tokens:
        yield Cursor(sql, tokens, tokens[-1].end)


def split(sql: str) -> list[Slice]:
    """The texts of the statements, whatever they are; empty ones are left out.

    >>> [str(piece) for piece in split("SELECT ';'; ; FETCH 5 FROM c -- all")]
    ["SELECT ';'", 'FETCH 5 FROM c']
    """
    cursors = list(_split(sql))
    return [Slice(sql[c.tokens[0].offset : c.tokens[-1].end], c.tokens[0].offset) for c in cursors]


def one_query(sql: str) -> Slice:
    """The text of the only statement, which is a query. Raises SqlSyntaxError for anything else.

    Whoever puts a query behind words of their own asks this first: what followed its semicolon would run as well.

    >>> str(one_query("SELECT 1 AS a; -- one"))
    'SELECT 1 AS a'
    """
    statements = parse(sql)
    hint = "Give one query: SELECT, or WITH, VALUES, FROM or TABLE."
    if len(statements) > 1:
        message = f"one query is wanted, and the text has {len(statements)} statements"
        raise SqlSyntaxError(message, hint=hint, position=statements[1].text.offset)
    if not isinstance(statements[0], Query):
        first = split(sql)[0].text.split(maxsplit=1)[0]
        raise SqlSyntaxError(f"a query is wanted, and this is {first.upper()}", hint=hint, position=0)
    return split(sql)[0]


def _parse_one(c: Cursor) -> Statement:
    if c.at("SUBSCRIBE") or not has_as_of(c.tokens):
        return _parse_plain(c)
    c, as_of = take_out(c)
    statement = replace(_parse_plain(c), as_of=as_of)
    check_place(statement)
    return statement


def _parse_plain(c: Cursor) -> Statement:
    start = c.tokens[0].offset
    text = Slice(c.whole[start : c.tokens[-1].end], start)
    for words, function in STATEMENTS:
        if c.at(*words):
            statement = function(c, text)
            c.done()
            return statement
    first = " ".join(token.text for token in c.tokens[:3] if token.kind in ("word", "quoted"))
    message = f'"{first or c.tokens[0].text[:40]}" does not begin a statement'
    raise SqlSyntaxError(message, hint=_HINT, position=start)


def parse_query(c: Cursor, text: Slice) -> Statement:
    query = c.query()
    return Query(query, read_parameters(c.tokens))


def parse_after_with(c: Cursor, text: Slice) -> Statement:
    """WITH stands before a query or before INSERT, UPDATE and DELETE."""
    with_text = parse_with(c)
    for verb, function in (("INSERT", parse_insert), ("UPDATE", parse_update), ("DELETE", parse_delete)):
        if c.at(verb):
            return function(c, text, with_text)
    if not c.at_query():
        c.fail("a query, INSERT, UPDATE or DELETE")
    c.position = 0
    return parse_query(c, text)


def parse_begin(c: Cursor, text: Slice) -> Statement:
    if c.take("START"):
        c.expect("TRANSACTION")
    else:
        c.expect("BEGIN")
        _transaction_word(c)
    modes: list[str] = []
    while not c.at_end:
        words = next((words for words in _MODES if c.take(*words)), None)
        if words is None:
            c.fail("READ ONLY, READ WRITE or ISOLATION LEVEL")
        modes.append(" ".join(words).lower())
        if c.take(",") and c.at_end:
            c.fail("READ ONLY, READ WRITE or ISOLATION LEVEL")
    return Begin(text, (), tuple(modes))


def parse_commit(c: Cursor, text: Slice) -> Statement:
    if not c.take("END"):
        c.expect("COMMIT")
    _transaction_word(c)
    return Commit(text, ())


def parse_rollback(c: Cursor, text: Slice) -> Statement:
    if not c.take("ABORT"):
        c.expect("ROLLBACK")
    _transaction_word(c)
    if c.take("TO"):
        c.take("SAVEPOINT")
        return RollbackTo(text, (), fold(c.identifier("the name of a savepoint")))
    return Rollback(text, ())


def parse_savepoint(c: Cursor, text: Slice) -> Statement:
    c.expect("SAVEPOINT")
    return Savepoint(text, (), fold(c.identifier("the name of a savepoint")))


def parse_release(c: Cursor, text: Slice) -> Statement:
    c.expect("RELEASE")
    c.take("SAVEPOINT")
    return Release(text, (), fold(c.identifier("the name of a savepoint")))


def _transaction_word(c: Cursor) -> None:
    if not c.take("TRANSACTION"):
        c.take("WORK")


# What each level means for a transaction is said in engine/session_transactions.py.
_MODES = (
    ("READ", "ONLY"),
    ("READ", "WRITE"),
    ("ISOLATION", "LEVEL", "SERIALIZABLE"),
    ("ISOLATION", "LEVEL", "REPEATABLE", "READ"),
    ("ISOLATION", "LEVEL", "READ", "COMMITTED"),
    ("ISOLATION", "LEVEL", "READ", "UNCOMMITTED"),
    ("NOT", "DEFERRABLE"),
    ("DEFERRABLE",),
)

# The first entry whose words stand at the beginning decides.
STATEMENTS: tuple[tuple[tuple[str, ...], Callable[[Cursor, Slice], Statement]], ...] = (
    (("SELECT",), parse_query),
    (("WITH",), parse_after_with),
    (("VALUES",), parse_query),
    (("FROM",), parse_query),
    (("TABLE",), parse_query),
    (("(",), parse_query),
    (("PIVOT",), parse_query),
    (("UNPIVOT",), parse_query),
    (("SUMMARIZE",), parse_query),
    (("INSERT",), parse_insert),
    (("UPDATE",), parse_update),
    (("DELETE",), parse_delete),
    (("TRUNCATE",), parse_truncate),
    (("BEGIN",), parse_begin),
    (("START",), parse_begin),
    (("COMMIT",), parse_commit),
    (("END",), parse_commit),
    (("ROLLBACK",), parse_rollback),
    (("ABORT",), parse_rollback),
    (("SAVEPOINT",), parse_savepoint),
    (("RELEASE",), parse_release),
    (("CREATE", "ROLE"), parse_create_role),
    (("CREATE", "USER"), parse_create_role),
    (("CREATE",), parse_create),
    (("DROP", "ROLE"), parse_drop_role),
    (("DROP", "USER"), parse_drop_role),
    (("DROP",), parse_drop),
    (("ALTER", "ROLE"), parse_alter_role),
    (("ALTER", "USER"), parse_alter_role),
    (("GRANT",), parse_grant),
    (("REVOKE",), parse_grant),
    (("REASSIGN",), parse_reassign),
    (("ALTER", "MATERIALIZED", "VIEW"), parse_alter_view),
    (("ALTER", "SYSTEM"), parse_alter_system),
    (("SHOW",), parse_show),
    (("DESCRIBE",), parse_describe),
    (("DESC",), parse_describe),
    (("EXPLAIN", "INCREMENTAL"), parse_explain_incremental),
    (("EXPLAIN",), parse_explain),
    (("SUBSCRIBE",), parse_subscribe),
)
_HINT = (
    "Statements: SELECT (also WITH, VALUES, FROM, TABLE), INSERT, UPDATE, DELETE, TRUNCATE, BEGIN, COMMIT, "
    "ROLLBACK, SAVEPOINT, CREATE TABLE, CREATE VIEW, CREATE MATERIALIZED VIEW, DROP, ALTER MATERIALIZED VIEW, "
    "ALTER SYSTEM, SHOW TABLES, SHOW VIEWS, DESCRIBE, "
    "EXPLAIN, EXPLAIN INCREMENTAL, SUBSCRIBE, CREATE ROLE, GRANT, REVOKE."
)
