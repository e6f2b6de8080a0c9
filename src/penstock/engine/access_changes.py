"""CREATE ROLE, GRANT and the like, carried out; and who owns what CREATE makes."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

from penstock.base.errors import (
    DependentObjects,
    DuplicateRole,
    InsufficientPrivilege,
    InvalidOption,
    UndefinedRole,
)
from penstock.engine.access import (
    PUBLIC,
    RELATION_PRIVILEGES,
    SCHEMA,
    SCHEMA_PRIVILEGES,
    SUPERUSER,
    Access,
    Role,
    allowed,
)
from penstock.engine.catalog import Catalog
from penstock.engine.passwords import to_keep
from penstock.engine.rights import require
from penstock.sql import access_statements as st
from penstock.sql.statements import Statement


def change_access(catalog: Catalog, s: st.AccessStatement, role: str | None) -> str:
    """Carry a statement out for a role; its tag."""
    access = catalog.access
    if isinstance(s, st.Rights):
        changed, tag = _rights(catalog, s, role), "GRANT" if s.gives else "REVOKE"
    elif isinstance(s, st.AlterRole):
        changed, tag = _alter(access, s, role), "ALTER ROLE"
    else:
        if role is not None and not access.is_superuser(role):
            raise InsufficientPrivilege(
                "permission denied: roles are made and changed by superusers", hint=f"Ask {SUPERUSER}."
            )
        if isinstance(s, st.CreateRole):
            changed, tag = _create(access, s), "CREATE ROLE"
        elif isinstance(s, st.DropRole):
            changed, tag = _drop(catalog, s, role), "DROP ROLE"
        elif isinstance(s, st.Membership):
            changed, tag = _membership(access, s), "GRANT ROLE" if s.gives else "REVOKE ROLE"
        else:
            changed, tag = _reassign(access, s), "REASSIGN OWNED"
    if changed != access:
        catalog.access = changed
        catalog.changes += 1
    return tag


@contextmanager
def owning(catalog: Catalog, s: Statement, role: str | None) -> Iterator[None]:
    """Around a statement that makes or drops relations: what it makes belongs to the role, and what takes the place
    of another has its owner and its grants."""
    old = catalog.find(getattr(s, "name", ""))
    before = catalog.last_id
    yield
    access = catalog.access
    made = catalog.find(getattr(s, "name", ""))
    if made is not None and made.id > before:
        if old is not None:
            access = access.owned_by(made.id, access.owner(old.id))
            for name, given in access.grants.get(old.id, {}).items():
                access = access.granted(made.id, name, given)
        elif role is not None:
            access = access.owned_by(made.id, role)
    access = access.only(frozenset(r.id for r in catalog))
    if access != catalog.access:
        catalog.access = access


# -- roles -------------------------------------------------------------------------------------------


def role_named(access: Access, name: str) -> Role:
    found = access.roles.get(name)
    if found is None:
        raise UndefinedRole(f'role "{name}" does not exist')
    return found


def _create(access: Access, s: st.CreateRole) -> Access:
    if s.name in access.roles:
        raise DuplicateRole(f'role "{s.name}" already exists')
    groups = frozenset(role_named(access, name).name for name in s.member_of)
    return access.with_role(_with_options(Role(s.name, member_of=groups), s.options))


def _alter(access: Access, s: st.AlterRole, role: str | None) -> Access:
    only_password = s.options.login is None and s.options.superuser is None
    if role is not None and not access.is_superuser(role) and not (role == s.name and only_password):
        raise InsufficientPrivilege(
            "permission denied to alter role",
            hint="One may change one's own password; the rest is for superusers.",
        )
    changed = _with_options(role_named(access, s.name), s.options)
    if s.name == SUPERUSER and not changed.superuser:
        raise InvalidOption(f'the role "{SUPERUSER}" is a superuser and stays one', hint="It can be NOLOGIN.")
    after = access.with_role(changed)
    if not any(r.superuser and r.login for r in after.roles.values()):
        raise InvalidOption(
            f'without "{s.name}" no superuser could log in any more', hint="Let another one log in first."
        )
    return after


def _with_options(role: Role, options: st.RoleOptions) -> Role:
    if options.login is not None:
        role = replace(role, login=options.login)
    if options.superuser is not None:
        role = replace(role, superuser=options.superuser)
    if options.clears_password:
        role = replace(role, verifier=None)
    if options.password is not None:
        role = replace(role, verifier=to_keep(options.password))
    return role


def _drop(catalog: Catalog, s: st.DropRole, role: str | None) -> Access:
    access = catalog.access
    for name in s.names:
        if name not in access.roles and s.if_exists:
            continue
        role_named(access, name)
        if name in (SUPERUSER, role):
            raise InvalidOption(f'the role "{name}" cannot be dropped', hint="It is in use.")
        owned = [found.name for o in access.owned(name) if (found := catalog.by_id(o)) is not None]
        if owned:
            raise DependentObjects(
                f'role "{name}" cannot be dropped: it owns {", ".join(sorted(owned)[:5])}',
                hint=f"REASSIGN OWNED BY {name} TO {SUPERUSER}.",
            )
        access = access.without_role(name)
    return access


def _membership(access: Access, s: st.Membership) -> Access:
    groups = frozenset(role_named(access, name).name for name in s.roles)
    for name in s.members:
        member = role_named(access, name)
        loops = [g for g in groups if name in access.names_of(g)]
        if s.gives and loops:
            raise InvalidOption(f'role "{name}" is a member of role "{loops[0]}", or would be of itself')
        changed = member.member_of | groups if s.gives else member.member_of - groups
        access = access.with_role(replace(member, member_of=changed))
    return access


def _reassign(access: Access, s: st.ReassignOwned) -> Access:
    role_named(access, s.to)
    for owner in s.owners:
        role_named(access, owner)
        for object in list(access.owned(owner)):
            access = access.owned_by(object, s.to)
    return access


# -- rights ------------------------------------------------------------------------------------------


def _rights(catalog: Catalog, s: st.Rights, role: str | None) -> Access:
    access = catalog.access
    if s.on == "schema":
        if not allowed(access, role, "own", SCHEMA):
            raise InsufficientPrivilege("permission denied for schema public")
        objects, known = [SCHEMA], frozenset(SCHEMA_PRIVILEGES)
    else:
        relations = list(catalog) if s.on == "all relations" else [catalog.get(name) for name in s.names]
        for relation in relations:
            require(access, role, "own", relation)
        objects, known = [r.id for r in relations], frozenset(RELATION_PRIVILEGES)
    privileges = known if s.privileges is None else frozenset(s.privileges)
    for name in s.roles:
        if name != PUBLIC:
            role_named(access, name)
        for object in objects:
            change = access.granted if s.gives else access.revoked
            access = change(object, name, privileges)
    return access
