"""Which rights a statement needs, and whether a role has them; `access.allowed` decides on each.

A query needs SELECT on every relation that its text names, and on nothing behind views. Names are taken as they
stand, also those that a WITH gives to something else: to ask for a right too many is safe.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from penstock.base.errors import InsufficientPrivilege
from penstock.base.limits import REMEMBERED_QUERIES_MAX
from penstock.engine.access import SCHEMA, Access, allowed
from penstock.engine.catalog import Catalog, Relation
from penstock.engine.core import Core
from penstock.engine.read import DATA_NAME
from penstock.engine.system import SCHEMA as SYSTEM
from penstock.sql import statements as st
from penstock.sql.access_statements import ACCESS_STATEMENTS
from penstock.sql.parse_dml import values_rows
from penstock.sql.tokens import fold

# Functions of DuckDB that run a text or read a relation that is named in one.
_INDIRECT = frozenset(("query", "query_table", "json_execute_serialized_sql"))
# Of the schema `penstock` everybody may read the others.
_OF_SUPERUSERS = frozenset(("audit_log",))
_MAY_READ = re.compile(r"\b(?:select|from|table|pivot|unpivot|summarize|describe|show|join)\b", re.IGNORECASE)
_FREE = (
    st.Begin, st.Commit, st.Rollback, st.Savepoint, st.Release, st.RollbackTo, st.Show, *ACCESS_STATEMENTS,
)  # fmt: skip
_WITH_QUERY = (
    st.CreateTableAs, st.CreateView, st.CreateMaterializedView, st.Explain, st.ExplainIncremental,
)  # fmt: skip
_CREATES = (st.CreateTable, st.CreateTableAs, st.CreateView, st.CreateMaterializedView)


@dataclass(frozen=True)
class Named:
    """What a text names, in folded names; `unclear`: it cannot be told, so it may be everything."""

    relations: frozenset[tuple[str, str]] = frozenset()  # with the schema, or ""
    indirect: bool = False
    unclear: bool = False


class Rights:
    """Checks the statements of one session. What texts name is remembered: they come again."""

    def __init__(self) -> None:
        self._known: dict[str, Named] = {}

    def check(self, core: Core, role: str | None, s: st.Statement) -> None:
        """Raise InsufficientPrivilege unless the role may run the statement."""
        access = core.catalog.access
        if role is None or access.is_superuser(role) or isinstance(s, _FREE):
            return
        for action, name in _direct(core.catalog, s):
            relation = core.catalog.find(name) if name else None
            if relation is not None:
                require(access, role, action, relation)
            elif not name and not allowed(access, role, action, SCHEMA):
                raise InsufficientPrivilege("permission denied for schema public")
        stand_ins = {fold(item.stands_for) for item in s.as_of}
        for text in _texts(s):
            self._check_text(core, access, role, text, stand_ins)

    def _check_text(self, core: Core, access: Access, role: str, text: str, stand_ins: set[str]) -> None:
        named = self._named(core, text)
        if named.indirect:
            raise InsufficientPrivilege(
                "permission denied: query() and its like are for superusers",
                hint="Name the tables in the query.",
            )
        if named.unclear:
            for relation in core.catalog:
                require(access, role, "select", relation)
        for schema, name in named.relations:
            if name in stand_ins:
                continue
            if schema == SYSTEM:
                if name in _OF_SUPERUSERS:
                    raise InsufficientPrivilege(
                        f"permission denied for {schema}.{name}", hint="It is for superusers."
                    )
                continue
            found = core.catalog.find(name)
            if found is not None:
                require(access, role, "select", found)
            elif name.startswith(DATA_NAME):  # how rows are kept for the reader: not a name for others
                raise InsufficientPrivilege(f'permission denied for "{name}"')

    def _named(self, core: Core, text: str) -> Named:
        found = self._known.get(text)
        if found is None:
            if len(self._known) >= REMEMBERED_QUERIES_MAX:
                self._known.clear()
            found = self._known[text] = _named(core.binder.named, text)
        return found


def require(access: Access, role: str | None, action: str, relation: Relation) -> None:
    """Raise InsufficientPrivilege unless a role may do something with a relation."""
    if allowed(access, role, action, relation.id) and (
        action == "own" or allowed(access, role, "usage", SCHEMA) or access.owner(relation.id) == role
    ):
        return
    if action == "own":
        raise InsufficientPrivilege(f"must be owner of {relation.kind} {relation.name}")
    raise InsufficientPrivilege(
        f"permission denied for {relation.kind} {relation.name}",
        hint=f"Its owner, {access.owner(relation.id)}, can GRANT {action.upper()} ON it.",
    )


def _named(parse: Callable[[str], tuple[set[tuple[str, str]], set[str]] | None], text: str) -> Named:
    if not _MAY_READ.search(text):
        return Named()
    found = parse(text)
    if found is None:
        return Named(unclear=True)
    relations, functions = found
    folded = frozenset((fold(schema), fold(name)) for schema, name in relations)
    return Named(folded, not _INDIRECT.isdisjoint(functions))


def _direct(catalog: Catalog, s: st.Statement) -> Iterator[tuple[str, str]]:
    """Actions, each with the relation that it is done to; "" is the schema."""
    for item in s.as_of:
        yield "select", item.relation
    if isinstance(s, (st.Insert, st.Update, st.Delete)):
        yield type(s).__name__.lower(), s.table
        reads = s.returning is not None
        if isinstance(s, st.Insert):
            if s.on_conflict is not None and s.on_conflict.action == "update":
                yield "update", s.table
        else:
            reads = reads or s.where is not None
        if reads:
            yield "select", s.table
    elif isinstance(s, st.Truncate):
        for name in s.tables:
            yield "truncate", name
    elif isinstance(s, _CREATES):
        exists = catalog.find(s.name) is not None
        if exists and s.or_replace:
            yield "own", s.name
        if not (exists and s.if_not_exists):
            yield "create", ""
    elif isinstance(s, st.Drop):
        for name in s.names:
            yield "own", name
    elif isinstance(s, st.AlterMaterializedView):
        yield "own", s.name
    elif isinstance(s, (st.Subscribe, st.ExplainIncremental)) and s.name:
        yield "select", s.name
    elif not isinstance(s, (st.Query, st.Explain, st.ExplainIncremental, st.Describe)):
        raise InsufficientPrivilege(f"permission denied: {type(s).__name__} is for superusers")


def _texts(s: st.Statement) -> Iterator[str]:
    """Queries that name what the statement reads."""
    if isinstance(s, st.Query):
        yield s.text.text
    elif isinstance(s, _WITH_QUERY):
        if s.query is not None:
            yield s.query.text
    elif isinstance(s, (st.Insert, st.Update, st.Delete)):
        if s.with_text is not None:
            yield f"{s.with_text.text} SELECT 1"
        if s.returning is not None:
            yield f"SELECT {s.returning.text}"
        yield from _change_texts(s)


def _change_texts(s: st.Insert | st.Update | st.Delete) -> Iterator[str]:
    if isinstance(s, st.Insert):
        rows = values_rows(s.source) if s.has_default else None
        if rows is not None:
            yield from (f"SELECT {v.text}" for row in rows for v in row if fold(v.text) != "default")
        elif not s.default_values and _MAY_READ.search(s.source.text):  # plain values name nothing
            yield f"SELECT * FROM ({s.source.text})"
        assignments = s.on_conflict.assignments if s.on_conflict else ()
        where, tables = s.on_conflict.where if s.on_conflict else None, None
    elif isinstance(s, st.Update):
        assignments, where, tables = s.assignments, s.where, s.from_text
    else:
        assignments, where, tables = (), s.where, s.using_text
    yield from (f"SELECT {a.expression}" for a in assignments if not a.is_default)
    if where is not None:
        yield f"SELECT 1 WHERE {where.text}"
    if tables is not None:
        yield f"SELECT 1 FROM {tables.text}"
