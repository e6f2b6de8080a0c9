"""An empty copy of a flow's relations in the private PostgreSQL: the statements that bring it up to date.

A view's columns are NULLs of the right types there, whatever its query is: our SQL is DuckDB's, and its types are
ours. What pg_get_viewdef gives is our text (see prelude.py). Relations keep their numbers (oids) while they exist.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from penstock.base.errors import TypeMismatch
from penstock.engine.access import PUBLIC, SCHEMA, SUPERUSER, Access, Role
from penstock.engine.outline import ColumnOutline, Outline, RelationOutline
from penstock.gateway.catalog.classify import is_expression
from penstock.gateway.types import column_type

_NAME_BYTES_MAX, _COLUMNS_MAX = 63, 1_600  # PostgreSQL's own limits
_KINDS = {"table": "TABLE", "view": "VIEW", "materialized view": "MATERIALIZED VIEW"}


def changes(old: Outline | None, new: Outline) -> Iterator[str]:
    """The statements that turn the copy of one outline into that of another."""
    before = {r.id: r for r in old.relations} if old else {}
    after = {r.id: r for r in new.relations}
    known = old.access if old else Access(roles={}, grants={})
    for relation in before.values():
        if after.get(relation.id) != relation:
            yield f"DROP {_KINDS[relation.kind]} {_qualified(relation)}"
            yield f"DELETE FROM pg_catalog.penstock_definition WHERE id = {relation.id}"
    yield from _schemas(before.values(), after.values())
    if new.access is not known:
        yield from _roles(known, new.access)
    for relation in after.values():
        made = before.get(relation.id) != relation
        if made:
            yield from _create(relation)
        if made or _rights(known, relation.id) != _rights(new.access, relation.id):
            yield from _grant(relation, known if not made else Access(roles={}, grants={}), new.access)
    if _rights(known, SCHEMA) != _rights(new.access, SCHEMA):
        yield from _grant_schema(known, new.access)
    for name in known.roles:
        if name not in new.access.roles:
            yield f"DROP OWNED BY {_quoted(name)}"
            yield f"DROP ROLE {_quoted(name)}"


def _schemas(before: Iterable[RelationOutline], after: Iterable[RelationOutline]) -> Iterator[str]:
    for name in sorted({r.schema for r in after} - {r.schema for r in before} - {"public"}):
        yield f"CREATE SCHEMA IF NOT EXISTS {_quoted(name)}"
        yield f"GRANT USAGE ON SCHEMA {_quoted(name)} TO PUBLIC"


# -- relations ---------------------------------------------------------------------------------------


def _create(relation: RelationOutline) -> Iterator[str]:
    shown = relation.columns[:_COLUMNS_MAX]
    columns = list(zip(_names(shown), shown, strict=True))
    name = _qualified(relation)
    if relation.kind == "table":
        parts = [f"{_quoted(n)} {_type(c.type)}{' NOT NULL' if c.not_null else ''}" for n, c in columns]
        if relation.key:
            parts.append(f"PRIMARY KEY ({', '.join(_quoted(columns[i][0]) for i in relation.key)})")
        yield f"CREATE TABLE {name} ({', '.join(parts)})"
        for n, column in columns:
            if column.default is not None and is_expression(column.default):
                yield _if_it_can(f"ALTER TABLE {name} ALTER COLUMN {_quoted(n)} SET DEFAULT {column.default}")
        for check in filter(is_expression, relation.checks):
            yield _if_it_can(f"ALTER TABLE {name} ADD CHECK ({check})")
        return
    items = ", ".join(f"NULL::{_type(c.type)} AS {_quoted(n)}" for n, c in columns)
    yield f"CREATE {_KINDS[relation.kind]} {name} AS SELECT {items} WHERE false"
    yield (
        "INSERT INTO pg_catalog.penstock_definition VALUES "
        f"({relation.id}, {text(name)}::regclass, {text(relation.definition or '')})"
    )


def _if_it_can(statement: str) -> str:
    """A statement with an expression of ours: one that PostgreSQL cannot read is only missing from the copy."""
    return f"DO {text(f'BEGIN EXECUTE {text(statement)}; EXCEPTION WHEN OTHERS THEN NULL; END')}"


def _names(columns: tuple[ColumnOutline, ...]) -> list[str]:
    """Names as PostgreSQL can have them: of a limited length, and none twice."""
    names: list[str] = []
    for column in columns:
        name = wanted = _cut(column.name, _NAME_BYTES_MAX) or "?column?"
        number = 0
        while name in names:
            number += 1
            name = f"{_cut(wanted, _NAME_BYTES_MAX - len(f'_{number}'))}_{number}"
        names.append(name)
    return names


def _cut(name: str, bytes_max: int) -> str:
    return name.encode()[:bytes_max].decode(errors="ignore")


def _type(duck: str) -> str:
    """
    >>> _type("DECIMAL(12,2)[]"), _type("HUGEINT"), _type("TIMESTAMP WITH TIME ZONE"), _type("BIT")
    ('numeric(12,2)[]', 'numeric', 'timestamptz', 'text')
    """
    try:
        found = column_type(duck)
    except TypeMismatch:
        return "text"  # the column cannot be sent; as a cast to text it can
    size = ""
    if found.pg.name == "numeric" and found.modifier >= 4:
        size = f"({(found.modifier - 4) >> 16},{(found.modifier - 4) & 0xFFFF})"
    return f"{found.pg.name}{size}{'[]' * found.depth}"


# -- roles and rights --------------------------------------------------------------------------------


def _roles(old: Access, new: Access) -> Iterator[str]:
    """Every role may connect here, and none is a superuser: what pg_roles shows is in a table of ours."""
    for role in new.roles.values():
        before = old.roles.get(role.name)
        if before == role:
            continue
        if before is None:
            yield f"CREATE ROLE {_quoted(role.name)} LOGIN"
        yield f"DELETE FROM pg_catalog.penstock_role WHERE name = {text(role.name)}"
        yield (
            f"INSERT INTO pg_catalog.penstock_role VALUES "
            f"({text(role.name)}, {str(role.superuser).lower()}, {str(role.login).lower()})"
        )
    for role in new.roles.values():
        yield from _memberships(old.roles.get(role.name), role, new)
    if SUPERUSER not in old.roles:
        yield f"ALTER DATABASE penstock OWNER TO {_quoted(SUPERUSER)}"
    for name in old.roles:
        if name not in new.roles:
            yield f"DELETE FROM pg_catalog.penstock_role WHERE name = {text(name)}"


def _memberships(old: Role | None, new: Role, access: Access) -> Iterator[str]:
    before = old.member_of if old else frozenset()
    for name in sorted(new.member_of - before):
        yield f"GRANT {_quoted(name)} TO {_quoted(new.name)}"
    for name in sorted(before - new.member_of):
        if name in access.roles:
            yield f"REVOKE {_quoted(name)} FROM {_quoted(new.name)}"


def _rights(access: Access, object: int) -> object:
    return access.owner(object), dict(access.grants.get(object, {}))


def _grant(relation: RelationOutline, old: Access, new: Access) -> Iterator[str]:
    name = _qualified(relation)
    if relation.schema != "public":
        yield f"GRANT SELECT ON {name} TO PUBLIC"
    yield f"ALTER {_KINDS[relation.kind]} {name} OWNER TO {_quoted(new.owner(relation.id))}"
    for role, given in old.grants.get(relation.id, {}).items():
        if role in new.roles or role == PUBLIC:
            yield f"REVOKE {', '.join(sorted(given))} ON {name} FROM {_grantee(role)}"
    for role, given in new.grants.get(relation.id, {}).items():
        yield f"GRANT {', '.join(sorted(given))} ON {name} TO {_grantee(role)}"


def _grant_schema(old: Access, new: Access) -> Iterator[str]:
    for role in old.grants.get(SCHEMA, {}):
        if role in new.roles or role == PUBLIC:
            yield f"REVOKE ALL ON SCHEMA public FROM {_grantee(role)}"
    for role, given in new.grants.get(SCHEMA, {}).items():
        yield f"GRANT {', '.join(sorted(given))} ON SCHEMA public TO {_grantee(role)}"


def _grantee(role: str) -> str:
    return "PUBLIC" if role == PUBLIC else _quoted(role)


# -- words -------------------------------------------------------------------------------------------


def _qualified(relation: RelationOutline) -> str:
    name = relation.name
    if len(name.encode()) > _NAME_BYTES_MAX:  # two of them may begin alike
        name = f"{_cut(name, 48)}_{relation.id}"
    return f"{_quoted(relation.schema)}.{_quoted(name)}"


def _quoted(name: str) -> str:
    return '"' + name.replace("\0", "").replace('"', '""') + '"'


def text(value: str) -> str:
    """
    >>> print(text("it's"))
    'it''s'
    """
    return "'" + value.replace("\0", "").replace("'", "''") + "'"
