"""Roles and what they may do: one function, `allowed`, decides.

A superuser may do everything; the owner of a relation everything with it; everybody else what was granted to him, to
PUBLIC, or to a role that he is a member of. Whoever may read a view may read it without any right on what is behind
it: whoever made the view needed that.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace

SUPERUSER = "penstock"  # the role that every flow has
PUBLIC = "public"  # everybody
SCHEMA = 0  # stands for the schema in `Access.grants`, among the numbers of relations

RELATION_PRIVILEGES = ("select", "insert", "update", "delete", "truncate")
SCHEMA_PRIVILEGES = ("usage", "create")


@dataclass(frozen=True)
class Role:
    """`verifier` is what is kept of the password (see passwords.py); None: it has none."""

    name: str
    login: bool = False
    superuser: bool = False
    verifier: str | None = None
    member_of: frozenset[str] = frozenset()


FIRST_ROLES = {SUPERUSER: Role(SUPERUSER, login=True, superuser=True)}
FIRST_GRANTS = {SCHEMA: {PUBLIC: frozenset({"usage"})}}  # as in Postgres since 15


@dataclass(frozen=True)
class Access:
    """Who there is, who owns what, who was granted what; relations by their number. It is replaced, not changed."""

    roles: Mapping[str, Role] = field(default_factory=lambda: dict(FIRST_ROLES))
    owners: Mapping[int, str] = field(default_factory=dict)  # those of the built-in role are not listed
    grants: Mapping[int, Mapping[str, frozenset[str]]] = field(default_factory=lambda: dict(FIRST_GRANTS))

    def owner(self, object: int) -> str:
        return self.owners.get(object, SUPERUSER)

    def names_of(self, role: str) -> frozenset[str]:
        """The role and those that it is a member of, directly or not, and PUBLIC."""
        found: set[str] = {PUBLIC}
        waiting = [role]
        while waiting:
            name = waiting.pop()
            if name not in found and name in self.roles:
                found.add(name)
                waiting += self.roles[name].member_of
        return frozenset(found)

    def is_superuser(self, role: str) -> bool:
        return role in self.roles and self.roles[role].superuser

    def with_role(self, role: Role) -> Access:
        return replace(self, roles={**self.roles, role.name: role})

    def without_role(self, name: str) -> Access:
        """The role, what it was granted and its memberships are gone."""
        roles = {n: replace(r, member_of=r.member_of - {name}) for n, r in self.roles.items() if n != name}
        grants = {o: {r: p for r, p in given.items() if r != name} for o, given in self.grants.items()}
        return replace(self, roles=roles, grants=grants)

    def owned_by(self, object: int, role: str) -> Access:
        owners = {o: r for o, r in self.owners.items() if o != object}
        return replace(self, owners=owners if role == SUPERUSER else {**owners, object: role})

    def granted(self, object: int, role: str, privileges: frozenset[str]) -> Access:
        given = dict(self.grants.get(object, {}))
        given[role] = given.get(role, frozenset()) | privileges
        return replace(self, grants={**self.grants, object: given})

    def revoked(self, object: int, role: str, privileges: frozenset[str]) -> Access:
        given = dict(self.grants.get(object, {}))
        given[role] = given.get(role, frozenset()) - privileges
        return replace(self, grants={**self.grants, object: {r: p for r, p in given.items() if p}})

    def only(self, objects: frozenset[int]) -> Access:
        """Without owners and grants of relations that are gone."""
        kept = objects | {SCHEMA}
        owners = {o: r for o, r in self.owners.items() if o in kept}
        return replace(self, owners=owners, grants={o: g for o, g in self.grants.items() if o in kept})

    def owned(self, role: str) -> Iterator[int]:
        return (o for o, r in self.owners.items() if r == role)


def allowed(access: Access, role: str | None, action: str, object: int) -> bool:
    """May a role do this with a relation (by its number), or with the schema?

    `action` is one of the privileges, or "own": what only the owner may do, such as DROP and GRANT. A role of None is
    the program that has the flow open.

    >>> access = Access().with_role(Role("ann")).with_role(Role("bob", member_of=frozenset({"ann"})))
    >>> access = access.granted(7, "ann", frozenset({"select"}))
    >>> [allowed(access, role, "select", 7) for role in ("ann", "bob", "penstock", "eve")]
    [True, True, True, False]
    >>> allowed(access, "bob", "insert", 7), allowed(access.owned_by(7, "bob"), "bob", "insert", 7)
    (False, True)
    """
    if role is None:
        return True
    if access.is_superuser(role):
        return True
    names = access.names_of(role)
    if object != SCHEMA and access.owner(object) in names:
        return True
    given = access.grants.get(object, {})
    return any(action in given.get(name, ()) for name in names)
